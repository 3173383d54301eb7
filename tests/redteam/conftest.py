# SPDX-License-Identifier: BSD-2-Clause
"""The fixtures of the integration tests: attacks, too, are played on any cluster that GPUCTL_TEST_KUBECONFIG names."""

import pytest
from integration.api import Api
from integration.conftest import (
    _recorder,
    administrator,
    ansible,
    api,
    field,
    kubeconfig,
    namespace,
    recorder,
    submitter,
)

__all__ = [
    "_recorder",
    "administrator",
    "ansible",
    "api",
    "field",
    "kubeconfig",
    "namespace",
    "printing_containers",
    "recorder",
    "submitter",
]


@pytest.fixture
def printing_containers(api: Api) -> None:
    """For tests that read what a program prints: control planes with nodes that only exist by name cannot show it."""
    if not any(node["status"]["nodeInfo"].get("containerRuntimeVersion") for node in api.list("node")):
        pytest.skip("no node of this cluster runs containers")
