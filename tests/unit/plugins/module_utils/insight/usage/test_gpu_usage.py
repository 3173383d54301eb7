# SPDX-License-Identifier: BSD-2-Clause
"""The sums of uses, and the parts of a range."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.gpu_usage import (
    Measured,
    Owner,
    Use,
    usage_rows,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.usage_info import months_of


def test_what_never_was_busy_is_part_of_what_is_idle() -> None:
    """By pod: one that was busy for a moment is not stuck, and of one that was not measured nothing is known."""
    measured = [Measured(known=4.0, idle=4.0000001), Measured(known=3.0, idle=2.0), Measured()]
    uses = [Use(Owner("team-a", "llm"), {"nvidia.com/gpu": 4.0}, measured=each) for each in measured]
    _groups, total = usage_rows(uses, ["team"], {})
    row = total.result((), has_prices=False, is_measured=True)
    assert (row["idle_hours"], row["stuck_hours"]) == (6.0, 4.0)
    _groups, unknown = usage_rows(uses[2:], ["team"], {})
    assert unknown.result((), has_prices=False, is_measured=True)["stuck_hours"] is None


def test_months_follow_each_other() -> None:
    uses = [
        Use(Owner("team-a"), {"nvidia.com/gpu": hours}, month=month)
        for hours, month in ((1.0, "2026-02"), (9.0, "2026-03"), (2.0, "2026-02"))
    ]
    groups, _total = usage_rows(uses, ["team", "month"], {})
    assert [(*row.group, row.counted) for row in groups] == [("team-a", "2026-02", 3.0), ("team-a", "2026-03", 9.0)]


def test_a_pod_of_several_months_is_one_pod() -> None:
    uses = [
        Use(Owner("team-a", "llm"), {"nvidia.com/gpu": 1.0}, month=month, pod="llm-0", uid=uid)
        for month, uid in (("2026-02", "1"), ("2026-03", "1"), ("2026-03", "2"))
    ]
    groups, total = usage_rows(uses, ["month"], {})
    shown = [row.result(["month"], has_prices=False, is_measured=False)["pods"] for row in groups]
    assert [*shown, total.result((), has_prices=False, is_measured=False)["pods"]] == [1, 2, 2]


@pytest.mark.parametrize(
    ("since", "until", "parts"),
    [
        ("2026-08-03", "2026-08-05", ["2026-08-03"]),
        ("2026-08-01", "2026-09-01", ["2026-08-01"]),
        ("2026-01-31", "2026-03-01", ["2026-01-31", "2026-02-01"]),
        ("2025-12-30T12:00:00", "2026-02-01T00:00:01", ["2025-12-30T12:00:00", "2026-01-01", "2026-02-01"]),
    ],
)
def test_the_parts_of_a_range_are_months(since: str, until: str, parts: list[str]) -> None:
    def at(text: str) -> datetime:
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)

    found = list(months_of(at(since), at(until)))
    assert [start for start, _end in found] == [at(part) for part in parts]
    assert [end for _start, end in found] == [*(at(part) for part in parts[1:]), at(until)]
