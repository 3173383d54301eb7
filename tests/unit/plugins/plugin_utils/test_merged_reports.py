# SPDX-License-Identifier: BSD-2-Clause
"""What was found in several clusters, as one report."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.idle_report import idle_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.merged_reports import UnfitResults, merged_result
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.usage_report import usage_csv, usage_report

Row = dict[str, Any]


def device_hours(hours: float, name: str = "nvidia.com/gpu") -> Row:
    return {"resource": name, "counts": "devices", "hours": hours, "partition": None, "unit": None}


def figures(hours: float, **others: Any) -> Row:
    found = {"gpu_hours": hours, "held_hours": hours, "queued_hours": 0.5, "estimated_hours": 0.0, "jobs": 2, "pods": 3}
    unknown = ("busy_hours", "idle_hours", "coverage", "peak_memory_bytes", "energy_kwh", "cost", "unpriced_hours")
    return {**found, **dict.fromkeys(unknown), "accelerators": [device_hours(hours)], **others}


def usage(*rows: Row, **others: Any) -> Row:
    result = {
        "report": "usage",
        "namespace": "default",
        "start": "2026-08-03T06:00:00Z",
        "end": "2026-08-03T18:00:00Z",
        "group_by": ["team"],
        "currency": "",
        "results": [*rows],
        "totals": figures(sum(row["gpu_hours"] for row in rows)),
        "capacity_hours": 96.0,
        "unallocated_hours": 90.0,
        "source": "Kubernetes",
        "notes": ["a note"],
    }
    return {**result, **others}


def team(name: str, hours: float, **others: Any) -> Row:
    return {**figures(hours, **others), "team": name}


def shown(result: Any) -> list[str]:
    return screen_lines(usage_report(result), View(90))


def test_usage_is_one_table_with_the_sums_of_all_clusters() -> None:
    east, west = usage(team("a", 2.0)), usage(team("a", 8.0), team("b", 1.0), notes=["a note", "its own"])
    assert shown(merged_result({"east": east, "west": west})) == [
        "2026-08-03 06:00 to 2026-08-03 18:00 UTC",
        "Of 192.0 GPU-hours, 180.0 (94 %) were not held.",
        "",
        "CLUSTER  TEAM  GPU h  BUSY h  IDLE h  QUEUED h  JOBS",
        "west     a       8.0       ?       ?       0.5     2",
        "east     a       2.0       ?       ?       0.5     2",
        "west     b       1.0       ?       ?       0.5     2",
        "TOTAL    -      11.0       ?       ?       1.0     4",
        "",
        "Only namespace default is shown. Add -e gpuctl_all_namespaces=true to show all.",
        "a note",
        "west: its own",
    ]


@pytest.mark.parametrize(
    ("name", "east", "west", "sum_of_both"),
    [
        ("busy_hours", 1.5, 2.0, 3.5),
        ("busy_hours", 1.5, None, 1.5),
        ("coverage", 1.0, 0.5, 0.6),
        ("coverage", 1.0, None, 0.2),
        ("coverage", None, None, None),
        ("peak_memory_bytes", 5, 7, 7),
        ("cost", None, 3.25, 3.25),
        ("accelerators", [device_hours(2.0)], [device_hours(8.0)], [device_hours(10.0)]),
        ("accelerators", [device_hours(2.0)], [device_hours(8.0, "x")], [device_hours(2.0), device_hours(8.0, "x")]),
    ],
)
def test_what_is_known_of_one_cluster_only_counts_for_that(name: str, east: Any, west: Any, sum_of_both: Any) -> None:
    results = {
        "east": usage(totals=figures(2.0, **{name: east})),
        "west": usage(totals=figures(8.0, **{name: west})),
    }
    assert merged_result(results)["totals"][name] == sum_of_both


def test_the_capacity_of_all_is_known_only_if_that_of_each_is() -> None:
    merged = merged_result({"east": usage(), "west": usage(capacity_hours=None, unallocated_hours=None)})
    assert (merged["capacity_hours"], merged["unallocated_hours"]) == (None, None)


def test_a_cluster_that_could_not_be_read_is_named() -> None:
    lines = shown(merged_result({"east": usage(team("a", 2.0)), "west": {"failed": True, "msg": "unreachable"}}))
    assert "west could not be read, and is missing here." in "\n".join(lines)


def test_a_table_for_spreadsheets_names_the_cluster() -> None:
    head, row = usage_csv(merged_result({"east": usage(team("a", 2.0))})).splitlines()[:2]
    assert head.startswith("cluster,team,gpu_hours")
    assert row.startswith("east,a,2.0")


def idle(*names: str, at_work: str = "") -> Row:
    rows = [
        {
            "name": name,
            "namespace": "default",
            "kind": "notebook",
            "devices": 2,
            "held_since": None,
            "idle": name != at_work,
            "reason": "No use in the last hour.",
            "action": "none",
            "error": None,
        }
        for name in (*names, *([at_work] if at_work else []))
    ]
    return {"report": "idle_jobs", "results": rows, "namespace": None, "msg": "what one cluster says"}


def test_idle_jobs_are_one_table_and_one_summary() -> None:
    merged = merged_result({"east": idle("lab", at_work="busy"), "west": idle("old")})
    lines = screen_lines(idle_report(merged), View(100))
    assert [line.split()[:2] for line in lines[:3]] == [["CLUSTER", "NAME"], ["east", "lab"], ["west", "old"]]
    assert "2 idle jobs with 4 accelerators. 1 job left alone. Add -e gpuctl_all=true to list all." in " ".join(lines)


@pytest.mark.parametrize(
    ("clusters", "problem"),
    [
        ({"east": {"msg": "down"}, "west": {"msg": "also down"}}, "down\nalso down"),
        ({"east": {"msg": "down"}, "west": {"msg": "down"}}, "down"),
        ({"east": None}, "no result"),
        ({"east": usage(), "west": idle()}, "O(clusters): idle_jobs and usage is no report of several clusters."),
        ({"east": {"report": "plan", "results": []}}, "O(clusters): plan is no report of several clusters."),
    ],
)
def test_what_cannot_be_shown_as_one_is_refused(clusters: Row, problem: str) -> None:
    with pytest.raises(UnfitResults) as raised:
        merged_result(clusters)
    assert str(raised.value) == problem
