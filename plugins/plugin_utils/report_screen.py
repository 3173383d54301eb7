# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A report as the lines of a terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..module_utils.manifest.problems import abridged
from .report import Block, Curves, Facts, Groups, Logs, Names, Notes, Reasons, Report, Section, Table, Text
from .screens import Paint, joined_blocks, reasons_block, rest_line
from .sparkline import BLOCKS, sparkline
from .text_table import Column, table_lines, text_width, wrapped


class View(NamedTuple):
    """How wide the terminal is, whether nothing is left out, and which colours and characters of curves it has."""

    width: int
    everything: bool = False
    paint: Paint = lambda _key, cell: cell
    levels: str = BLOCKS


def screen_lines(report: Report, view: View) -> list[str]:
    shown = ("", "screen", "full" if view.everything else "short")
    return joined_blocks(_section_lines(section, view) for section in report.sections if section.on in shown)


def _section_lines(section: Section, view: View) -> list[str]:
    found = [_block_lines(block, view) for block in section.blocks]
    return [line for lines in found for line in lines] if section.tight else joined_blocks(found)


def _block_lines(block: Block, view: View) -> list[str]:
    match block:
        case Text():
            return wrapped(block.text, view.width)
        case Notes():
            first = None if view.everything else block.first
            lines = [line for text in block.texts[:first] for line in wrapped(text, view.width, indent="  ")]
            return lines + rest_line(len(block.texts[first:]) if first else 0, block.noun)
        case Names():
            names = abridged(block.names, len(block.names) if view.everything else 3) if block.names else ""
            return wrapped(f"{block.text}: {names}.", view.width, indent="  ") if names else []
        case Groups():
            return _group_lines(block, view)
        case Table():
            return _table_lines(block, view)
        case Reasons():
            return reasons_block(block.rows, view.width, None if view.everything else block.first)
        case Facts():
            return _fact_lines(block, view)
        case Curves():
            return _curve_lines(block, view)
        case Logs():
            first, last = (None, 0) if view.everything else (block.first, -block.last)
            return joined_blocks(
                [*wrapped(title, view.width), *(f"  {line}" for line in lines[last:])]
                for title, lines in block.logs[:first]
            )
    return []  # A terminal has neither figures nor bars.


def _cut(rows: Sequence[object], first: int | None, view: View) -> int | None:
    """How many are shown if not all. A line that counts one more takes the place of that one."""
    return first if first and not view.everything and len(rows) > first + 1 else None


def _group_lines(block: Groups, view: View) -> list[str]:
    first = _cut(block.groups, block.first, view)
    shown = []
    for title, items in block.groups[:first]:
        lines = wrapped(title, view.width, indent="    ")
        for text, remark in items:
            lines += _indented(text, view.width, 2)
            lines += _indented(remark, view.width, 4) if remark else []
        shown.append(lines)
    return joined_blocks([*shown, rest_line(len(block.groups[first:]) if first else 0, block.noun)])


def _indented(text: str, width: int, by: int) -> list[str]:
    return [f"{' ' * by}{line}" for line in wrapped(text, width - by, indent="  ")]


def _table_lines(table: Table, view: View) -> list[str]:
    first = _cut(table.rows, table.first, view)
    shown = table.rows[-first:] if first and table.ends else table.rows[:first]
    cells = [*shown, *([] if table.totals is None else [table.totals])]
    if not cells:
        return []
    columns = [column for column in table.columns if column.on != "page"]
    lines = table_lines(cells, columns, view.width, view.paint)
    if table.narrow and any(column.title not in lines[0] for column in columns if column.key in table.keep):
        return joined_blocks(_block_lines(block, view) for block in table.narrow)
    return lines + rest_line((table.count or len(table.rows)) - len(shown), table.noun)


def _fact_lines(block: Facts, view: View) -> list[str]:
    longest, lines = max((len(name) for _key, name, _value in block.facts), default=0), [block.title]
    for key, name, value in block.facts:
        first, *more = wrapped(value, view.width - longest - 2)
        lines += [f"{name:<{longest}}  {view.paint(key, first)}", *(f"{'':<{longest}}  {line}" for line in more)]
    return lines


_CURVE_COLUMNS = (
    Column("title", "METRIC"),
    Column("average", "AVERAGE", drop=2),
    Column("peak", "PEAK", drop=1),
    Column("last", "LAST"),
)
_NARROWEST, _WIDEST = 10, 60  # characters of a sparkline


def _curve_lines(block: Curves, view: View) -> list[str]:
    """A table of the figures, and the curves beside it if there is room."""
    lines = table_lines([curve._asdict() for curve in block.curves], _CURVE_COLUMNS, view.width)
    widest = max(map(text_width, lines))
    room = view.width - widest - 2
    if room < _NARROWEST:
        return lines
    drawn = [sparkline(curve.values, min(room, _WIDEST), high=curve.high, levels=view.levels) for curve in block.curves]
    beside = zip(lines, ["", *drawn], strict=True)
    return [f"{line}{' ' * (widest + 2 - text_width(line))}{text}".rstrip() for line, text in beside]
