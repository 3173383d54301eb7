# SPDX-License-Identifier: BSD-2-Clause
"""What differs between a directory and a cluster, as people see it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.drift.drift_info import drift_summary
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.drift_report import drift_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import html_page
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.reports import result_json
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.text_table import text_width

SCREEN = Path(__file__).with_name("screens") / "drift.txt"
Row = dict[str, Any]


def row(place: str, manifest: str, change: str, field: str | None = None, **more: Any) -> Row:
    kind, *rest = place.split("/")
    level = "warning" if change == "added" or (change == "undeclared" and field is None) else "error"
    return {
        "manifest": manifest,
        "kind": kind,
        "namespace": rest[0] if len(rest) > 1 else None,
        "name": rest[-1],
        "field": field,
        "change": change,
        "level": level,
        "declared": None,
        "live": None,
        "cause": "others" if "manager" in more else "unknown",
        "manager": None,
        "user": None,
        "time": None,
        "last_run": None,
        "submitted_by": None,
        "id": f"{place}:{field}" if field else place,
        **more,
    }


CHAT: Row = {"last_run": "2026-11-20T09:12:00Z", "submitted_by": "alice on laptop"}
ROWS = [
    row(
        "Deployment/team-a/chat", "inference team-a/chat", "changed", "spec.replicas",
        declared=2, live=3, manager="kubectl", **CHAT,
    ),
    row(
        "Deployment/team-a/chat", "inference team-a/chat", "changed", "spec.template.spec.containers[main].image",
        declared="vllm:0.9", live="vllm:0.10", manager="kubectl-set", time="2026-11-21T23:40:00Z", user="bob", **CHAT,
    ),
    row(
        "Deployment/team-a/chat", "inference team-a/chat", "changed", "spec.template.spec.containers[main].args",
        declared=["--x"], live=["--y"], manager="runwhere.gpuctl", time="2026-11-20T09:12:00Z",
        **{**CHAT, "cause": "gpuctl"},
    ),
    row("Service/team-a/svc-chat", "inference team-a/chat", "removed", "metadata.labels.app", declared="chat"),
    row("Namespace/team-b", "quota team-b/teams", "missing"),
    row(
        "Node/node-7", "pool training-pool", "added", "spec.taints[broken,NoSchedule]",
        live={"key": "broken", "effect": "NoSchedule"}, manager="kubectl-taint", time="2026-11-22T07:02:00Z",
    ),
    row("Job/team-a/old", "job team-a/old", "undeclared", submitted_by="alice on laptop"),
    row("Job/team-a/theirs", "job team-a/theirs", "undeclared", submitted_by="carol on desk", level="info"),
    row(
        "Deployment/team-a/web", "compute team-a/web", "changed", "spec.replicas", declared=2, live=5,
        manager="kube-controller-manager", cause="controller", level="info",
    ),
]  # fmt: skip
PROBLEM = {"kind": "training", "manifest": "team-a/sft", "problem": "the namespace has no queue."}
RESULT: Row = {
    "results": ROWS,
    "undeclared": [{"kind": "job", "namespace": "team-a", "name": "old"}],
    "source": "git.example.com/team-a/gpus//cluster",
    "problems": [PROBLEM],
    "counts": {"error": 5, "warning": 2, "info": 2},
    "src": ["cluster/"],
    "msg": drift_summary(ROWS, [PROBLEM]),
}


def drift_page(result: Row) -> str:
    return html_page(drift_report(result))


def test_the_screen_is_as_it_was():
    shown = "\n".join(screen_lines(drift_report(RESULT), View(80))) + "\n"
    if os.environ.get("GPUCTL_UPDATE_SCREENS"):
        SCREEN.write_text(shown, encoding="utf-8")
    assert shown == SCREEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_screen_fits(width: int):
    lines = screen_lines(drift_report(RESULT), View(width, True))
    assert all(text_width(line) <= width for line in lines if " " in line.strip() and "restore" not in line)
    assert any("This is no drift" in line for line in screen_lines(drift_report(RESULT), View(200, True)))


def test_of_many_objects_the_first_are_shown():
    rows = [row(f"Node/node-{number}", "pool a", "added", "spec.unschedulable", live=True) for number in range(30)]
    result = {**RESULT, "results": rows, "msg": drift_summary(rows), "problems": [], "undeclared": []}
    assert "… and 10 more objects. Add -e gpuctl_all=true to list all." in screen_lines(drift_report(result), View(80))
    assert sum(line.startswith("Node/") for line in screen_lines(drift_report(result), View(80, True))) == 30


@pytest.mark.parametrize(
    ("rows", "problems", "text"),
    [
        ([], [], "Everything is as declared."),
        (ROWS[-2:], [], "Everything is as declared."),
        ([], [PROBLEM], "No differences. 1 problem."),
        (ROWS[:1], [], "1 difference in 1 object: 1 changed."),
        (
            ROWS,
            [],
            "7 differences in 5 objects: 3 changed, 1 removed, 1 missing, 1 added by others, 1 no longer declared.",
        ),
    ],
)
def test_the_summary(rows: list[Row], problems: list[Row], text: str):
    assert drift_summary(rows, problems) == text


def test_the_page_has_all_rows_and_no_markup_from_outside():
    rows = [*ROWS, row("Node/<b>", "pool <i>", "added", "spec.x", live="<script>")]
    page = drift_page({**RESULT, "results": rows})
    assert all(each not in page for each in ("<b>", "<i>", "<script>"))
    for text in ("spec.replicas", "kubectl-set (bob)", "a run of gpuctl", "2026-11-21 23:40", "No drift", "svc-chat"):
        assert text in page
    assert "Everything is as declared." in drift_page({**RESULT, "results": [], "problems": [], "msg": ""})


@pytest.mark.parametrize("name", ["/x'; touch me; '", "/{{ lookup('pipe', 'id') }}", "/a b"])
def test_a_name_from_outside_is_in_no_command_to_copy(name: str):
    field = f"spec.template.spec.containers[main].volumeMounts[{name}]"
    plain = row("Node/n", "pool a", "added", "spec.unschedulable", live=True)
    for rows, expected in (([plain], "Node/n:spec.unschedulable"), ([], None)):
        result = {**RESULT, "results": [row("Job/a/b", "training a/b", "added", field, live={}), *rows]}
        shown = [*screen_lines(drift_report(result), View(200, True)), *drift_page(result).splitlines()]
        commands = [line for line in shown if "gpuctl_restore=" in line]
        assert len(commands) == (2 if expected else 0)
        assert all(str(expected) in line for line in commands)


def test_the_data_is_the_result_alone():
    data = json.loads(result_json({**RESULT, "failed": True, "changed": False, "invocation": {"token": "x"}}))
    assert data == RESULT
