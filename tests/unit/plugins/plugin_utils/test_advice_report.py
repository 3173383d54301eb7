# SPDX-License-Identifier: BSD-2-Clause
"""Advice on a screen, in a page, and of several clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.advice_report import advice_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import html_page
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.merged_reports import merged_result
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines

ROOT = Path(__file__).resolve().parents[4]

IMAGE = "registry.example.com/ml:v1"
REASON = "2 of its 8 GPUs were never used in 7 days: less than 5 % utilization, and less than 1 GiB of memory in use."
JOB = {"name": "sft", "namespace": "team-a", "kind": "training", "image": IMAGE, "coverage": 0.998, "pods": 1}
GPUS = {
    **JOB,
    "what": "resources.gpu",
    "asked": 8,
    "advised": 6,
    "used": {"p50": 6.0, "p95": 6.0, "max": 6.0},
    "saved_hours": 336.0,
    "unit": "GPU",
    "saved_cost": 840.0,
    "reason": REASON,
}
MEMORY = {
    **JOB,
    "name": "bert",
    "what": "resources.memory",
    "asked": "256Gi",
    "advised": "40Gi",
    "used": {"p50": 12.25, "p95": 29.5, "max": 31.0},
    "saved_hours": 36_288.0,
    "unit": "GiB",
    "saved_cost": None,
    "reason": "Memory peaks at 31 of 256 GiB in 7 days. 40Gi leaves room for 29 % more.",
}
UNKNOWN = {
    "name": "eval",
    "namespace": "team-a",
    "kind": "training",
    "what": ["resources.memory", "resources.cpu"],
    "reason": "it ran for 12 min only, less than 6 h",
}
ADVICE: dict[str, Any] = {
    "report": "advice",
    "start": "2026-08-01T00:00:00Z",
    "end": "2026-08-08T00:00:00Z",
    "currency": "EUR",
    "namespace": None,
    "results": [GPUS, MEMORY],
    "unknown": [UNKNOWN],
    "unmeasured": [f"team-b/later-{number}" for number in range(7)],
    "totals": {
        "jobs": 12,
        "advised_jobs": 2,
        "saved_gpu_hours": 336.0,
        "saved_gib_hours": 36_288.0,
        "saved_core_hours": 0.0,
        "saved_cost": 840.0,
    },
    "notes": [],
}
NOTHING: dict[str, Any] = {
    **ADVICE,
    "results": [],
    "unknown": [],
    "unmeasured": [],
    "totals": {**dict.fromkeys(ADVICE["totals"], 0), "saved_cost": None},
}


def shown(result: Any, width: int = 80) -> list[str]:
    return screen_lines(advice_report(result), View(width))


def test_the_screen_has_what_to_change_and_why() -> None:
    assert shown(ADVICE) == [
        "2026-08-01 00:00 to 2026-08-08 00:00 UTC",
        "",
        "NAME  NAMESPACE  FIELD   ASKED     P95  PEAK  ADVISED         SAVES  COST EUR",
        "sft   team-a     gpu         8       6     6        6     336 GPU·h    840.00",
        "bert  team-a     memory  256Gi  29.5Gi  31Gi     40Gi  36,288 GiB·h         -",
        "",
        "team-a/sft: 2 of its 8 GPUs were never used in 7 days: less than 5 %",
        "  utilization, and less than 1 GiB of memory in use.",
        "team-a/bert: Memory peaks at 31 of 256 GiB in 7 days. 40Gi leaves room for 29 %",
        "  more.",
        "",
        "2 of 12 jobs ask for more than they use: 336 GPU-hours (840.00 EUR) and 36,288",
        "GiB-hours of memory in this time.",
        "",
        "team-a/eval: memory and cpu not known: it ran for 12 min only, less than 6 h.",
        "",
        "7 jobs of which Prometheus knows no pod: team-b/later-0, team-b/later-1,",
        "team-b/later-2, team-b/later-3, team-b/later-4 and 2 more.",
    ]


def test_a_wide_screen_has_the_percentiles() -> None:
    header, row = shown(ADVICE, 120)[2:4]
    assert " ".join(header.split()) == "NAME NAMESPACE KIND FIELD ASKED P50 P95 PEAK ADVISED SAVES COST EUR"
    assert " ".join(row.split()) == "sft team-a training gpu 8 6 6 6 6 336 GPU·h 840.00"


def test_the_guide_shows_such_a_screen() -> None:
    guide = (ROOT / "docs" / "docsite" / "rst" / "guide_usage.rst").read_text(encoding="utf-8")
    screen = shown({**ADVICE, "unmeasured": []})
    assert "\n".join(f"   {line}" if line else "" for line in screen) in guide


def test_nothing_to_say() -> None:
    assert shown(NOTHING) == ["2026-08-01 00:00 to 2026-08-08 00:00 UTC", "", "There are no jobs to look at."]
    looked_at = {**NOTHING, "totals": {**NOTHING["totals"], "jobs": 1}}
    assert shown(looked_at)[-1] == "1 job looked at, and no advice."


def test_the_page_has_all_of_it() -> None:
    page = html_page(advice_report(ADVICE))
    for text in ("GPU-hours to save", "36,288 GiB·h", REASON, "it ran for 12 min only", "How to read this", "100 %"):
        assert text in page
    assert "How to read this" in html_page(advice_report(NOTHING))


def test_advice_of_several_clusters_is_one_table() -> None:
    merged = merged_result({"east": ADVICE, "west": ADVICE, "lost": {"msg": "no answer"}})
    lines = shown(merged, 120)
    assert [line.split()[:2] for line in lines if line.startswith(("east", "west")) and "/" not in line] == [
        ["east", "sft"],
        ["west", "sft"],
        ["east", "bert"],
        ["west", "bert"],
    ]
    text = " ".join(lines)
    assert "4 of 24 jobs ask for more than they use: 672 GPU-hours (1,680.00 EUR)" in text
    assert "14 jobs of which Prometheus knows no pod: east/team-b/later-0" in text
    assert "lost could not be read, and is missing here." in text


def test_teams_and_images_have_what_each_could_save() -> None:
    other = {
        **GPUS,
        "name": "eval",
        "namespace": "team-b",
        "image": "registry.example.com/eval:v2",
        "saved_hours": 400.0,
    }
    lines = shown({**ADVICE, "results": [GPUS, MEMORY, other]})
    first = lines.index("TEAM    JOBS  GPU·H   GIB·H  CORE·H  COST EUR")
    assert lines[first + 1 : first + 3] == [
        "team-b     1    400       -       -    840.00",
        "team-a     2    336  36,288       -    840.00",
    ]
    assert "registry.example.com/ml:v1       2    336  36,288       -    840.00" in lines
    assert "By image" in html_page(advice_report({**ADVICE, "results": [GPUS, other]}))


def test_what_is_not_known_of_replicas_is_left_empty() -> None:
    row = {**GPUS, "name": "chat", "kind": "inference", "what": "service.replicas", "asked": 6, "advised": 3}
    row["used"] = {"p50": None, "p95": None, "max": 1.2}
    lines = screen_lines(advice_report({**ADVICE, "results": [row]}), View(120))
    (line,) = (line for line in lines if line.startswith("chat "))
    assert line.split() == [
        "chat",
        "team-a",
        "inference",
        "replicas",
        "6",
        "-",
        "-",
        "1.2",
        "3",
        "336",
        "GPU·h",
        "840.00",
    ]
