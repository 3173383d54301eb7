# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lay out a table of text, and fit it to a terminal. Pure."""

from __future__ import annotations

import numbers
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from ..module_utils.printable import printable

GAP = "  "
MISSING = "-"
ELLIPSIS = "…"


@dataclass(frozen=True)
class Column:
    """A column: the key of its values, with dots for nested ones, and its title.

    ``max_width`` cuts longer values. If the table is too wide, columns with a ``drop`` are left out, the highest first,
    and then those with ``least`` are cut, down to that many characters. A column that is ``optional`` is left out if it
    has no value. Numbers are right-aligned, and texts of a column that is ``numeric``. The texts of one that
    ``wraps`` go on below, where others are cut, and none is left out for it to be wider. ``on`` is "screen" or "page"
    for a column of a report that is only shown there.
    """

    key: str
    title: str
    max_width: int | None = None
    least: int | None = None
    drop: int = 0
    optional: bool = False
    numeric: bool = False
    wraps: bool = False
    on: str = ""

    def is_shown(self, values: Sequence[Any]) -> bool:
        return not self.optional or any(value not in (None, "", 0, []) for value in values)

    def is_right(self, values: Sequence[Any]) -> bool:
        present = [value for value in values if value is not None]
        are_numbers = (isinstance(value, numbers.Real) and not isinstance(value, bool) for value in present)
        return self.numeric or (bool(present) and all(are_numbers))


def title_of(key: str) -> str:
    """``resources.gpu_type`` -> ``GPU TYPE``."""
    return key.rpartition(".")[2].replace("_", " ").upper()


def table_lines(
    rows: Sequence[Mapping[str, Any]],
    columns: Iterable[Column],
    width: int | None = None,
    paint: Callable[[str, str], str] = lambda key, cell: cell,
) -> list[str]:
    """The lines of a table, a header first, at most ``width`` characters wide if its columns can be made so narrow.

    ``paint`` gets the key and the text of each cell below the header, and returns it with colours.
    """
    laid_out = [_Cells.of(column, [value_at(row, column.key) for row in rows]) for column in columns]
    shown = _fitted([each for each in laid_out if each.is_shown], width)
    found = [GAP.join(each.aligned(printable(each.column.title)) for each in shown).rstrip()] if shown else []
    for cells in zip(*(each.cells for each in shown), strict=True):
        texts = [each.lines(cell) for each, cell in zip(shown, cells, strict=True)]
        for line in zip_longest(*texts, fillvalue=""):
            aligned = (each.aligned(text, paint) for each, text in zip(shown, line, strict=True))
            found.append(GAP.join(aligned).rstrip())
    return found


def _broken(text: str, width: int) -> list[str]:
    """The text in parts of the width: a name of an image can be longer than a column."""
    parts, part = [], ""
    for character in text:
        if part and text_width(part + character) > width:
            parts.append(part)
            part = ""
        part += character
    return [*parts, part]


@dataclass(frozen=True)
class _Cells:
    """The cells of a column below its title, ``width`` characters wide in the table; numbers are right-aligned."""

    column: Column
    cells: tuple[str, ...]
    width: int
    right: bool
    is_shown: bool

    @classmethod
    def of(cls, column: Column, values: Sequence[Any]) -> _Cells:
        cells = tuple(cut(cell_text(value), column.max_width) for value in values)
        width = max(map(text_width, (printable(column.title), *cells)))
        return cls(column, cells, width, column.is_right(values), column.is_shown(values))

    @property
    def spare(self) -> int:
        """By how many characters the column can be cut."""
        return max(0, self.width - max(self.column.least, text_width(self.column.title))) if self.column.least else 0

    def lines(self, cell: str) -> list[str]:
        """The lines of a cell: one, unless the column wraps."""
        if not self.column.wraps:
            return [cell]
        return [part for text in wrapped(cell, self.width) for part in _broken(text, self.width)]

    def aligned(self, cell: str, paint: Callable[[str, str], str] = lambda key, cell: cell) -> str:
        text = cut(cell, self.width)
        blanks = " " * (self.width - text_width(text))
        return blanks + paint(self.column.key, text) if self.right else paint(self.column.key, text) + blanks


def _fitted(columns: Sequence[_Cells], width: int | None) -> Sequence[_Cells]:
    """The columns that fit into the width, and are cut only if no other can be left out."""
    if width is None or not columns:
        return columns
    excess = sum(each.width for each in columns) + len(GAP) * (len(columns) - 1) - width
    last = max(columns, key=lambda each: each.column.drop)
    if excess > sum(each.spare for each in columns if each.column.wraps) and last.column.drop:
        return _fitted([each for each in columns if each is not last], width)
    narrowed = list(columns)
    for _character in range(excess):
        position = max(range(len(narrowed)), key=lambda number: narrowed[number].spare)
        if not narrowed[position].spare:
            break
        narrowed[position] = replace(narrowed[position], width=narrowed[position].width - 1)
    return narrowed


def value_at(row: Mapping[str, Any], key: str) -> Any:
    """The value at `key`; a key that contains dots itself (a label) takes precedence over a nested one."""
    if key in row:
        return row[key]
    first, _dot, rest = key.partition(".")
    inner = row.get(first)
    return value_at(inner, rest) if rest and isinstance(inner, Mapping) else None


def cell_text(value: Any) -> str:
    """A value in one line."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={cell_text(inner)}" for key, inner in value.items()) or MISSING
    if isinstance(value, (list, tuple, set)):
        return ",".join(cell_text(inner) for inner in value) or MISSING
    return printable(" ".join(str(value).split()))  # a line break would break the table


def cut(text: str, width: int | None) -> str:
    """The text in at most ``width`` columns of a terminal, with an ellipsis where it was cut."""
    if width is None or text_width(text) <= width:
        return text
    while text_width(text) + text_width(ELLIPSIS) > width:
        text = text[:-1]
    return text + ELLIPSIS


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """The text in lines of at most ``width`` columns, all but the first indented; a longer word has its own line.

    An option of the command line stays with its value, so that it can be copied.
    """
    lines, line = [], ""
    for word in re.findall(r"-e \S+|\S+", text):
        longer = f"{line} {word}" if line.strip() else line + word
        if line.strip() and text_width(longer) > width:
            lines.append(line)
            longer = indent + word
        line = longer
    return [*lines, line]


def text_width(text: str) -> int:
    """The columns of `text` in a terminal: two for a wide character (UAX #11), none for a combining one.

    ansible.utils.display.get_text_width uses the C library, whose result depends on the locale of the process.
    """
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(character) in ("Mn", "Me", "Cf")
        else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def minute(time: str | None) -> str | None:
    """``2026-03-01T10:00:00Z`` -> ``2026-03-01 10:00``"""
    return time and time[:16].replace("T", " ")


def time_range(result: Mapping[str, Any]) -> str:
    """``2026-03-01 10:00 to 2026-03-02 10:00 UTC``"""
    return f"{minute(result['start'])} to {minute(result['end'])} UTC"
