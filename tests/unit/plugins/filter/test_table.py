# SPDX-License-Identifier: BSD-2-Clause
"""The filter table: its layout, and its messages for wrong arguments."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.runwhere.gpuctl.plugins.filter.table import FilterModule

table = FilterModule().filters()["table"]

JOBS = [
    {"name": "qwen2-7b-sft", "gpu_total": 4, "status": "Running"},
    {"name": "nb", "gpu_total": 16, "status": "Pending"},
]


@pytest.mark.parametrize(
    ("rows", "columns", "lines"),
    [
        pytest.param(
            JOBS,
            None,
            ["NAME          GPU TOTAL  STATUS", "qwen2-7b-sft          4  Running", "nb                   16  Pending"],
            id="all keys, numbers right-aligned, no trailing spaces",
        ),
        pytest.param(JOBS, ["status"], ["STATUS", "Running", "Pending"], id="only the given columns"),
        pytest.param(
            JOBS,
            [{"key": "gpu_total", "title": "#"}, "name"],
            [" #  NAME", " 4  qwen2-7b-sft", "16  nb"],
            id="the order and titles of columns",
        ),
        pytest.param(
            [{"a": 1}, {"b": 2}], None, ["A  B", "1  -", "-  2"], id="the keys of all rows, a dash for a missing value"
        ),
        pytest.param(
            [{"a": None}, {"a": ""}, {"a": []}, {"a": {}}], None, ["A", *"----"], id="empty values are dashes"
        ),
        pytest.param([{"a": 0}, {"a": False}, {"a": True}], None, ["A", "0", "no", "yes"], id="zero and booleans"),
        pytest.param([{"a": 1.5}, {"a": None}], None, ["  A", "1.5", "  -"], id="a dash among numbers"),
        pytest.param([{"a": 1}, {"a": "x10"}], None, ["A", "1", "x10"], id="numbers among words are left-aligned"),
        pytest.param([{"a": ["x", 1, None]}], None, ["A", "x,1,-"], id="lists joined"),
        pytest.param([{"a": {"x": 1, "y": [2, 3]}}], None, ["A", "x=1,y=2,3"], id="dictionaries as key=value"),
        pytest.param(
            [{"a\x1b": "\x1b[31mx\u202e"}], None, ["A\\x1b", "\\x1b[31mx\\u202e"], id="what would act on a terminal"
        ),
        pytest.param([{"a": "two\nlines "}], None, ["A", "two lines"], id="a line break does not break the table"),
        pytest.param(
            [{"r": {"gpu": {"used": 3}}}, {"r": None}, {}],
            ["r.gpu.used"],
            ["USED", "   3", "   -", "   -"],
            id="nested keys",
        ),
        pytest.param(
            [{"runwhere.ai/pool": "a", "labels": {"runwhere.ai/pool": "b"}}],
            ["runwhere.ai/pool", {"key": "labels.runwhere.ai/pool", "title": "L"}],
            ["AI/POOL  L", "a        b"],
            id="a key that contains dots",
        ),
        pytest.param(
            [{"name": "训练池", "n": "x"}, {"name": "dev", "n": "y"}],
            None,
            ["NAME    N", "训练池  x", "dev     y"],
            id="wide characters take two places",
        ),
        pytest.param(
            [{"a": "e\u0301te", "b": 1}], None, ["A    B", "e\u0301te  1"], id="combining characters take none"
        ),
        pytest.param(
            [{"a": "0/4 nodes are available"}, {"a": "short"}],
            [{"key": "a", "max_width": 8}],
            ["A", "0/4 nod…", "short"],
            id="max_width cuts long values",
        ),
        pytest.param(
            [{"a": "训练任务"}],
            [{"key": "a", "max_width": 6}],
            ["A", "训练…"],
            id="a wide character is not cut in half",
        ),
        pytest.param([], ["name", "status"], ["NAME  STATUS"], id="only titles without rows"),
        pytest.param([], None, [""], id="neither rows nor columns"),
        pytest.param(({"a": n} for n in (1, 2)), None, ["A", "1", "2"], id="a generator, as Jinja's select gives"),
    ],
)
def test_layout(rows: Any, columns: Any, lines: list[str]) -> None:
    assert table(rows, columns).split("\n") == lines


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ({"a": 1}, None, "table: the input must be a list of dictionaries, not dict"),
        ("text", None, "table: the input must be a list of dictionaries, not 'text' of type str"),
        (3, None, "table: the input must be a list of dictionaries, not 3 of type int"),
        ([{"a": 1}, "b"], None, "table: element 2 must be a dictionary, not 'b' of type str"),
        (JOBS, "name", "table: columns must be a list, not 'name' of type str"),
        (
            JOBS,
            [{"title": "X"}],
            "table: invalid column: {'title': 'X'}. Use the name of a key, or a dictionary with a key.",
        ),
        (
            JOBS,
            [{"key": "name", "width": 3}],
            "table: unknown key in column name: width. Valid keys: key, title, max_width.",
        ),
        (
            JOBS,
            [{"key": "name", "max_width": 0}],
            "table: invalid max_width of column name: 0. Use an integer above 0.",
        ),
        (
            JOBS,
            [{"key": "name", "max_width": "9"}],
            "table: invalid max_width of column name: '9'. Use an integer above 0.",
        ),
    ],
)
def test_wrong_arguments_are_explained(rows: Any, columns: Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        table(rows, columns)
    assert str(caught.value) == message
