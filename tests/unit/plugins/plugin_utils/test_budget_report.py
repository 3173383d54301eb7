# SPDX-License-Identifier: BSD-2-Clause
"""The report of gpuctl_budget: what is short comes first, the rest is counted."""

from __future__ import annotations

from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.reports import files_of, report_of

MONTH = {"since": "2026-11-01T00:00:00Z", "until": "2026-12-01T00:00:00Z", "counted_at": "2026-11-28T13:00:00Z"}


def row(
    namespace: str, used: float, limit: int, state: str = "ok", action: str = "none", **more: Any
) -> dict[str, Any]:
    return {
        "name": "teams",
        "namespace": namespace,
        "limit": limit,
        "per": "month",
        "then": "refuse",
        "used": used,
        "left": max(0.0, limit - used),
        "percent": 100 * used / limit,
        **MONTH,
        "running_hours": 12.0,
        "ended_hours": used - 12.0,
        "state": state,
        "action": action,
        "notes": [],
        "error": None,
        "accelerators": {},
        **more,
    }


def removed(namespace: str) -> dict[str, Any]:
    """A namespace whose quota has no budget any more."""
    known = row(namespace, 0.0, 1, "removed", "lift")
    return {
        **known,
        **dict.fromkeys(("name", "limit", "per", "then", "used", "left", "percent", "accelerators", *MONTH)),
    }


ROWS = [
    row("team-c", 10.0, 1000),
    row("team-b", 810.0, 1000, "near", notes=["12.0 h are estimated, because the end of pods was not observed"]),
    row("team-a", 5012.4, 5000, "used_up", "limit"),
    removed("team-d"),
]
RESULT = {
    "results": ROWS,
    "notes": ["Types of GPUs are not known."],
    "msg": "3 budgets, 1 used up, 1 nearly, 1 limited now, 1 lifted",
    "report": "budgets",
}


def screen(result: dict[str, Any], *, everything: bool = False, width: int = 100) -> list[str]:
    report = report_of(result)
    assert report is not None
    return [line.rstrip() for line in screen_lines(report, View(width, everything))]


def test_what_is_short_comes_first() -> None:
    assert screen(RESULT) == [
        "NAMESPACE  QUOTA     USED     OF   LEFT  RUNNING NOW  UNTIL (UTC)  STATE           ACTION",
        "team-a     teams  5,012.4  5,000    0.0         12.0  2026-12-01   used up         limited",
        "team-b     teams    810.0  1,000  190.0         12.0  2026-12-01   nearly used up  -",
        "team-d     -            -      -      -         12.0  -            no budget       lifted",
        "",
        "team-b/teams: 12.0 h are estimated, because the end of pods was not observed.",
        "",
        "3 budgets, 1 used up, 1 nearly, 1 limited now, 1 lifted. 1 other with enough left.",
        "",
        "Types of GPUs are not known.",
    ]


def test_it_says_where_idle_jobs_are_paused() -> None:
    """Only once the budget is used up."""
    rows = [row("team-a", 11.0, 10, "used_up", then="stop_idle"), row("team-b", 9.0, 10, "near", then="stop_idle")]
    lines = screen({**RESULT, "results": rows}, width=80)
    assert [("idle jobs are paused" in line, line[:6]) for line in lines[1:3]] == [(True, "team-a"), (False, "team-b")]


def test_an_accelerator_that_is_short_has_a_row_of_its_own() -> None:
    own = {
        "amd": {"limit": 100, "used": 101.0, "left": 0.0, "percent": 101.0, "state": "used_up"},
        "nvidia": {"limit": 900, "used": 9.0, "left": 891.0, "percent": 1.0, "state": "ok"},
    }
    rows = [row("team-e", 110.0, 1000, accelerators=own), row("team-c", 10.0, 1000)]
    assert screen({**RESULT, "results": rows, "notes": [], "msg": "2 budgets, 1 partly used up"}) == [
        "NAMESPACE  QUOTA  ACCELERATOR   USED     OF   LEFT  RUNNING NOW  UNTIL (UTC)  STATE",
        "team-e     teams  -            110.0  1,000  890.0         12.0  2026-12-01   -",
        "team-e     teams  amd          101.0    100    0.0            -  2026-12-01   used up",
        "team-e     teams  nvidia         9.0    900  891.0            -  2026-12-01   -",
        "",
        "2 budgets, 1 partly used up. 1 other with enough left.",
    ]


def test_all_are_listed_if_asked_for() -> None:
    assert any(line.startswith("team-c ") for line in screen(RESULT, everything=True))
    assert "team-c" in files_of(RESULT)[".html"](RESULT)


def test_no_budget_is_said() -> None:
    assert screen({**RESULT, "results": [], "notes": [], "msg": "0 budgets"})[-1] == "0 budgets."
