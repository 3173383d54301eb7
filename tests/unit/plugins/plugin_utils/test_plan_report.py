# SPDX-License-Identifier: BSD-2-Clause
"""A plan as a screen of 80 columns, as a page and as data. GPUCTL_UPDATE_SCREENS=1 writes the screen again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import html_page
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.plan_report import plan_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.reports import report_of, result_json

SCREEN = Path(__file__).with_name("screens") / "plan.txt"
RESULT = Path(__file__).parents[2] / "fixtures" / "plan.json"
NOTHING: dict[str, Any] = {
    "results": [], "problems": [], "notes": [], "pools": [], "nodes": [], "teams": [], "quotas": [], "not_declared": [],
    "unchanged": 3, "msg": "Nothing to change.", "plan": {}, "src": ["cluster"], "made_at": "2026-01-01T00:00:00Z",
    "totals": dict.fromkeys(
        ("restarts", "pods_ending", "hours_lost", "gpu_hours_lost", "gpus_freed", "gpus_taken", "nodes_moved"), 0
    ),
}  # fmt: skip


@pytest.fixture
def result() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    return found


def lines(result: dict[str, Any], *, everything: bool = False) -> list[str]:
    return screen_lines(plan_report(result), View(80, everything))


def plan_page(result: dict[str, Any]) -> str:
    return html_page(plan_report(result))


def test_the_screen_is_as_it_was(result: dict[str, Any]) -> None:
    screen = "\n".join([*lines(result), ""])
    if os.environ.get("GPUCTL_UPDATE_SCREENS"):
        SCREEN.write_text(screen, encoding="utf-8")
    assert screen == SCREEN.read_text(encoding="utf-8")
    assert max(map(len, screen.splitlines())) <= 80


def test_whose_work_ends_for_a_job_is_said_before_what_changes(result: dict[str, Any]) -> None:
    row = next(row for row in result["results"] if not row["problem"])
    row["preempts"] = ["team-b/eval", "team-b/batch-7"]
    text = "\n".join(lines(result))
    found = " ".join(text.split())
    assert f"{row['name']} preempts team-b/eval, team-b/batch-7, or others of the same priority." in found
    assert text.index("Preempts: ") < text.index("CHANGE")


def test_what_is_wrong_comes_first(result: dict[str, Any]) -> None:
    screen = "\n".join(lines(result))
    assert screen.index("Refused: ") < screen.index("Warning: ") < screen.index("CHANGE ") < screen.index("POOL ")
    page = plan_page(result)
    assert page.index("Refused: ") < page.index("What changes") < page.index("Before and after")


def test_a_refusal_names_its_job_also_where_only_a_path_does(result: dict[str, Any]) -> None:
    text = "/m.yaml, document 1, storage.workdirs: path of the node that is not allowed: /output/bert. Use a claim."
    result["problems"] = [{"kind": "training", "namespace": "a", "name": "bert", "problem": f"{text}\n{text}"}]
    screen = " ".join(" ".join(lines(result)).split())
    assert screen.count(f"Refused: training a/bert: {text}") == 2


def test_many_refusals_are_cut_with_their_number(result: dict[str, Any]) -> None:
    result["problems"] = [{"kind": "pool", "namespace": None, "name": None, "problem": f"no {n}"} for n in range(15)]
    assert "… and 3 more problems. Add -e gpuctl_all=true to list all." in lines(result)


def test_without_the_column_of_kinds_names_have_those_that_are_no_jobs(result: dict[str, Any]) -> None:
    (row,) = [row for row in result["results"] if row["name"] == "clip"]
    result["results"] = [{**row, "name": "clip" * 12}, {**row, "kind": "pool", "namespace": None, "name": "a100"}]
    shown = lines(result)
    assert not any(" KIND " in line for line in shown)
    assert any("pool a100" in line for line in shown)


def test_many_changes_are_cut_unless_all_are_asked_for(result: dict[str, Any]) -> None:
    (row,) = [row for row in result["results"] if row["name"] == "clip"]
    result["results"] = [{**row, "name": f"clip-{number}"} for number in range(40)]
    assert sum("clip-" in line for line in lines(result)) == 12
    assert "… and 28 more changes. Add -e gpuctl_all=true to list all." in lines(result)
    assert sum("clip-" in line for line in lines(result, everything=True)) == 40


def test_nothing_to_change() -> None:
    assert lines(NOTHING) == ["Plan of cluster: Nothing to change."]
    assert "Everything is as declared." in plan_page(NOTHING)


def test_the_data_can_be_applied_again(result: dict[str, Any]) -> None:
    assert report_of(result) is not None
    assert json.loads(result_json({**result, "changed": False, "diff": [1], "failed": False})) == result


def test_names_do_not_become_html(result: dict[str, Any]) -> None:
    result["nodes"][0]["node"] = result["results"][0]["name"] = result["pools"][0]["pool"] = "<b>x</b>"
    assert "<b>" not in plan_page(result)
