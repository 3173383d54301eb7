# SPDX-License-Identifier: BSD-2-Clause
"""Kubernetes before 1.34 has no resource.k8s.io/v1, and answers its paths in plain text as a proxy would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubesim import Cluster

from .ansible import Ansible
from .api import Api
from .manifests import training

TOO_LARGE = training("large", resources={"gpu": 64})
POLICY = {"kind": "policy", "policy": {"name": "p"}, "defaults": {"max_gpus_per_job": 4}}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("older") / "kubeconfig"
    with Cluster(nodes=2, without={"resource.k8s.io"}).running() as cluster:
        cluster.kubeconfig(path)
        yield path


@pytest.fixture
def ansible(kubeconfig: Path, tmp_path: Path) -> Ansible:
    return Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(kubeconfig)})


def test_a_job_that_cannot_be_scheduled_says_why(ansible: Ansible) -> None:
    run = ansible.job(definition=TOO_LARGE, wait=True, wait_timeout=5)
    assert "it needs 64 GPUs on one node" in run.message, run.message
    found = ansible.module("gpuctl_fit_info", definition=TOO_LARGE)
    assert "It needs 64 GPUs on one node" in found.result["results"][0]["reason"], found.message


def test_limits_of_policies_count_without_claims(ansible: Ansible) -> None:
    run = ansible.module("gpuctl_policy", definition=POLICY)
    assert run.changed, run.message


def test_a_pool_whose_devices_jobs_claim_refuses_them(ansible: Ansible, kubeconfig: Path) -> None:
    node = Api(str(kubeconfig)).list("node")[0]["metadata"]["name"]
    pool = ansible.module("gpuctl_pool", name="dra", nodes=[node], device_class="gpu.example.com")
    assert pool.changed, pool.message
    run = ansible.job(definition=training("claim", resources={"pool": "dra", "gpu": 1}))
    assert run.failed
    assert "API not served by this cluster: resource.k8s.io/v1" in run.message
    assert Api(str(kubeconfig)).get("job", "claim", "default") is None
