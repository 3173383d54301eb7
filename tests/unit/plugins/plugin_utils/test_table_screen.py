# SPDX-License-Identifier: BSD-2-Clause
"""One table alone, for who may not read all of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.overview import merged_status
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import limits_of_clusters, status_screen
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


def test_a_cluster_that_is_not_read_has_a_row_without_numbers() -> None:
    east = {**RESULT, "nodes": [{**NODE, "gpu_used": 3, "gpu_free": 5}], "unreadable": {}}
    blind = {**RESULT, "unreadable": {"usage": "forbidden"}}
    merged = merged_status({"east": east, "blind": blind, "down": {"failed": True, "msg": "cannot reach it"}})
    lines = status_screen(merged, 80, everything=False, paint=lambda _key, cell: cell)
    assert lines[0] == "2 of 3 clusters read; 2 nodes: 2 active; 16 GPUs"
    assert [line.split() for line in lines[2:5]] == [
        ["east", "read", "1", "8", "3", "5", "0", "0"],
        ["blind", "read", "1", "8", "?", "?", "0", "0"],
        ["down", "not", "read", *"------"],
    ]
    assert any(line.startswith("blind: How many GPUs are free is not known") for line in lines)


def test_what_clusters_do_not_show_is_said_once_for_those_that_share_it() -> None:
    clusters: list[dict[str, Any]] = [
        {
            "cluster": name,
            "error": None,
            "is_found": True,
            "namespace": namespace,
            "unreadable": {"quotas": "forbidden."},
        }
        for name, namespace in (("east", "team-a"), ("west", "team-a"), ("south", "default"))
    ]
    shared = "east, west and south: Quotas are not shown: forbidden."
    advice = "Add -e gpuctl_all_namespaces=true to show all."
    assert limits_of_clusters(clusters) == [
        shared,
        f"Only the namespaces team-a (east, west) and default (south) are shown. {advice}",
    ]
    same = [{**each, "namespace": "team-a"} for each in clusters]
    assert limits_of_clusters(same) == [shared, f"Only namespace team-a is shown. {advice}"]
    assert limits_of_clusters([{**each, "namespace": None} for each in clusters]) == [shared]
