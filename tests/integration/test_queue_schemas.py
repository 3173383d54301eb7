# SPDX-License-Identifier: BSD-2-Clause
"""The objects of queues are what the published CRDs of Kueue accept, and stay as they were written.

Runs where the real cluster serves them: apply config/components/crd/bases of a Kueue release first. Its controller is
not needed, and its webhooks reject no more than their validation rules here do.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators import PoolHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.declared import Declaration, PoolQueue
from ansible_collections.runwhere.gpuctl.plugins.module_utils.queues.kueue_objects import (
    Team,
    capacity_of,
    queue_objects,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.queues.provide_queues import plan_queues

from .api import Api

GROUP = "/apis/kueue.x-k8s.io/v1beta2"
NODE = {"metadata": {"name": "node-1", "labels": {}, "creationTimestamp": "2026-01-01T00:00:00Z"}}
RESOURCES = {"cpu": "128", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": "8", "aliyun.com/gpu-mem": "640"}
NODES = [{**NODE, "status": {"allocatable": RESOURCES}}]
PLURALS = {kind.kind: kind for backend in BACKENDS.values() for kind in backend.kinds}


@pytest.fixture
def kueue(api: Api) -> Api:
    served = {
        version["groupVersion"] for group in api.call("GET", "/apis")[1]["groups"] for version in group["versions"]
    }
    if GROUP.removeprefix("/apis/") not in served:
        pytest.skip("this cluster has not the CRDs of Kueue")
    return api


@pytest.mark.parametrize(
    ("queue", "topology"),
    [
        (PoolQueue("kueue"), {}),
        (PoolQueue("kueue", borrowing_limit=4, lending_limit=2, preemption="priority"), {"rack": "example.com/rack"}),
        (PoolQueue("kueue", borrowing_limit=0, lending_limit=0, preemption="never"), {}),
    ],
    ids=["short", "limits-and-topology", "zeros"],
)
def test_the_server_accepts_and_keeps_them(kueue: Api, namespace: str, queue: PoolQueue, topology: dict[str, str]):
    pool = Declaration(f"schema-{namespace}", "", {"node-1": None}, None, PoolHardware(topology=topology), queue)
    team = Team(namespace, {pool.name: 3}, ({"requests.nvidia.com/gpu": "6", "limits.cpu": "10", "pods": "4"},))
    desired = queue_objects(pool, capacity_of(pool, NODES), [team])
    written: list[dict[str, Any]] = []
    try:
        for obj in desired:
            status, answer = kueue.call("PATCH", f"{path(obj)}?{WRITE}", obj, "application/apply-patch+yaml")
            assert status == 201, answer
            written.append(answer)
        assert plan_queues(desired, written) == []
    finally:
        for obj in reversed(written):
            kueue.call("DELETE", path(obj))


WRITE = "fieldManager=runwhere.gpuctl&fieldValidation=Strict"


def path(obj: dict[str, Any]) -> str:
    return PLURALS[obj["kind"]].path(obj["metadata"].get("namespace"), obj["metadata"]["name"])
