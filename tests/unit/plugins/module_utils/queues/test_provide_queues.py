# SPDX-License-Identifier: BSD-2-Clause
"""Which objects of queues a task writes, and which it leaves."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import SYSTEM_NAMESPACE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE as QUOTA
from kubesim import Cluster

from ..jobs.sessions import Session

QUOTA_OF_TEAM = {"kind": "quota", "quota": {"name": "q"}, "users": {"team": {"gpu": 4}}}


@pytest.mark.parametrize("text", ["{", '{"backend": "kueue", "preemption": "always"}'])
def test_the_objects_of_a_queue_that_cannot_be_read_stay(text: str) -> None:
    with Cluster(nodes=2, controllers=False, addons={"kueue"}).running() as cluster:
        session = Session(cluster)

        def declare(name: str, node: str) -> dict[str, Any]:
            pool = {"kind": "pool", "pool": {"name": name}, "nodes": [node], "queue": "kueue"}
            return session.run(POOL, definition=pool)

        def queues() -> list[str]:
            found = cluster.call(lambda: cluster.registry.list("ClusterQueue", ""))
            return sorted(obj["metadata"]["name"] for obj in found)

        session.run(QUOTA, definition=QUOTA_OF_TEAM)
        declare("a", "node-1")
        declare("b", "node-2")
        before = queues()
        edit = {"queue": text}
        cluster.call(
            lambda: cluster.registry.modify(
                "ConfigMap", SYSTEM_NAMESPACE, "pool-a", lambda one: one["data"].update(edit)
            )
        )
        other = {**QUOTA_OF_TEAM, "users": {"team": {"gpu": 3}}}
        assert not declare("b", "node-2").get("failed")
        assert "queue cannot be read. Declare the pool again" in str(session.warnings)
        assert session.run(QUOTA, definition=other)["changed"]
        assert "Until then, its queue stays as it is." in str(session.warnings)
        assert queues() == before
        assert len(before) == 2
        declare("a", "node-1")
        session.run(POOL, name="a", state="absent")
        assert len(queues()) < len(before)
