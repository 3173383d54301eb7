# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a report says: a value that the terminal (report_screen.py) and an HTML file (html_page.py) show. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from .text_table import Column

Row = Mapping[str, Any]
Value: TypeAlias = "float | int | None"

# A cell with one of these keys is a status: a page shows it as a badge, a terminal in a colour.
STATUS_KEYS = ("status", "shown_status")
_WORDS = {
    "good": ("Running", "Succeeded", "active", "ok", "now", "create"),
    "warning": (
        *("Pending", "Partially Running", "Paused", "Unknown", "maintaining", "warning", "unknown", "not known"),
        *("by preemption", "after other jobs", "after nodes come", "after quota", "restart", "recreate"),
    ),
    "bad": ("Failed", "TimedOut", "faulty", "error", "never", "delete", "refused"),
}
LEVELS = {word: level for level, words in _WORDS.items() for word in words}


class Details(NamedTuple):
    """A cell of a page whose texts a click shows."""

    summary: str
    texts: Sequence[str]


@dataclass(frozen=True)
class Text:
    """A paragraph. ``level`` (good, warning or bad) is a colour only: the text says what is wrong."""

    text: str
    level: str = ""


@dataclass(frozen=True)
class Notes:
    """Texts of one kind. A terminal shows the first ones, and counts the others by their noun."""

    texts: Sequence[str]
    level: str = ""
    noun: str = "note"
    first: int | None = None


@dataclass(frozen=True)
class Names:
    """What the text is about. A terminal shows some of the names, and counts the others."""

    text: str
    names: Sequence[str]


class Group(NamedTuple):
    """A title with items, each a text and a remark on it or ``""``."""

    title: str
    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Groups:
    """Groups of items. A terminal shows the first groups, and counts the others by their noun."""

    groups: Sequence[Group]
    noun: str = "group"
    first: int | None = None


@dataclass(frozen=True)
class Table:
    """Rows, of which a terminal shows the first ones, or the last ones of a table that ``ends``.

    ``count`` is the number of all, if there are more than these.

    ``head`` is the key of the column that names a row, by default the first one. If a terminal has no room for one of
    the columns ``keep``, it shows the blocks ``narrow`` instead.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    caption: str
    noun: str = "row"
    first: int | None = 20
    count: int | None = None
    ends: bool = False
    totals: Row | None = None
    head: str = ""
    keep: Sequence[str] = ()
    narrow: Sequence[Block] = ()


@dataclass(frozen=True)
class Reasons:
    """Why rows are as they are: each reason once, with the rows that share it."""

    rows: Sequence[Row]
    first: int | None = 3


@dataclass(frozen=True)
class Facts:
    """Key, name and value of each fact about one thing, below a title on a terminal."""

    title: str
    facts: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Figures:
    """The most important figures of a page: what each is, its value, and a remark or ``""``."""

    figures: Sequence[tuple[str, Any, str]]


class Bar(NamedTuple):
    """A bar in segments, whose names are those of the legend, and the text behind it."""

    label: str
    segments: Sequence[tuple[str, float]]
    text: str


@dataclass(frozen=True)
class Bars:
    """Bars of a page, all to one scale. What is not known has a segment of that name, which is hatched."""

    caption: str
    bars: Sequence[Bar]
    legend: Sequence[str]
    unit: str


class Curve(NamedTuple):
    """A value for each step, None where it is not known, with what a person reads: average, peak and last value."""

    title: str
    values: Sequence[Value]
    unit: str
    high: float | None
    average: str
    peak: str
    last: str


@dataclass(frozen=True)
class Curves:
    """Curves over the same time, whose ends are texts."""

    curves: Sequence[Curve]
    start: str
    end: str


@dataclass(frozen=True)
class Logs:
    """Lines as they are, below a title. A terminal shows the ``first`` of them, and of each the ``last`` lines."""

    logs: Sequence[tuple[str, Sequence[str]]]
    first: int | None = None
    last: int = 0


Block: TypeAlias = "Text | Notes | Names | Groups | Table | Reasons | Facts | Figures | Bars | Curves | Logs"


class Section(NamedTuple):
    """Blocks below a title, which only a page shows. ``tight``: no empty lines between them on a terminal."""

    title: str
    blocks: Sequence[Block]
    on: str = ""  # "screen" or "page" if only there, "short" or "full" if only where that much is shown
    tight: bool = False


@dataclass(frozen=True)
class Report:
    """The title, lead and footer are those of a page."""

    title: str
    sections: Sequence[Section]
    lead: str = ""
    footer: str = "runwhere.gpuctl"
