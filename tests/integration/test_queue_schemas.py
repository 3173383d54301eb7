# SPDX-License-Identifier: BSD-2-Clause
"""The objects of queues are what the published CRDs of Kueue and Volcano accept, and stay as they were written.

Runs where the real cluster serves them: apply config/components/crd/bases of a release of Kueue first, and
config/crd/volcano/bases of one of Volcano. Their controllers are not needed, and webhooks reject no more than the
validation rules here do.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.multikueue_objects import (
    MULTIKUEUE_KINDS,
    manager_objects,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import Declaration, PoolQueue
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import SECRET
from ansible_collections.runwhere.gpuctl.plugins.module_utils.queues.backends import BACKENDS as ALL
from ansible_collections.runwhere.gpuctl.plugins.module_utils.queues.provide_queues import plan_queues, queue_objects
from ansible_collections.runwhere.gpuctl.plugins.module_utils.queues.teams import Team, capacity_of

from .api import Api

BACKENDS = {name: backend for name, backend in ALL.items() if backend.queue and name != "multikueue"}
NODE = {
    "metadata": {"name": "node-1", "labels": {"example.com/rack": "r1"}, "creationTimestamp": "2026-01-01T00:00:00Z"}
}
RESOURCES = {"cpu": "128", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": "8", "aliyun.com/gpu-mem": "640"}
NODES = [{**NODE, "status": {"allocatable": RESOURCES}}]
PLURALS = {kind.kind: kind for backend in BACKENDS.values() for kind in backend.kinds}
PLURALS |= {kind.kind: kind for kind in (*MULTIKUEUE_KINDS, SECRET)}


@pytest.mark.parametrize("backend", sorted(BACKENDS))
@pytest.mark.parametrize(
    ("limits", "topology"),
    [
        ({}, {}),
        ({"borrowing_limit": 4, "lending_limit": 2, "preemption": "priority"}, {"rack": "example.com/rack"}),
        ({"borrowing_limit": 0, "lending_limit": 0, "preemption": "never"}, {}),
    ],
    ids=["short", "limits-and-topology", "zeros"],
)
def test_the_server_accepts_and_keeps_them(
    api: Api, namespace: str, backend: str, limits: dict[str, Any], topology: dict[str, str]
):
    groups = {group["name"] for group in api.call("GET", "/apis")[1]["groups"]}
    if BACKENDS[backend].queue.api_version.partition("/")[0] not in groups:
        pytest.skip(f"this cluster does not have the CRDs of {backend}")
    queue = PoolQueue(backend, **limits)
    pool = Declaration(f"schema-{namespace}", "", {"node-1": None}, None, PoolHardware(topology=topology), queue)
    team = Team(namespace, {pool.name: 3}, ({"requests.nvidia.com/gpu": "6", "limits.cpu": "10", "pods": "4"},))
    desired = queue_objects(pool, capacity_of(pool, NODES), [team])
    require_kept(api, desired)


def test_the_server_accepts_and_keeps_those_of_multikueue(api: Api, namespace: str):
    """The queues of a manager, and what Kueue connects to workers by."""
    groups = {group["name"] for group in api.call("GET", "/apis")[1]["groups"]}
    if "kueue.x-k8s.io" not in groups:
        pytest.skip("this cluster does not have the CRDs of kueue")
    pool = Declaration(
        f"schema-{namespace}",
        hardware=PoolHardware(topology={"rack": "example.com/rack"}, rdma_resource="rdma/hca"),
        queue=PoolQueue("multikueue"),
    )
    team = Team(namespace, {pool.name: 3}, ({"requests.nvidia.com/gpu": "6"},))
    queues = queue_objects(pool, capacity_of(pool, []), [team])
    require_kept(api, [*queues, *manager_objects({f"one-{namespace}": "a", f"two-{namespace}": "b"}, namespace)])


def require_kept(api: Api, desired: list[dict[str, Any]]) -> None:
    written: list[dict[str, Any]] = []
    try:
        for obj in desired:
            status, answer = api.call("PATCH", f"{path(obj)}?{WRITE}", obj, "application/apply-patch+yaml")
            assert status == 201, answer
            written.append(answer)
        assert plan_queues(desired, written) == []
    finally:
        for obj in reversed(written):
            api.call("DELETE", path(obj))


WRITE = "fieldManager=runwhere.gpuctl&fieldValidation=Strict"


def path(obj: dict[str, Any]) -> str:
    return PLURALS[obj["kind"]].path(obj["metadata"].get("namespace"), obj["metadata"]["name"])
