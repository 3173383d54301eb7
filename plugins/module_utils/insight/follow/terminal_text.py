# SPDX-License-Identifier: BSD-2-Clause
"""A line of a log as a terminal may show it: with its colours, and without anything else that acts on it. Pure."""

from __future__ import annotations

import re

from ...printable import printable

# ECMA-48: control sequences, of which those that end with m set colours; and the choice of a character set.
_SEQUENCE = re.compile("(\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[()][0-9A-Za-z])")
_COLOR = re.compile(r"\x1b\[([0-9;]*)m")
_HIDDEN = re.compile(r"(?:^|;)0*8(?:;|$)")
_OTHER_COLORS = re.compile(r"(?:^|(?<=;))0*[34]8;(?:0*5;\d*|0*2;\d*;\d*;\d*)")
_RESET = "\x1b[0m"


def terminal_text(text: str, *, colors: bool) -> str:
    """Sequences that move the cursor or erase, as progress bars use them, are left out, and hidden text is shown."""
    if text.isprintable():
        return text
    parts = _SEQUENCE.split(text)
    shown = [_color(part, colors) if number % 2 else printable(part) for number, part in enumerate(parts)]
    found = "".join(shown)
    return found + _RESET if _COLOR.search(found) and not found.endswith(_RESET) else found


def _color(sequence: str, colors: bool) -> str:
    found = _COLOR.fullmatch(sequence)
    return sequence if colors and found and not _HIDDEN.search(_OTHER_COLORS.sub("", found[1])) else ""
