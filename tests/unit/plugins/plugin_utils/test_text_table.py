# SPDX-License-Identifier: BSD-2-Clause
"""Tables that fit a terminal."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.text_table import Column, cut, table_lines, text_width

ROWS = [
    {"name": "qwen2-7b-sft-with-a-long-name", "team": "研究团队", "gpus": 8, "note": None},
    {"name": "bert", "team": "b", "gpus": 16, "note": None},
]
NAME, TEAM = Column("name", "NAME", least=10), Column("team", "TEAM", drop=1)
GPUS, NOTE = Column("gpus", "GPUS"), Column("note", "NOTE", optional=True)


def test_a_table_that_fits_is_not_changed() -> None:
    assert table_lines(ROWS, [NAME, TEAM, GPUS, NOTE], 60) == [
        "NAME                           TEAM      GPUS",
        "qwen2-7b-sft-with-a-long-name  研究团队     8",
        "bert                           b           16",
    ]


@pytest.mark.parametrize(
    ("width", "header", "first"),
    [
        (44, "NAME                           GPUS", "qwen2-7b-sft-with-a-long-name     8"),
        (25, "NAME                 GPUS", "qwen2-7b-sft-with-…     8"),
        (5, "NAME        GPUS", "qwen2-7b-…     8"),
    ],
)
def test_columns_are_left_out_first_and_then_cut(width: int, header: str, first: str) -> None:
    lines = table_lines(ROWS, [NAME, TEAM, GPUS], width)
    assert lines[0].split() == header.split()
    assert lines[1].split() == first.split()


@pytest.mark.parametrize("width", range(16, 60))
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(text_width, table_lines(ROWS, [NAME, TEAM, GPUS], width))) <= width


def test_colours_do_not_change_the_layout() -> None:
    painted = table_lines(ROWS, [NAME, GPUS], 60, lambda key, cell: f"<{cell}>" if key == "name" else cell)
    assert [line.replace("<", "").replace(">", "") for line in painted] == table_lines(ROWS, [NAME, GPUS], 60)
    assert painted[2].startswith("<bert>  ")


@pytest.mark.parametrize(
    ("text", "width", "expected"), [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("研究团队", 5, "研究…")]
)
def test_cut(text: str, width: int, expected: str) -> None:
    assert cut(text, width) == expected
