# SPDX-License-Identifier: BSD-2-Clause
"""When a job has reached a goal."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.goals import (
    COMPLETE,
    DELETED,
    PAUSED,
    READY,
    SCHEDULED,
    Goal,
    after_restart,
)

from ..cluster.live_objects import pod, with_container, workload

JOB = workload("Job", parallelism=2, completions=2)
SUSPENDED = workload("Job", suspend=True)
ENDED = workload("Job", status={"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]})
SERVICE = workload("Deployment", status={"observedGeneration": 1, "updatedReplicas": 2})
ROLLING = workload("Deployment", status={"observedGeneration": 1, "updatedReplicas": 1})
READY_SERVICE = workload(
    "Deployment", status={"observedGeneration": 1, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}
)
# Changes do not replace the pods of this one, so that it is ready with what it had before.
BY_HAND = {"updateStrategy": {"type": "OnDelete"}, "replicas": 1}
OLD = workload("StatefulSet", status={"observedGeneration": 1, "readyReplicas": 1}, **BY_HAND)
NEW = workload("StatefulSet", status={"observedGeneration": 1, "readyReplicas": 1, "updatedReplicas": 1}, **BY_HAND)


def placed(name: str = "x-1", **fields: Any) -> dict[str, Any]:
    return pod(name, nodeName="n1", **fields)


WAITING = pod("x-2")
BEFORE = placed("x-0")
BEFORE["metadata"]["creationTimestamp"] = "2025-12-31T00:00:00Z"

# the goal, the workload, its pods, is it reached
CASES: dict[str, tuple[Goal, dict[str, Any] | None, list[dict[str, Any]], bool]] = {
    "scheduled: all have a node": (SCHEDULED, JOB, [placed(), placed("x-2")], True),
    "scheduled: one has none": (SCHEDULED, JOB, [placed(), WAITING], False),
    "scheduled: one is not there yet": (SCHEDULED, JOB, [placed()], False),
    "scheduled: one is on its way out": (SCHEDULED, JOB, [placed(), placed("x-2", deleted=True)], False),
    "scheduled: one is of a Job of that name before": (SCHEDULED, JOB, [placed(), BEFORE], False),
    "scheduled: a rollout that has not made all": (SCHEDULED, ROLLING, [placed(), placed("x-2")], False),
    "scheduled: a rollout of which one waits": (SCHEDULED, SERVICE, [placed(), placed("x-3"), WAITING], False),
    "scheduled: a rollout that has placed all": (SCHEDULED, SERVICE, [placed(), placed("x-2")], True),
    "scheduled: what is ready must be": (SCHEDULED, READY_SERVICE, [], True),
    "scheduled: nothing is there": (SCHEDULED, None, [], False),
    "ready": (READY, READY_SERVICE, [], True),
    "ready: not yet": (READY, SERVICE, [], False),
    "ready: by hand": (READY, OLD, [], True),
    "ready, but with the pod from before the restart": (after_restart(READY), OLD, [], False),
    "ready, with a new pod": (after_restart(READY), NEW, [], True),
    "complete": (COMPLETE, ENDED, [], True),
    "complete: it runs": (COMPLETE, JOB, [placed(), placed("x-2")], False),
    "paused": (PAUSED, SUSPENDED, [], True),
    "paused: a pod still ends": (PAUSED, SUSPENDED, [placed(deleted=True)], False),
    "paused: a pod that failed may stay": (PAUSED, SUSPENDED, [placed(status=with_container("Failed"))], True),
    "paused: it is gone": (PAUSED, None, [], False),
    "gone": (DELETED, None, [], True),
    "gone: a pod is left": (DELETED, None, [placed()], False),
    "gone: it is there": (DELETED, JOB, [], False),
}


@pytest.mark.parametrize(("goal", "obj", "pods", "reached"), CASES.values(), ids=CASES)
def test_which_goals_are_reached(
    goal: Goal, obj: dict[str, Any] | None, pods: list[dict[str, Any]], reached: bool
) -> None:
    assert goal.reached(obj, pods) == reached
