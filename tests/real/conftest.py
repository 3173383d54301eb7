# SPDX-License-Identifier: BSD-2-Clause
"""A cluster whose kubelets run containers: the one that GPUCTL_REAL_KUBECONFIG names. Without it, all tests are skipped.

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

__all__ = ["administrator", "ansible", "api", "field", "kubeconfig", "namespace"]


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    return Path(settings.kubeconfig()).resolve()


@pytest.fixture
def ansible(tmp_path: Path, kubeconfig: Path, administrator: Api) -> Ansible:
    """Ansible in the name of an account of the level administer."""
    return Ansible(tmp_path, administrator.connection_variables() or {"K8S_AUTH_KUBECONFIG": str(kubeconfig)})


@pytest.fixture
def one_node(api: Api, field: Field) -> str:
    """A pool with one node, on which a directory stays from pod to pod."""
    ready = [node for node in field.nodes if _is_ready(api.get("node", node))]
    if not ready:
        pytest.skip("every node of the cluster is in a pool")
    field.set_labels(ready[0], {POOL: field.pool("one")})
    return field.pool("one")


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}
    return conditions["Ready"] == "True" and not node["spec"].get("unschedulable") and not node["spec"].get("taints")
