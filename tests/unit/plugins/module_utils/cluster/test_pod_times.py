# SPDX-License-Identifier: BSD-2-Clause
"""From when to when pods hold their GPUs, by what their status says."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_times import hold_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.times import read_time


def at(minute: int) -> str:
    return f"2026-08-01T{10 + minute // 60:02d}:{minute % 60:02d}:00Z"


def pod(
    *,
    scheduled: int | None = 5,
    phase: str = "Running",
    finished: int | None = None,
    conditions: tuple[dict[str, Any], ...] = (),
    requests: dict[str, str] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    found = list(conditions)
    if scheduled is not None:
        found.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": at(scheduled)})
    states = [] if finished is None else [{"state": {"terminated": {"exitCode": 0, "finishedAt": at(finished)}}}]
    return {
        "metadata": {"name": "p", "namespace": "a", "uid": "u", "creationTimestamp": at(0), **metadata},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": requests or {"nvidia.com/gpu": "2"}}}],
            **({"nodeName": "node-1"} if scheduled is not None else {}),
        },
        "status": {"phase": phase, "conditions": found, "containerStatuses": states},
    }


def condition(kind: str, minute: int, **fields: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": at(minute), **fields}


@pytest.mark.parametrize(
    ("found", "start", "end", "exact"),
    [
        (pod(), 5, None, True),
        (pod(scheduled=None, phase="Pending"), None, None, True),
        (pod(phase="Succeeded", finished=65), 5, 65, True),
        (pod(phase="Failed", finished=65), 5, 65, True),
        # Its container ends and is started again: the pod holds its GPUs all the time.
        (pod(phase="Running", finished=30), 5, None, True),
        # Deleted, but it runs until its grace period ends.
        (pod(deletionTimestamp=at(40)), 5, None, True),
        (
            pod(phase="Failed", conditions=(condition("DisruptionTarget", 50, reason="PreemptionByScheduler"),)),
            5,
            50,
            True,
        ),
        (pod(phase="Failed", conditions=(condition("Ready", 55),)), 5, 55, False),
        (pod(phase="Failed", deletionTimestamp=at(58)), 5, 58, False),
        # Bound by its creator: nothing says when but its creation.
        (pod(phase="Failed"), 5, 5, False),
    ],
)
def test_a_pod_holds_from_binding_to_end(
    found: dict[str, Any], start: int | None, end: int | None, exact: bool
) -> None:
    def moment(minute: int | None) -> float | None:
        return None if minute is None else read_time(at(minute)).timestamp()

    hold = hold_of(found)
    assert (hold.start, hold.end, hold.exact) == (moment(start), moment(end), exact)


def test_who_was_preempted_is_said() -> None:
    assert hold_of(pod(conditions=(condition("DisruptionTarget", 50, reason="PreemptionByScheduler"),))).preempted
    assert not hold_of(pod(conditions=(condition("DisruptionTarget", 50, reason="EvictionByEvictionAPI"),))).preempted


def test_only_accelerators_are_held() -> None:
    requests = {"nvidia.com/mig-1g.10gb": "3", "cpu": "4", "example.com/fpga": "1"}
    assert hold_of(pod(requests=requests)).amounts == {"nvidia.com/mig-1g.10gb": 3}


@pytest.mark.parametrize(
    ("since", "until", "held", "queued"),
    [(0, 60, 55, 5), (10, 20, 10, 0), (0, 3, 0, 3), (60, 120, 5, 0), (70, 90, 0, 0), (-60, 600, 60, 5)],
)
def test_what_is_held_is_clipped_to_the_range(since: int, until: int, held: int, queued: int) -> None:
    zero = read_time(at(0)).timestamp()
    hold = hold_of(pod(phase="Succeeded", finished=65))
    assert hold.seconds(zero + since * 60, zero + until * 60) == held * 60
    assert hold.queued_seconds(zero + since * 60, zero + until * 60) == queued * 60


def test_a_pod_without_a_node_waits_until_now() -> None:
    zero = read_time(at(0)).timestamp()
    hold = hold_of(pod(scheduled=None, phase="Pending"))
    assert (hold.seconds(zero, zero + 600), hold.queued_seconds(zero, zero + 600)) == (0, 600)
