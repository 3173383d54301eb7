# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Curves as a line of text: blocks of eight heights, or ASCII where the terminal has none. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-=+*#%"
GAP = " "


def sparkline(
    values: Sequence[float | None], width: int, *, low: float = 0.0, high: float | None = None, levels: str = BLOCKS
) -> str:
    """The values, in at most ``width`` characters, from ``low`` to ``high``, by default the highest of them.

    Of several values in one character, the highest counts: a curve must not lose its peak. None is a gap.
    """
    shown = _highest_of_columns(values, width)
    top = max((value for value in shown if value is not None), default=low) if high is None else high
    return "".join(GAP if value is None else levels[_level_of(value, low, top, len(levels))] for value in shown)


def levels_for(encoding: str | None) -> str:
    """The characters that a terminal with that encoding can show."""
    try:
        BLOCKS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


def on_grid(points: Iterable[tuple[float, float]], start: float, end: float, step: float) -> list[float | None]:
    """A value for each step of a range; None where there is no point."""
    found: list[float | None] = [None] * (int((end - start) / step + 1e-9) + 1 if end >= start else 0)
    for time, value in points:
        number = round((time - start) / step)
        if 0 <= number < len(found):
            found[number] = value
    return found


def _highest_of_columns(values: Sequence[float | None], width: int) -> list[float | None]:
    count = min(len(values), max(width, 1))
    bounds = [len(values) * number // count for number in range(count + 1)] if count else []
    return [
        max((value for value in values[first:last] if value is not None), default=None)
        for first, last in pairwise(bounds)
    ]


def _level_of(value: float, low: float, top: float, levels: int) -> int:
    if top <= low:
        return 0
    share = (value - low) / (top - low)
    return min(max(int(share * levels), 0), levels - 1)
