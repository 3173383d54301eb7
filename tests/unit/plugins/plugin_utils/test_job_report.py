# SPDX-License-Identifier: BSD-2-Clause
"""A job with its curves, as a screen and as a page."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.expire_report import expire_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import html_page
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.idle_report import idle_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.job_report import description_report, shown_value
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines

JOB = {
    "name": "sft",
    "namespace": "team-a",
    "kind": "training",
    "status": "Running",
    "reason": None,
    "gpu": 8,
    "image": "registry.example.com/train:v1",
    "pods": [
        {"job_id": "sft-0-abcde", "status": "Running", "restarts": 0, "node": "node-1", "ip": "10.0.0.1", "age": "2h"}
    ],
    "events": [{"object": "Pod/sft-0-abcde", "reason": "Slow", "message": "<b>slow</b>", "count": 2, "age": "5m"}],
}
CURVES = {
    "start": "2026-01-31T08:00:00Z",
    "end": "2026-01-31T08:01:00Z",
    "step": 20.0,
    "coverage": 0.75,
    "series": [
        {
            "metric": "utilization",
            "unit": "ratio",
            "labels": {"namespace": "team-a", "job_name": "sft"},
            "points": [[1769846400, 0.0], [1769846420, 0.5], [1769846460, 1.0]],
        }
    ],
    "summary": [
        {"metric": "utilization", "unit": "ratio", "labels": {}, "average": 0.5, "peak": 1.0, "at_end": 1.0},
        {
            "metric": "network",
            "unit": "bytes per second",
            "labels": {"direction": "receive"},
            "average": 1e6,
            "peak": 2e6,
            "at_end": 1e3,
        },
    ],
}


def screen(curves: dict[str, Any], width: int = 100, jobs: Any = (JOB,)) -> list[str]:
    found = {"results": list(jobs), "curves": curves}
    return screen_lines(description_report(found), View(width))


def test_a_screen_has_the_job_its_pods_events_and_curves() -> None:
    assert screen(CURVES) == [
        "training sft in namespace team-a",
        "Status        Running",
        "Kind          training",
        "GPUs per pod  8",
        "Image         registry.example.com/train:v1",
        "",
        "POD          STATUS   RESTARTS  NODE    IP        AGE",
        "sft-0-abcde  Running         0  node-1  10.0.0.1  2h",
        "",
        "LAST  COUNT  REASON  OBJECT           MESSAGE",
        "5m        2  Slow    Pod/sft-0-abcde  <b>slow</b>",
        "",
        "2026-01-31 08:00 to 2026-01-31 08:01, 75 % of it is known:",
        "METRIC            AVERAGE  PEAK    LAST",
        "Utilization       50 %     100 %   100 %   ▁▅ █",
        "Network received  1 MB/s   2 MB/s  1 kB/s",
    ]


def test_events_that_say_the_same_of_several_pods_are_one() -> None:
    said = {"reason": "FailedScheduling", "message": "0/4 nodes are available.", "count": 2}
    events = [{**said, "object": f"Pod/sft-{number}", "age": f"{6 - number}m"} for number in range(6)]
    events.insert(3, {"reason": "Slow", "message": "slow", "count": 1, "object": "Pod/sft-0", "age": "4m"})
    found = {"results": [{**JOB, "events": events}], "curves": {}}
    lines = screen_lines(description_report(found), View(100))
    start = next(number for number, line in enumerate(lines) if line.startswith("LAST"))
    assert [line.split(maxsplit=3) for line in lines[start + 1 : start + 3]] == [
        ["4m", "1", "Slow", "Pod/sft-0             slow"],
        ["1m", "12", "FailedScheduling", "Pod/sft-0 and 5 more  0/4 nodes are available."],
    ]
    assert html_page(description_report(found)).count("0/4 nodes are available.") == 1


def test_a_refusal_of_pods_is_one_event_with_all_of_its_text() -> None:
    """A Job gives each pod that it fails to create another name, and the quota's words come last."""
    text = 'Error creating: pods "sft-0-{}" is forbidden: exceeded quota: teams, requested: requests.nvidia.com/gpu=8'
    events = [
        {"reason": "FailedCreate", "message": text.format(name), "count": 1, "object": "Job/sft", "age": age}
        for name, age in (("7xkqd", "9s"), ("vgtxj", "4s"), ("zb2c9", "2s"))
    ]
    lines = screen_lines(description_report({"results": [{**JOB, "events": events}], "curves": {}}), View(80))
    start = next(number for number, line in enumerate(lines) if line.startswith("LAST"))
    assert lines[start : start + 5] == [
        "LAST  COUNT  REASON        OBJECT   MESSAGE",
        '2s        3  FailedCreate  Job/sft  Error creating: pods "sft-0-zb2c9" is',
        "                                    forbidden: exceeded quota: teams, requested:",
        "                                    requests.nvidia.com/gpu=8",
        "",
    ]


@pytest.mark.parametrize("width", [50, 60, 80])
def test_a_screen_fits(width: int) -> None:
    image = f'Failed to pull image "registry.example.com/{"a" * 120}:v1": not found'
    events = [{"reason": "Failed", "message": image, "count": 12, "object": "Pod/sft-0-abcde", "age": "12m"}]
    lines = screen(CURVES, width, [{**JOB, "events": events}])
    assert max(map(len, lines)) <= width
    assert "a" * 120 in "".join(line.strip() for line in lines)


def test_what_there_is_not() -> None:
    assert screen({"failed": True, "msg": "no Prometheus found."})[-1] == "No metrics: no Prometheus found."
    assert screen({"skipped": True})[-1] == "No metrics: not asked for"
    assert screen({}, jobs=()) == ["No job of that name."]


def test_a_page_has_curves_with_words_and_no_markup_from_the_cluster() -> None:
    text = html_page(description_report({"results": [JOB], "curves": CURVES}))
    assert "50 % on average, 100 % at most, 100 % at the end" in text
    assert "&lt;b&gt;slow&lt;/b&gt;" in text
    assert "<b>slow" not in text
    assert "No metrics: none." in html_page(description_report({"results": [JOB], "curves": {"msg": "none."}}))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.625, "ratio", "62.5 %"),
        (2**36, "bytes", "64 GiB"),
        (0, "bytes", "0 B"),
        (2412.0, "watts", "2.41 kW"),
        (71.0, "celsius", "71 °C"),
        (12345.0, "tokens per second", "12,345 tokens/s"),
        (3.0, None, "3"),
    ],
)
def test_values_have_their_units(value: float, unit: str | None, text: str) -> None:
    assert shown_value(value, unit) == text


def test_a_screen_of_idle_jobs() -> None:
    row = {
        "name": "lab", "namespace": "team-a", "kind": "notebook", "devices": 1, "held_since": "2026-01-31T08:00:00Z",
        "idle": True, "reason": "at most 0 % utilization", "action": "warn", "error": None,
    }  # fmt: skip
    busy = {**row, "name": "sft", "idle": False, "action": "none"}
    found = {"results": [row, busy], "msg": "1 idle job with 1 accelerator, 1 warned of"}
    assert screen_lines(idle_report(found), View(120)) == [
        "NAME  NAMESPACE  KIND      GPUS  HELD SINCE (UTC)  IDLE  ACTION  WHY",
        "lab   team-a     notebook     1  2026-01-31 08:00  yes   warned  at most 0 % utilization",
        "",
        "1 idle job with 1 accelerator, 1 warned of. 1 job left alone. Add -e gpuctl_all=true to list all.",
    ]
    assert len(screen_lines(idle_report(found), View(120, True))) == 5
    assert screen_lines(idle_report(found), View(60, True))[:5] == [
        "NAME  NAMESPACE  KIND      GPUS  IDLE  ACTION",
        "lab   team-a     notebook     1  yes   warned",
        "sft   team-a     notebook     1  no    -",
        "",
        "team-a/lab, team-a/sft: at most 0 % utilization.",
    ]
    none = screen_lines(idle_report({"results": [busy], "msg": "no idle jobs"}), View(120))
    assert none == ["No idle jobs. 1 job left alone. Add -e gpuctl_all=true to list all."]
    assert screen_lines(idle_report({"results": [], "msg": "no idle jobs"}), View(120)) == ["No idle jobs."]


def test_idle_jobs_that_are_not_listed_are_not_called_left_alone() -> None:
    row = {"name": "a", "namespace": "ml", "kind": "training", "devices": 1, "held_since": None, "idle": True}
    idle = [{**row, "reason": "at most 0 %", "action": "none", "error": None}] * 23
    busy = {**idle[0], "idle": False}
    lines = screen_lines(idle_report({"results": [*idle, busy], "msg": "23 idle jobs"}), View(120))
    assert "… and 3 more jobs. Add -e gpuctl_all=true to list all." in lines
    assert lines[-1] == "23 idle jobs. 1 job left alone."


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "1 to 4 replicas, has 2, wants 4. gpu_utilization (DCGM_FI_DEV_GPU_UTIL): 95, target 60."),
        (
            {"limited": "the load is for more than 4 replicas. Raise autoscaling.max_replicas to allow more."},
            "1 to 4 replicas, has 2, wants 4. gpu_utilization (DCGM_FI_DEV_GPU_UTIL): 95, target 60. "
            "The load is for more than 4 replicas. Raise autoscaling.max_replicas to allow more.",
        ),
        (
            {"metrics": [{"metric": "cpu", "target": "70%", "current": None, "autoscaling_metric": "cpu"}]},
            "1 to 4 replicas, has 2, wants 4. cpu: not measured, target 70%.",
        ),
        ({"current_replicas": None, "desired_replicas": None, "metrics": []}, "1 to 4 replicas."),
    ],
)
def test_what_scales_a_service(changes: dict[str, Any], text: str) -> None:
    metric = {"metric": "DCGM_FI_DEV_GPU_UTIL", "type": "Pods", "target": "60", "current": "95"}
    metric["autoscaling_metric"] = "gpu_utilization"
    counts = {"min_replicas": 1, "max_replicas": 4, "current_replicas": 2, "desired_replicas": 4}
    scaler = {**counts, "metrics": [metric], "limited": None, "problem": None, **changes}
    lines = screen(CURVES, width=240, jobs=({**JOB, "autoscaler": scaler},))
    assert [line for line in lines if line.startswith("Autoscaling")] == [f"Autoscaling   {text}"]


def test_a_screen_of_jobs_that_end() -> None:
    lab: dict[str, Any] = {
        "name": "lab", "namespace": "ml", "kind": "notebook", "limit": "8h", "ends_at": "2026-03-01T18:40:00Z",
        "warned_at": "2026-03-01T18:10:00Z", "action": "pause", "error": None,
        "reason": "reached its time limit of 8h at 2026-03-01T18:40:00Z",
    }  # fmt: skip
    told = {**lab, "name": "told", "action": "none", "reason": "ends at 2026-03-01T18:40:00Z"}
    new = {**told, "name": "new", "action": "warn", "warned_at": None}
    later = {**told, "name": "later", "warned_at": None}
    broken = {**later, "name": "broken", "limit": None, "ends_at": None, "reason": "never ends: its annotation is none"}
    found = {"results": [lab, told, new, later, broken], "msg": "5 jobs with a time limit, 1 paused, 1 warned of"}
    assert screen_lines(expire_report(found), View(140)) == [
        "NAME    NAMESPACE  KIND      LIMIT  ENDS AT (UTC)     ACTION           WHY",
        "lab     ml         notebook  8h     2026-03-01 18:40  paused           reached its time limit of 8h at "
        "2026-03-01T18:40:00Z",
        "told    ml         notebook  8h     2026-03-01 18:40  warned at 18:10  -",
        "new     ml         notebook  8h     2026-03-01 18:40  warned           -",
        "broken  ml         notebook  -      -                 -                never ends: its annotation is none",
        "",
        "5 jobs with a time limit, 1 paused, 1 warned of. 1 job not near the end. Add -e gpuctl_all=true to list all.",
    ]
    assert "later" in "\n".join(screen_lines(expire_report(found), View(140, True)))
    narrow = screen_lines(expire_report(found), View(70))
    assert "ml/broken: never ends: its annotation is none." in narrow
    none = {"results": [], "msg": "no notebook or service has a time limit"}
    assert screen_lines(expire_report(none), View(120)) == ["No notebook or service has a time limit."]
