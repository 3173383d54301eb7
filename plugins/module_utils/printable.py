# SPDX-License-Identifier: BSD-2-Clause
"""Text from outside as a terminal may show it: characters that would act on the terminal, or hide text, become visible.

Logs, messages of servers, names of files and manifests reach terminals and files through warnings, diffs, tables and
results. There, an escape sequence clears the screen or sets the clipboard, and a bidirectional control shows another
text than is there (CVE-2021-42574). Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any

# C0 but for \t and \n, DEL and C1; Unicode's invisible format characters, bidirectional controls (UAX #9) and line
# separators; the tag characters; and lone surrogates, which cannot be encoded.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
AT_ONCE = 1000  # rows that are made JSON: the text of tens of thousands would be as large as they are
_ESCAPES = ("\\u", "\\b", "\\f", "\\r")  # in JSON
_SURROGATE = re.compile("[\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text with such characters as ``\xNN`` or ``\uNNNN``. Line breaks and tabs stay."""
    if text.isprintable():  # of C speed, and true for nearly every text
        return text
    return _ACTING.sub(_visible, text)


def one_line(text: str) -> str:
    """The same for a name of a file or a line of a message: its line breaks and tabs become visible, too."""
    return printable(text).replace("\n", r"\x0a").replace("\t", r"\x09")


def printable_data(data: Any) -> Any:
    """Lists, tuples and dictionaries with printable texts, keys among them. What needs no change is not copied."""
    return _converted(data) if _may_act(data) else data


def _may_act(data: Any) -> bool:
    """Whether a text in it may have such a character. JSON is of C speed."""
    if isinstance(data, list) and len(data) > AT_ONCE:
        return any(_may_act(data[start : start + AT_ONCE]) for start in range(0, len(data), AT_ONCE))
    try:
        text = json.dumps(data, ensure_ascii=False)
    except (TypeError, ValueError):
        return True
    return not text.isprintable() or any(escape in text for escape in _ESCAPES)


def _converted(data: Any) -> Any:
    if isinstance(data, str):
        return printable(data)
    if isinstance(data, dict):
        return {_converted(key): _converted(value) for key, value in data.items()}
    return [_converted(item) for item in data] if isinstance(data, (list, tuple)) else data


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def half_of_a_character(text: str) -> str | None:
    """The problem of a surrogate without its other half, which UTF-8 cannot express (RFC 3629, section 3)."""
    lone = None if text.isascii() else _SURROGATE.search(text)
    return f"half of a character: \\u{ord(lone[0]):04x}" if lone else None
