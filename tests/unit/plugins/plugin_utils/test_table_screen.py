# SPDX-License-Identifier: BSD-2-Clause
"""One table alone, for who may not read all of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.table_screen import table_screen

NODE = {"node_name": "node-1", "status": "active", "gpu_total": 8, "gpu_used": None, "gpu_free": None, "labels": {}}
POOL = {"name": "a", "status": "active", "gpu_total": 8, "gpu_used": None, "gpu_free": None, "node_count": 1}
RESULT = {"namespace": "team-a", "jobs": [], "pods": [], "quotas": [], "nodes": [NODE], "pools": [POOL]}
USAGE, POOLS = "How many GPUs are free is not known", "Pools without nodes are not shown"


def screen(table: str, labels: bool = False, **unreadable: str) -> str:
    result: dict[str, Any] = {**RESULT, "unreadable": unreadable}
    return "\n".join(table_screen(table, result, 80, everything=False, paint=lambda _key, cell: cell, labels=labels))


@pytest.mark.parametrize(
    ("table", "unreadable", "expected"),
    [
        ("nodes", ["usage", "pools"], [USAGE]),
        ("pools", ["usage", "pools"], [USAGE, POOLS]),
        ("nodes", ["nodes"], ["The nodes are not shown: forbidden"]),
        ("pools", ["nodes"], ["The pools are not shown: forbidden"]),
        ("quotas", ["quotas"], ["Quotas are not shown: forbidden"]),
        ("jobs", ["nodes", "usage", "pools", "quotas"], []),
    ],
)
def test_what_cannot_be_read_is_said_where_it_is_missing(
    table: str, unreadable: list[str], expected: list[str]
) -> None:
    shown = screen(table, **dict.fromkeys(unreadable, "forbidden"))
    assert [text for text in (USAGE, POOLS, "forbidden") if text in shown] == [
        text if "forbidden" not in text else "forbidden" for text in expected
    ]
    assert all(text in shown for text in expected)


def test_labels_need_no_usage() -> None:
    assert screen("nodes", labels=True, usage="forbidden").split() == ["NODE", "LABELS", "node-1", "-"]


def test_labels_that_do_not_fit_have_a_line_each() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "runwhere.ai/gpu-type": "A100-80G", "pool": "training"}
    rows = [{**NODE, "labels": labels}, {**NODE, "node_name": "node-2"}]
    result = {**RESULT, "nodes": rows, "unreadable": {}}
    lines = table_screen("nodes", result, 80, everything=False, paint=lambda _key, cell: cell, labels=True)
    own = [f"node-1 {key}={value}" for key, value in labels.items()]
    assert [" ".join(line.split()) for line in lines] == ["NODE LABELS", *own, "node-2 -"]


@pytest.mark.parametrize("table", ["jobs", "quotas"])
def test_the_namespace_is_named_where_it_counts(table: str) -> None:
    assert "Only namespace team-a is shown." in screen(table)
    assert "team-a" not in screen("nodes")
