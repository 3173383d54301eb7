# SPDX-License-Identifier: BSD-2-Clause
"""Which characters of a text from outside are shown as they are."""

from __future__ import annotations

import sys
import unicodedata
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.printable import one_line, printable, printable_data

TEXTS = {
    "plain": ("loss 0.87 at step 10", "loss 0.87 at step 10"),
    "lines and tabs": ("a\tb\nc\n", "a\tb\nc\n"),
    "other scripts": ("试验 é ע ع 👩🏽 ❤️", "试验 é ע ع 👩🏽 ❤️"),
    "a colour": ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
    "the clipboard": ("\x1b]52;c;eA==\x07", r"\x1b]52;c;eA==\x07"),
    "control characters of one byte": ("\x9b31m\x90", r"\x9b31m\x90"),
    "the cursor": ("100%\r\x08\x0b\x7f\x00", r"100%\x0d\x08\x0b\x7f\x00"),
    "the direction of text": ("a\u202eb\u2066c\u061c", r"a\u202eb\u2066c\u061c"),
    "nothing to see": ("a\u200bb\u200d\ufeff\u00ad\u2060", r"a\u200bb\u200d\ufeff\xad\u2060"),
    "separators of lines": ("a\u2028b\u2029", r"a\u2028b\u2029"),
    "tags": ("a\U000e0041", r"a\U000e0041"),
    "no character": ("a\udcff", r"a\udcff"),
}


@pytest.mark.parametrize(("text", "shown"), TEXTS.values(), ids=TEXTS)
def test_a_text(text: str, shown: str):
    assert printable(text) == shown
    assert printable(printable(text)) == shown
    shown.encode()


def test_no_character_that_acts_is_left():
    """By the categories of Unicode: controls, surrogates and separators, and what UAX #9 calls explicit formatting."""
    acting = {chr(number) for number in range(sys.maxunicode + 1)} - {"\n", "\t"}
    acting = {
        character
        for character in acting
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    }
    assert len(acting) > 2000
    assert [character for character in acting if printable(character) == character] == []


def test_a_name_has_one_line():
    assert one_line("a\nTASK [b]\t\x1b") == r"a\x0aTASK [b]\x09\x1b"


DATA: dict[str, tuple[Any, Any]] = {
    "nothing to do": ({"a": [1, None, True, "x\ny", ("z",)]}, {"a": [1, None, True, "x\ny", ("z",)]}),
    "a value": ({"a": {"b": ["x", "\x1b"]}, "c": 1}, {"a": {"b": ["x", r"\x1b"]}, "c": 1}),
    "a key": ({"a\x1b": 1}, {r"a\x1b": 1}),
    "a tuple": (("\x1b", 1), [r"\x1b", 1]),
    "a number as key": ({1: "\x1b"}, {1: r"\x1b"}),
    "a backslash": ({"a": r"C:\users\b\f\r"}, {"a": r"C:\users\b\f\r"}),
    **{f"only {one!r}": ({"a": one}, {"a": f"\\x{ord(one):02x}"}) for one in "\b\f\r\x1f\x7f\x9b"},
    "a direction of text, which JSON leaves": ({"a": "\u202e"}, {"a": r"\u202e"}),
    "what is not JSON": ({"a": {1}, "b": "\x1b"}, {"a": {1}, "b": r"\x1b"}),
}


@pytest.mark.parametrize(("data", "shown"), DATA.values(), ids=DATA)
def test_data(data: Any, shown: Any):
    assert printable_data(data) == shown


def test_data_without_such_characters_is_not_copied():
    data = {"a": ["试验", "x\n"]}
    assert printable_data(data) is data
