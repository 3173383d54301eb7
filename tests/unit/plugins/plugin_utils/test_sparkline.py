# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.sparkline import (
    ASCII,
    BLOCKS,
    levels_for,
    on_grid,
    sparkline,
)

CASES: dict[str, tuple[list[float | None], int, float | None, str]] = {
    "nothing": ([], 10, None, ""),
    "a rise": ([0, 1, 2, 3, 4, 5, 6, 7], 10, None, "▁▂▃▄▅▆▇█"),
    "a gap": ([7, None, 7], 10, 7, "█ █"),
    "only gaps": ([None, None], 10, None, "  "),
    "to a scale": ([0.5, 1.0, 2.0], 10, 1.0, "▅██"),
    "nothing but zero": ([0, 0], 10, None, "▁▁"),
    "a peak is kept": ([0, 0, 0, 9, 0, 0], 2, None, "▁█"),
    "below the scale": ([-1, 8], 10, None, "▁█"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_sparkline(name: str) -> None:
    values, width, high, expected = CASES[name]
    assert sparkline(values, width, high=high) == expected


def test_a_terminal_without_blocks_gets_ascii() -> None:
    assert (levels_for("utf-8"), levels_for("ascii"), levels_for(None), levels_for("none")) == (
        BLOCKS,
        ASCII,
        ASCII,
        ASCII,
    )
    assert sparkline([0, 4, 7], 10, levels=ASCII) == "_+%"


def test_points_on_a_grid() -> None:
    assert on_grid([(10, 1.0), (30.2, 3.0), (90, 9.0)], 10, 40, 10) == [1.0, None, 3.0, None]
    assert on_grid([], 10, 0, 10) == []
