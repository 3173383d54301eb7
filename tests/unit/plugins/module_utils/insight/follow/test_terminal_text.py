# SPDX-License-Identifier: BSD-2-Clause
"""What of a log line reaches a terminal."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow.terminal_text import terminal_text

# the line, with colours, without
TEXTS = {
    "plain": ("step 1", "step 1", "step 1"),
    "a colour": ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m", "red"),
    "a colour that is not reset": ("\x1b[31mred", "\x1b[31mred\x1b[0m", "red"),
    "256 colours": ("\x1b[38;5;8mgrey\x1b[0m", "\x1b[38;5;8mgrey\x1b[0m", "grey"),
    "16 million colours": ("\x1b[48;2;8;8;8mx\x1b[0m", "\x1b[48;2;8;8;8mx\x1b[0m", "x"),
    "hidden text": ("\x1b[8mrm -rf\x1b[0m", "rm -rf\x1b[0m", "rm -rf"),
    "hidden text in a colour": ("\x1b[31;8mx", "x", "x"),
    "a progress bar of several lines": ("\x1b[A\x1b[2Kx", "x", "x"),
    "the screen": ("\x1b[2J\x1b[Hx", "x", "x"),
    "a title": ("\x1b]0;title\x07x", r"\x1b]0;title\x07x", r"\x1b]0;title\x07x"),
    "another direction": ("a\u202eb", r"a\u202eb", r"a\u202eb"),
    "a return": ("a\rb", r"a\x0db", r"a\x0db"),
    "Chinese": ("你好", "你好", "你好"),
    "half of a sequence": ("x\x1b[3", r"x\x1b[3", r"x\x1b[3"),
}


@pytest.mark.parametrize(("text", "colored", "plain"), TEXTS.values(), ids=TEXTS)
def test_what_acts_on_a_terminal_is_left_out_but_for_colours(text: str, colored: str, plain: str) -> None:
    assert terminal_text(text, colors=True) == colored
    assert terminal_text(text, colors=False) == plain
