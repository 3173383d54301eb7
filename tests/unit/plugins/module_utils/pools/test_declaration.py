# SPDX-License-Identifier: BSD-2-Clause
"""A pool's ConfigMap: readable, and read back as it was written."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.declaration import (
    Declaration,
    declaration_of,
    pool_config_map,
)

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
def test_what_is_written_is_read_back(pool: Declaration) -> None:
    assert declaration_of(pool_config_map(pool)) == pool


def test_a_config_map_of_somebody_else_declares_nothing() -> None:
    theirs = pool_config_map(POOL)
    del theirs["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    assert declaration_of(theirs) is None
