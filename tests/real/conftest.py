# SPDX-License-Identifier: BSD-2-Clause
"""A cluster whose kubelets run containers: GPUCTL_REAL_KUBECONFIG names it. Without it, all tests are skipped.

The helpers are those of the integration tests, but requests go to the server directly, over TLS and without a proxy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration.ansible import Ansible
from integration.api import Api
from integration.conftest import administrator, api, field, namespace
from integration.pools import POOL, Field

from . import settings
from .jobs import free_gpus

__all__ = ["administrator", "ansible", "api", "field", "kubeconfig", "namespace"]


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    return Path(settings.kubeconfig()).resolve()


@pytest.fixture
def ansible(tmp_path: Path, kubeconfig: Path, administrator: Api) -> Ansible:
    """Ansible in the name of an account of the level administer."""
    return Ansible(tmp_path, administrator.connection_variables() or {"K8S_AUTH_KUBECONFIG": str(kubeconfig)})


@pytest.fixture
def cluster_admin(tmp_path: Path, kubeconfig: Path) -> Ansible:
    """Ansible in the name of the kubeconfig's user, for what no level grants: running commands in containers."""
    return Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(kubeconfig)})


@pytest.fixture
def free_nodes(api: Api, field: Field) -> list[str]:
    """Nodes that a test may put into a pool of its own, those with the most free GPUs first."""
    nodes = {node["metadata"]["name"]: node for node in api.list("node")}
    ready = [name for name in field.nodes if _accepts_pods(nodes[name])]
    return sorted(ready, key=lambda name: -free_gpus(api, nodes[name]))


@pytest.fixture
def one_node(field: Field, free_nodes: list[str]) -> str:
    """The name of a pool with one node, on which a directory stays from pod to pod."""
    if not free_nodes:
        pytest.skip("the cluster has no node that is ready, without taints and in no pool")
    field.set_labels(free_nodes[0], {POOL: field.pool("one")})
    return field.pool("one")


def _accepts_pods(node: dict[str, Any]) -> bool:
    conditions = {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}
    return conditions["Ready"] == "True" and not node["spec"].get("unschedulable") and not node["spec"].get("taints")
