# SPDX-License-Identifier: BSD-2-Clause
"""Budgets of GPU-hours as annotations have them, and their periods."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.gpu_hours import (
    HoursBudget,
    Tally,
    budget_of,
    gpu_hours_row,
    tally_of,
)

GOOD = {"limit": 5000, "per": "month", "warn_at": "80%", "then": "refuse"}
BUDGET = HoursBudget(5000, "month", 80, "refuse")
NOW = datetime(2026, 11, 28, 13, 5, tzinfo=timezone.utc)
OBJECT = "gpuctl-gpu-hours-until-2026-12-01"
AT = "2026-11-28T13:00:00Z"


def quota(name: str, note: Any, *, managed: bool = True, labelled: bool = True) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl"} if managed else {}
    labels |= {"runwhere.ai/quota": "q"} if labelled else {}
    text = note if isinstance(note, str) else json.dumps(note)
    annotations = {"runwhere.ai/gpu-hours": text}
    return {"metadata": {"name": name, "namespace": "a", "labels": labels, "annotations": annotations}}


@pytest.mark.parametrize(
    ("per", "now", "since", "until"),
    [
        ("month", "2026-11-28T13:05", "2026-11-01", "2026-12-01"),
        ("month", "2026-12-31T23:59", "2026-12-01", "2027-01-01"),
        ("month", "2028-02-29T00:00", "2028-02-01", "2028-03-01"),
        ("month", "2027-01-01T00:00", "2027-01-01", "2027-02-01"),
        ("week", "2026-11-28T13:05", "2026-11-23", "2026-11-30"),
        ("week", "2026-11-30T00:00", "2026-11-30", "2026-12-07"),
        ("day", "2026-12-31T23:59", "2026-12-31", "2027-01-01"),
    ],
)
def test_periods_are_those_of_the_calendar(per: str, now: str, since: str, until: str) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=timezone.utc)
    found = HoursBudget(1, per, 80, "refuse").period(moment)
    assert [f"{each:%Y-%m-%d %H:%M:%S}" for each in found] == [f"{since} 00:00:00", f"{until} 00:00:00"]


def test_a_budget_is_read_as_it_is_written() -> None:
    assert budget_of(quota("q-a", GOOD)) == BUDGET


@pytest.mark.parametrize(
    "changed",
    [
        {"limit": 0},
        {"limit": "5000"},
        {"limit": True},
        {"limit": 10**400},
        {"limit": 5.5},
        {"per": "year"},
        {"per": ["month"]},
        {"then": "delete"},
        {"warn_at": None},
        {"warn_at": "٨٠%"},
        {"warn_at": {}},
        {"accelerators": ["amd"]},
        {"accelerators": None},
        {"accelerators": {"amd": 0}},
        {"accelerators": {"amd": 1.5}},
        {"accelerators": {"amd": True}},
        {"accelerators": {"../../x": 5}},
        {"accelerators": {"": 5}},
    ],
    ids=str,
)
def test_what_is_no_budget_is_none(changed: dict[str, Any]) -> None:
    assert budget_of(quota("q-a", {**GOOD, **changed})) is None


def test_accelerators_have_limits_of_their_own() -> None:
    found = budget_of(quota("q-a", {**GOOD, "accelerators": {"nvidia": 4000, "amd": 2000}}))
    assert found == BUDGET._replace(accelerators=(("amd", 2000), ("nvidia", 4000)))
    assert found.object_name(NOW, "amd") == f"{OBJECT}-of-amd"


def test_only_quotas_of_ours_have_budgets() -> None:
    assert budget_of(quota("q-a", GOOD, managed=False)) is None
    assert budget_of(quota("q-a", GOOD, labelled=False)) is None


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ({"used": 4210.5, "at": AT}, Tally(4210.5, AT)),
        ({"used": 0, "at": AT}, Tally(0.0, AT)),
        ({"used": -1, "at": AT}, None),
        ({"used": True, "at": AT}, None),
        ({"used": 10**400, "at": AT}, None),
        ('{"used": NaN, "at": "2026-11-28T13:00:00Z"}', None),
        ('{"used": Infinity, "at": "2026-11-28T13:00:00Z"}', None),
        ({"used": 1, "at": "\x1b[2J"}, None),
        ({"used": 1}, None),
        ({"used": 9, "at": AT, "accelerators": {"amd": 7.5}}, Tally(9.0, AT, {"amd": 7.5})),
        ({"used": 9, "at": AT, "accelerators": {"a": -1, "b": "7", "c": True, "d": 10**400, "e": {}}}, Tally(9.0, AT)),
        ('{"used": 9, "at": "2026-11-28T13:00:00Z", "accelerators": {"amd": NaN, "x": 1}}', Tally(9.0, AT, {"x": 1.0})),
        ({"used": 9, "at": AT, "accelerators": [7]}, Tally(9.0, AT)),
        ("[" * 5000, None),
        ("x" * 100_000, None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_was_counted_is_read_or_not_known(note: Any, expected: Tally | None) -> None:
    assert tally_of([quota(OBJECT, note, labelled=False)], BUDGET, NOW) == expected


def test_the_highest_count_of_the_period_counts() -> None:
    """Of another period, of others, or of another namespace's quota, none does."""
    objects = [
        quota(OBJECT, {"used": 12, "at": AT}, labelled=False),
        quota(f"{OBJECT}-low", {"used": 14, "at": AT}, labelled=False),
        quota("gpuctl-gpu-hours-until-2026-11-01", {"used": 99, "at": AT}, labelled=False),
        quota(OBJECT, {"used": 98, "at": AT}, managed=False, labelled=False),
    ]
    assert tally_of(objects, BUDGET, NOW) == Tally(14.0, AT)


@pytest.mark.parametrize(("per", "counts"), [("month", True), ("", True), ("day", False), ("week", False), (7, False)])
def test_a_count_of_another_kind_of_period_does_not_count(per: Any, counts: bool) -> None:
    """A day and a month may end at once."""
    (tally,) = [tally_of([quota(OBJECT, {"used": 3000, "at": AT, "per": per}, labelled=False)], BUDGET, NOW)]
    assert (tally is not None) == counts


def test_the_highest_count_of_each_accelerator_counts() -> None:
    """Two objects are there after ``then`` has changed. What is recorded of another one's own object does not count."""
    objects = [
        quota(OBJECT, {"used": 14, "at": AT, "accelerators": {"amd": 3, "nvidia": 11}}, labelled=False),
        quota(f"{OBJECT}-low", {"used": 12, "at": AT, "accelerators": {"amd": 8}}, labelled=False),
        quota(f"{OBJECT}-of-amd", {"used": 99, "at": AT, "accelerators": {"amd": 99}}, labelled=False),
    ]
    assert tally_of(objects, BUDGET, NOW) == Tally(14.0, AT, {"amd": 8.0, "nvidia": 11.0})


def test_a_row_says_what_is_left_for_each_accelerator() -> None:
    note = {**GOOD, "accelerators": {"amd": 100, "nvidia": 4000}}
    known = quota(OBJECT, {"used": 130, "at": AT, "accelerators": {"amd": 110.5}}, labelled=False)
    row = gpu_hours_row(quota("q-a", note), [known], NOW)
    assert row is not None
    assert (row["left"], row["accelerators"]) == (
        4870.0,
        {
            "amd": {"limit": 100, "used": 110.5, "left": 0.0, "percent": 110.5},
            "nvidia": {"limit": 4000, "used": None, "left": None, "percent": None},  # declared since it was counted
        },
    )


def test_a_row_says_what_is_left() -> None:
    row = gpu_hours_row(quota("q-a", GOOD), [quota(OBJECT, {"used": 5100, "at": AT}, labelled=False)], NOW)
    assert row is not None
    assert (row["used"], row["left"], row["percent"], row["counted_at"]) == (5100.0, 0.0, 102.0, AT)
    unknown = gpu_hours_row(quota("q-a", GOOD), [], NOW)
    assert unknown is not None
    assert (unknown["used"], unknown["left"], unknown["percent"], unknown["counted_at"]) == (None, None, None, None)
    assert unknown["until"] == "2026-12-01T00:00:00Z"
