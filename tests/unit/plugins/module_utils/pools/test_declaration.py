# SPDX-License-Identifier: BSD-2-Clause
"""The ConfigMap of a pool."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import (
    Declaration,
    declarations_in,
    pool_config_map,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.declaration import declarations_after
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE
from kubesim import Cluster

from ..jobs.sessions import Session

POOL = Declaration("train", "大模型训练", {"gpu-2.example.com": "A100-100G", "gpu-1": None, "1e3": "1e3"})


def test_the_config_map_is_readable_and_ours() -> None:
    assert pool_config_map(POOL) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "pool-train",
            "namespace": "gpuctl-system",
            "labels": {"app.kubernetes.io/managed-by": "runwhere.gpuctl", "runwhere.ai/pool": "train"},
            "annotations": {"runwhere.ai/description": "大模型训练"},
        },
        "data": {"nodes": "1e3: 1e3\ngpu-1:\ngpu-2.example.com: A100-100G\n"},
    }


def test_its_nodes_are_yaml() -> None:
    nodes = yaml.load(pool_config_map(POOL)["data"]["nodes"], yaml.BaseLoader)
    assert nodes == {"1e3": "1e3", "gpu-1": "", "gpu-2.example.com": "A100-100G"}


@pytest.mark.parametrize("pool", [POOL, Declaration("empty"), Declaration("bare", "", {"a": None})])
def test_the_declaration_is_read_back(pool: Declaration) -> None:
    assert declarations_in([pool_config_map(pool)]) == {pool.name: pool}


def test_an_unmanaged_config_map_declares_nothing() -> None:
    unmanaged = pool_config_map(POOL)
    del unmanaged["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    assert declarations_in([unmanaged]) == {}


def test_declarations_follow_labels() -> None:
    pools = {"a": Declaration("a", "", {"n1": "T4", "n2": None}), "b": Declaration("b", "", {"n3": "T4"})}
    after = declarations_after(pools, {"n1": "b", "n2": None, "n3": "b", "n4": "elsewhere"})
    assert {name: dict(declaration.nodes) for name, declaration in after.items()} == {
        "a": {},
        "b": {"n3": "T4", "n1": None},
    }


def test_what_a_pool_no_longer_declares_goes_from_its_config_map() -> None:
    with Cluster(nodes=1, controllers=False, addons={"kueue"}).running() as cluster:
        session = Session(cluster)

        def declare(**fields: str) -> bool:
            definition = {"kind": "pool", "pool": {"name": "a"}, "nodes": ["node-1"], **fields}
            return bool(session.run(MODULE, definition=definition)["changed"])

        def declared() -> set[str]:
            return set(cluster.call(lambda: cluster.registry.get("ConfigMap", "gpuctl-system", "pool-a"))["data"])

        declare(queue="kueue", rdma_resource="rdma/hca")
        assert declared() == {"nodes", "hardware", "queue"}
        assert declare()
        assert declared() == {"nodes"}
        assert not declare()
