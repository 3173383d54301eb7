# SPDX-License-Identifier: BSD-2-Clause
"""Whether a job uses its accelerators: each of its pods has to be known."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.idle.idle_rules import (
    HeldDevices,
    IdlePolicy,
    PodUsage,
    judge_use,
)

NOW = datetime(2026, 2, 1, 12, tzinfo=timezone.utc)
POLICY = IdlePolicy(3600, 0.05, 3600, acts=True, pauses=True)
IDLE = PodUsage(0.0, 8.0)

USES: dict[str, tuple[dict[str, PodUsage], bool, float]] = {
    "all are idle": ({"a": IDLE, "b": IDLE}, True, 1.0),
    "little of one is missing": ({"a": IDLE, "b": PodUsage(0.0, 7.6)}, True, 0.95),
    "one works": ({"a": IDLE, "b": PodUsage(0.9, 8.0)}, False, 1.0),
    "one is not known": ({"a": IDLE}, False, 0.0),
    "one is counted twice and the other is not known": ({"a": PodUsage(0.0, 16.0)}, False, 0.0),
    "one is not known for long": ({"a": IDLE, "b": PodUsage(0.0, 4.0)}, False, 0.5),
    "none is known": ({}, False, 0.0),
}


@pytest.mark.parametrize(("usage", "idle", "coverage"), USES.values(), ids=USES)
def test_a_job_is_idle_if_each_of_its_pods_is(usage: dict[str, PodUsage], idle: bool, coverage: float) -> None:
    held = HeldDevices(16, NOW - timedelta(hours=3), {"a": 8.0, "b": 8.0})
    found = judge_use(held, usage, POLICY, NOW)
    assert (found.idle, found.coverage) == (idle, coverage)


def test_the_pod_that_is_not_known_is_named() -> None:
    pods = {f"sft-{number}": 8.0 for number in range(16)}
    usage = {pod: IDLE for pod in pods if pod != "sft-7"}
    found = judge_use(HeldDevices(128, NOW - timedelta(hours=3), pods), usage, POLICY, NOW)
    assert found.reason == (
        "utilization of pod sft-7 is known for 0 % of the last 60 min only, and what is not known counts as use"
    )
