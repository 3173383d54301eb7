# SPDX-License-Identifier: BSD-2-Clause
"""What was found in several clusters, as one report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.drift_report import drift_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.fit_report import fit_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.idle_report import idle_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.merged_reports import UnfitResults, merged_result
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.plan_report import plan_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.reports import files_of
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import doctor_screen
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.usage_report import usage_csv, usage_report

from .test_drift_report import RESULT as DRIFT
from .test_plan_report import RESULT as PLAN

Row = dict[str, Any]


def device_hours(hours: float, name: str = "nvidia.com/gpu") -> Row:
    return {"resource": name, "counts": "devices", "hours": hours, "partition": None, "unit": None}


def figures(hours: float, **others: Any) -> Row:
    found = {"gpu_hours": hours, "held_hours": hours, "queued_hours": 0.5, "estimated_hours": 0.0, "jobs": 2, "pods": 3}
    found |= {"opportunistic_hours": 0.0, "gpus_given_back": 0, "gpus_reclaimed": 0, "reclaimed_hours": 0.0}
    unknown = (
        "busy_hours",
        "idle_hours",
        "stuck_hours",
        "coverage",
        "peak_memory_bytes",
        "energy_kwh",
        "cost",
        "unpriced_hours",
    )
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


def test_what_was_reclaimed_in_all_clusters_is_added() -> None:
    found = merged_result({"east": reclaimed(2, 4.5), "west": reclaimed(1, 0.0)})
    assert (found["totals"]["gpus_reclaimed"], found["totals"]["reclaimed_hours"]) == (3, 4.5)


def reclaimed(gpus: int, hours: float) -> Row:
    return usage(totals=figures(8.0, gpus_reclaimed=gpus, reclaimed_hours=hours))


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


def check(title: str, *places: str, **others: Any) -> Row:
    findings = [{"level": "error", "place": place, "problem": "is down", "hint": "Mend it."} for place in places]
    found = {"status": "error" if places else "ok", "findings": findings, "missing": [], "reason": None}
    return {"title": title, **found, **others}


def doctor(*checks: Row, msg: str) -> Row:
    counts = {"error": sum(len(each["findings"]) for each in checks), "warning": 0, "unknown": 0}
    return {
        "report": "doctor",
        "checks": [*checks],
        "passed": not counts["error"],
        "counts": counts,
        "hint": None,
        "msg": msg,
    }


def test_what_is_wrong_is_one_table_and_each_problem_is_said_once() -> None:
    east = doctor(check("Device plugins", "node-1", "node-2"), check("Clocks"), msg="2 checks: 1 with errors.")
    west = doctor(check("Device plugins", "node-1"), check("Clocks"), msg="2 checks: 1 with errors.")
    merged = merged_result({"east": east, "west": west, "down": {"failed": True, "msg": "unreachable"}})
    assert (merged["passed"], merged["counts"]["error"], merged["missing"]) == (False, 3, ["down"])
    assert doctor_screen(merged, 100, everything=False, paint=lambda _key, text: text) == [
        "east and west: 2 checks: 1 with errors.",
        "",
        "CLUSTER  CHECK           RESULT  WHERE",
        "east     Device plugins  error   node-1, node-2",
        "west     Device plugins  error   node-1",
        "",
        "Device plugins (error): east: node-1, east: node-2, west: node-1: is down. Mend it.",
    ]


def test_drift_names_the_cluster_of_each_object() -> None:
    east = {**DRIFT, "report": "drift", "passed": False, "unmarked": 0}
    west = {
        **east,
        "results": [],
        "problems": [],
        "undeclared": [],
        "passed": True,
        "msg": "Everything is as declared.",
    }
    west["counts"] = dict.fromkeys(DRIFT["counts"], 0)
    merged = merged_result({"east": east, "west": west})
    assert (merged["passed"], merged["counts"]) == (False, DRIFT["counts"])
    lines = screen_lines(drift_report(merged), View(80))
    text = " ".join(" ".join(lines).split())
    assert text.startswith(f"east: {DRIFT['msg']} west: Everything is as declared.")
    assert "east/Deployment/team-a/chat (inference team-a/chat)" in text
    assert "east: training team-a/sft: the namespace has no queue." in text
    alone = " ".join(
        " ".join(screen_lines(drift_report(merged_result({"east": east, "west": east})), View(80))).split()
    )
    assert alone.startswith(f"east and west: {DRIFT['msg']}")
    assert "west/Deployment/team-a/chat" in alone


def test_the_plans_of_all_clusters_are_one_page_and_no_saved_plan() -> None:
    one = json.loads(PLAN.read_text(encoding="utf-8"))
    merged = merged_result({"east": one, "west": one})
    for name, number in one["totals"].items():
        assert merged["totals"][name] == 2 * number, name
    text = "\n".join(screen_lines(plan_report(merged), View(100, True)))
    assert text.count("CLUSTER") == 3 + bool(one["teams"] or one["quotas"]) - 1
    for name in ("east", "west"):
        assert any(line.startswith(name) and "clip" in line for line in text.splitlines())
    assert [*files_of(merged)] == [".html"]
    assert [*files_of(one)] == [".json", ".html"]


def fits(*verdicts: str, not_judged: tuple[str, ...] = ()) -> Row:
    rows = [
        {"name": f"job-{number}", "namespace": "a", "verdict": verdict, "gpu": 1, "pods_wanted": 1}
        for number, verdict in enumerate(verdicts)
    ]
    details = {"reason": "Why.", "hint": None, "runs_at": None}
    return {"report": "fit", "results": [{**row, **details} for row in rows], "not_judged": [*not_judged], "msg": ""}


def test_the_clusters_in_which_a_job_runs_soonest_come_first() -> None:
    merged = merged_result({"east": fits("never", "after_jobs"), "west": fits("now", "never")})
    found = [(row["name"], row["cluster"], row["verdict"]) for row in merged["results"]]
    assert found == [
        ("job-0", "west", "now"),
        ("job-0", "east", "never"),
        ("job-1", "east", "after_jobs"),
        ("job-1", "west", "never"),
    ]
    lines = screen_lines(fit_report(merged), View(80))
    assert lines[0] == "No cluster would run all 2 jobs now."
    assert lines[2].split() == ["CLUSTER", "NAME", "NAMESPACE", "GPUS", "RUNS"]
    assert "east/a/job-0, west/a/job-1 (never): Why." in lines


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        ({"east": fits(), "west": fits()}, "0 jobs: nothing to judge"),
        ({"east": fits("now")}, "east would run job job-0 now. Submit there with --limit east."),
        (
            {"east": fits("now", "now"), "west": fits("now", "now"), "down": {"msg": "down"}},
            "east and west would run all 2 jobs now. Submit there with --limit east.",
        ),
        ({"east": fits("now", "never")}, "No cluster would run all 2 jobs now."),
    ],
)
def test_where_jobs_would_run_is_a_sentence(clusters: Row, message: str) -> None:
    assert merged_result(clusters)["msg"] == message


def test_what_may_refuse_jobs_names_its_clusters() -> None:
    merged = merged_result(
        {"east": fits("now", not_judged=("webhook x",)), "west": fits("now", not_judged=("webhook x", "webhook y"))}
    )
    assert merged["not_judged"] == ["webhook x (east and west)", "webhook y (west)"]


@pytest.mark.parametrize(
    ("clusters", "problem"),
    [
        ({"east": {"msg": "down"}, "west": {"msg": "also down"}}, "down\nalso down"),
        ({"east": {"msg": "down"}, "west": {"msg": "down"}}, "down"),
        ({"east": None}, "no result"),
        ({"east": usage(), "west": idle()}, "O(clusters): idle_jobs and usage is no report of several clusters."),
        ({"east": {"report": "history", "results": []}}, "O(clusters): history is no report of several clusters."),
    ],
)
def test_what_cannot_be_shown_as_one_is_refused(clusters: Row, problem: str) -> None:
    with pytest.raises(UnfitResults) as raised:
        merged_result(clusters)
    assert str(raised.value) == problem
