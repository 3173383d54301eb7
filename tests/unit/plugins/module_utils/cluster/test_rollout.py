# SPDX-License-Identifier: BSD-2-Clause
"""A service whose update is not done: what still serves, and when the way back is named."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pending_reason import PendingReason
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.rollout import during_update, is_updating
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.status import needs_reason

from .live_objects import pod, workload

UPDATED = {"deployment.kubernetes.io/revision": "2"}
RUNNING, DONE = "ReplicaSetUpdated", "NewReplicaSetAvailable"
BACK = "To go back to the last manifest that was ready, use O(state=rolled_back)"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
PROBLEM = PendingReason("image b of pod x-new cannot be pulled", "Check environment.image", final=True)


def service(replicas: int, updated: int, ready: int, *, progress: str = RUNNING, first: bool = False) -> dict[str, Any]:
    condition = {"type": "Progressing", "status": "True", "reason": progress}
    counts = {"replicas": replicas, "updatedReplicas": updated, "readyReplicas": ready}
    found = workload("Deployment", status={**counts, "conditions": [condition]})
    found["metadata"]["annotations"] = {} if first else UPDATED
    return found


def notebook(current: str, update: str) -> dict[str, Any]:
    return workload("StatefulSet", status={"currentRevision": current, "updateRevision": update})


def old(name: str) -> dict[str, Any]:
    found = pod(name, status=READY)
    found["spec"]["containers"][0]["image"] = "reg/ml:v0"
    return found


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (service(3, 1, 2), True),
        (service(1, 1, 0), True),  # one with a GPU: the old pod has ended for it
        (service(2, 2, 2, progress=DONE), False),
        (service(2, 2, 0, first=True), False),
        (notebook("a", "b"), True),
        (notebook("a", "a"), False),
        (workload(), False),
    ],
)
def test_an_update_is_not_done_until_its_pods_were_all_ready(obj: dict[str, Any], expected: bool):
    assert is_updating(obj) is expected


@pytest.mark.parametrize(
    ("obj", "pods", "text"),
    [
        (service(3, 1, 2), [old("x-1"), old("x-2")], "the update is not done, 2 old replicas still serve: "),
        (
            service(3, 1, 2),
            [],
            "the update is not done, 2 old replicas still serve: ",
        ),  # a wait reads the new ones only
        (service(2, 1, 1), [old("x-1")], "the update is not done, 1 old replica still serves: "),
        (
            service(3, 2, 2),
            [old("x-1"), pod("x-2", status=READY)],
            "the update is not done, 1 old replica still serves: ",
        ),
        (service(3, 1, 1), [pod("x-2", status=READY)], ""),  # the only one that is ready is new
        (service(2, 2, 0), [], ""),
    ],
)
def test_what_still_serves(obj: dict[str, Any], pods: list[dict[str, Any]], text: str):
    found = during_update(PROBLEM, obj, pods)
    assert found.text == f"{text}{PROBLEM.text}"
    assert found.hint == f"Check environment.image. {BACK}"
    assert found.final


def test_a_job_that_is_not_updated_has_no_way_back():
    obj = service(2, 2, 0, first=True)
    assert during_update(PROBLEM, obj, []) is PROBLEM


def test_progress_is_no_reason_to_go_back():
    progress = PendingReason("pod x-new is running but not ready yet")
    assert during_update(progress, service(3, 1, 2), []).hint == ""


def test_a_service_that_runs_while_its_update_fails_has_a_reason():
    assert needs_reason(service(3, 1, 2))
    assert not needs_reason(service(2, 2, 2, progress=DONE))
