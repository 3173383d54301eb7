# SPDX-License-Identifier: BSD-2-Clause
"""The accounts on a screen and in a page, and what was recorded."""

from __future__ import annotations

from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.history_report import recorded_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import html_page
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report import Report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.usage_report import usage_report

FIGURES: dict[str, Any] = {
    "gpu_hours": 8.0,
    "held_hours": 9.0,
    "busy_hours": 6.0,
    "idle_hours": 3.0,
    "stuck_hours": 0.0,
    "queued_hours": 0.5,
    "opportunistic_hours": 0.0,
    "gpus_given_back": 0,
    "gpus_reclaimed": 0,
    "reclaimed_hours": 0.0,
    "coverage": 1.0,
    "peak_memory_bytes": None,
    "energy_kwh": None,
    "cost": None,
    "jobs": 3,
    "accelerators": [
        {"resource": "nvidia.com/gpu", "counts": "devices", "hours": 8.0, "partition": None, "unit": None},
        {"resource": "nvidia.com/gpumem", "counts": "memory", "hours": 2048.0, "partition": None, "unit": "Mi"},
        {
            "resource": "nvidia.com/mig-1g.10gb",
            "counts": "partitions",
            "hours": 1.0,
            "partition": "1g.10gb",
            "unit": None,
        },
    ],
}
USAGE: dict[str, Any] = {
    "start": "2026-08-03T06:00:00Z",
    "end": "2026-08-03T18:00:00Z",
    "group_by": ["team"],
    "currency": "",
    "results": [{**FIGURES, "team": "team-a"}],
    "totals": FIGURES,
    "capacity_hours": None,
    "unallocated_hours": None,
    "source": "Kubernetes",
    "notes": [],
}


def shown(report: Report, width: int) -> list[str]:
    return screen_lines(report, View(width))


def test_shared_memory_is_in_gibibytes() -> None:
    assert shown(usage_report(USAGE), 120)[2:4] == [
        "TEAM    GPU h  nvidia.com/gpumem GiB·h  1g.10gb h  BUSY h  IDLE h  QUEUED h  JOBS",
        "team-a    8.0                      2.0        1.0     6.0     3.0       0.5     3",
    ]


def test_what_never_was_busy_is_shown_where_there_is_some() -> None:
    figures = {**FIGURES, "accelerators": FIGURES["accelerators"][:1], "stuck_hours": 1.5}
    usage = {**USAGE, "results": [{**figures, "team": "team-a"}], "totals": figures}
    assert shown(usage_report(usage), 120)[2:4] == [
        "TEAM    GPU h  BUSY h  IDLE h  NEVER BUSY h  QUEUED h  JOBS",
        "team-a    8.0     6.0     3.0           1.5       0.5     3",
    ]
    assert "1.5 h of them by pods that never were busy" in html_page(usage_report(usage))


def test_on_a_narrow_screen_the_parts_have_a_table_of_their_own() -> None:
    assert shown(usage_report(USAGE), 60)[2:] == [
        "TEAM    GPU h  BUSY h  IDLE h  QUEUED h  JOBS",
        "team-a    8.0     6.0     3.0       0.5     3",
        "TOTAL     8.0     6.0     3.0       0.5     3",
        "",
        "TEAM    PARTITION OR SHARE       HELD",
        "team-a  nvidia.com/gpumem   2.0 GiB·h",
        "TOTAL   nvidia.com/gpumem   2.0 GiB·h",
        "team-a  1g.10gb                 1.0 h",
        "TOTAL   1g.10gb                 1.0 h",
        "",
        "33 % of the measured hours (3.0 h) were not used. The",
        "  playbook advise says which jobs ask for too much, and idle",
        "  which ones do nothing.",
    ]
    used = {**USAGE, "totals": {**USAGE["totals"], "idle_hours": 0.5}}
    assert "advise" not in " ".join(shown(usage_report(used), 60))


def test_the_page_has_the_parts_last() -> None:
    page = html_page(usage_report(USAGE))
    assert page.index("Queued") < page.index("nvidia.com/gpumem") < page.index("1g.10gb")
    assert "GiB·h" in page


def test_what_was_recorded() -> None:
    row = {"namespace": "team-a", "runs": 17, "new_runs": 2, "new_ends": 1, "removed_runs": 0, "error": None}
    result = {"results": [row], "msg": "1 namespace: 2 new runs, 1 new end"}
    assert shown(recorded_report(result), 80) == [
        "NAMESPACE  RUNS  NEW  ENDED  REMOVED",
        "team-a       17    2      1        0",
        "",
        "1 namespace: 2 new runs, 1 new end",
    ]
    refused = {"results": [{**row, "error": f"configmaps is {'very ' * 20}forbidden"}], "msg": "1 namespace"}
    assert [len(line) <= 80 for line in shown(recorded_report(refused), 80)] == [True] * 7
    assert shown(recorded_report(refused), 80)[3].startswith("team-a: configmaps is very")


def test_what_jobs_that_yield_gave_back_is_shown_where_there_are_some() -> None:
    figures = {**FIGURES, "accelerators": FIGURES["accelerators"][:1], "opportunistic_hours": 2.5, "gpus_given_back": 4}
    other = {**FIGURES, "accelerators": FIGURES["accelerators"][:1], "team": "team-b"}
    usage = {**USAGE, "results": [{**figures, "team": "team-a"}, other], "totals": figures}
    assert shown(usage_report(usage), 120)[2:6] == [
        "TEAM    GPU h  BUSY h  IDLE h  QUEUED h  OPPORTUNISTIC h  GIVEN BACK  JOBS",
        "team-a    8.0     6.0     3.0       0.5              2.5           4     3",
        "team-b    8.0     6.0     3.0       0.5                -           -     3",
        "TOTAL     8.0     6.0     3.0       0.5              2.5           4     3",
    ]
    page = html_page(usage_report(usage))
    assert "2.5 h" in page
    assert "of jobs that yield, which gave back 4 GPUs" in page


def test_what_was_reclaimed_is_shown_where_something_was() -> None:
    figures = {**FIGURES, "accelerators": FIGURES["accelerators"][:1], "gpus_reclaimed": 3, "reclaimed_hours": 60.04}
    other = {**FIGURES, "accelerators": FIGURES["accelerators"][:1], "team": "team-b"}
    usage = {**USAGE, "results": [{**figures, "team": "team-a"}, other], "totals": figures}
    assert shown(usage_report(usage), 120)[2:6] == [
        "TEAM    GPU h  BUSY h  IDLE h  QUEUED h  RECLAIMED h  JOBS",
        "team-a    8.0     6.0     3.0       0.5         60.0     3",
        "team-b    8.0     6.0     3.0       0.5            -     3",
        "TOTAL     8.0     6.0     3.0       0.5         60.0     3",
    ]
    page = html_page(usage_report(usage))
    assert "not held by jobs that gpuctl_idle stopped; 3 GPUs given back" in page
    assert "Reclaimed: GPUs of jobs that gpuctl_idle has paused or deleted" in page
    assert "Reclaimed" not in html_page(usage_report(USAGE))
