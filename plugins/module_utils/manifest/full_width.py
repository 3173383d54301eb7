# SPDX-License-Identifier: BSD-2-Clause
"""Full-width punctuation and digits, as a Chinese or Japanese keyboard writes them in place of ASCII. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from ..kube.errors import cut

# U+FF01 to U+FF5E are ASCII in full width (Unicode, Halfwidth and Fullwidth Forms).
_FULL_WIDTH = "\uff01-\uff5e"
_PUNCTUATION = {"\u3000": " ", "\u3001": ",", "\u3002": "."}
_QUOTES = {"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'"}
_ANY = re.compile(f"[{_FULL_WIDTH}{''.join(_PUNCTUATION)}{''.join(_QUOTES)}]")
_KEY = re.compile(r"\s*(?:- +)*(?P<key>[\w.\-]+)\s*\uff1a", re.ASCII)
_LONGEST_SHOWN = 60

Problem = tuple[str, str]
"""What is wrong, and what to do."""


def full_width(text: str, *, shown: bool = True) -> Problem | None:
    """The problem of a text that would be ASCII without such characters; else None.

    A text with Chinese words has its punctuation on purpose, unless it is a key with a colon. The corrected text is
    part of the hint if it may be ``shown``.
    """
    if key := _KEY.match(text):
        hint = f"Write `{key['key']}: `, with an ASCII colon and a space"
        return f"{_character_name(text[key.end() - 1])} after {key['key']}", hint
    return full_width_in_value(text, shown=shown)


def full_width_in_value(text: str, *, shown: bool) -> Problem | None:
    """The same for a text that begins with no key. Unless it may be ``shown``, no more of it than the character is."""
    if text.isascii():
        return None
    found = _ANY.search(text)
    if found is None or not in_ascii(text).isascii():
        return None
    if shown:
        return _character_name(found[0]), f"Write {cut(in_ascii(text), _LONGEST_SHOWN)}"
    return _character_name(found[0]), f"Replace it with {_ascii(found[0])!r}"


def in_ascii(text: str) -> str:
    """The text with each of these characters as it is in ASCII."""
    return _ANY.sub(lambda match: _ascii(match[0]), text)


def has_quotes_only(text: str) -> bool:
    """Whether quotation marks are all that is not ASCII in it, as in good typography."""
    return all(character.isascii() or character in _QUOTES for character in text)


def slip(lines: Sequence[str], stumbled: Iterable[int]) -> tuple[int, int, Problem] | None:
    """Line and column of such a character in YAML, where the parser ``stumbled`` over it, and its problem.

    That is in these lines, or a key with a colon in any above them.
    """
    places = set(stumbled)
    for number, line in enumerate(lines[: max(places) + 1]):
        key = _KEY.match(line)
        found = _ANY.search(line) if number in places and in_ascii(line).isascii() else None
        column = key.end() - 1 if key else found.start() if found else None
        problem = full_width(line, shown=False) if column is not None else None
        if column is not None and problem:
            return number, column, problem
    return None


def _character_name(character: str) -> str:
    """``full-width colon`` and the character."""
    name = unicodedata.name(character).lower().replace("fullwidth", "full-width")
    return f"{name} ({character})" if not character.isspace() else name


def _ascii(character: str) -> str:
    return (_PUNCTUATION | _QUOTES).get(character) or chr(ord(character) - 0xFEE0)
