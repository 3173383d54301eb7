# SPDX-License-Identifier: BSD-2-Clause
"""Which nodes are read to explain pods that are not ready, and which pods seem to be lost with theirs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.node_loss import nodes_in_doubt, seems_lost

from .live_objects import pod, with_container

RUNNING = with_container("Running", ready=True, state={"running": {}})
STARTING = with_container("Running", state={"running": {}})
CREATING = with_container(state={"waiting": {"reason": "ContainerCreating"}})
PULLING = with_container(state={"waiting": {"reason": "ImagePullBackOff"}})
DONE = with_container("Succeeded", state={"terminated": {"exitCode": 0}})


def conditions(status: dict[str, Any], ready: str, **reasons: str) -> dict[str, Any]:
    others = [{"type": kind, "status": "True", "reason": reason} for kind, reason in reasons.items()]
    return {**status, "conditions": [{"type": "Ready", "status": ready}, *others]}


# the pod, whether its node is read, whether the pod seems to be lost
PODS: dict[str, tuple[dict[str, Any], bool, bool]] = {
    "it has no node": (pod(), False, False),
    "it runs": (pod(nodeName="n1", status=conditions(RUNNING, "True")), False, False),
    "it has ended": (pod(nodeName="n1", status=conditions(DONE, "False")), False, False),
    "it is being created": (pod(nodeName="n1", status=CREATING), True, False),
    "it is not ready yet": (pod(nodeName="n1", status=conditions(STARTING, "False")), True, False),
    "it has no image": (pod(nodeName="n1", status=PULLING), False, False),
    "it was ready when its kubelet was last heard": (
        pod(nodeName="n1", status=conditions(RUNNING, "False")),
        True,
        True,
    ),
    "it is being stopped": (pod(nodeName="n1", deleted=True, status=conditions(STARTING, "False")), True, False),
    "it was evicted from a lost node": (
        pod(
            nodeName="n1",
            deleted=True,
            status=conditions(STARTING, "False", DisruptionTarget="DeletionByTaintManager"),
        ),
        True,
        True,
    ),
}


@pytest.mark.parametrize(("obj", "doubt", "lost"), PODS.values(), ids=PODS)
def test_what_a_pod_says_about_its_node(obj: dict[str, Any], doubt: bool, lost: bool) -> None:
    assert (nodes_in_doubt([obj]), seems_lost(obj)) == ({"n1"} if doubt else set(), lost)
