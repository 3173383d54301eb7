# SPDX-License-Identifier: BSD-2-Clause
"""pytest fixtures; pytest finds them by the entry point in pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kubesim


@pytest.fixture(scope="session")
def kubesim_cluster() -> Iterator[kubesim.Cluster]:
    """A running cluster of four GPU nodes, shared by all tests of the session. Override it for another one."""
    with kubesim.Cluster(nodes=4).running() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kubesim_kubeconfig(kubesim_cluster: kubesim.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a kubeconfig for the administrator of `kubesim_cluster`."""
    return kubesim_cluster.kubeconfig(tmp_path_factory.mktemp("kubesim") / "kubeconfig")
