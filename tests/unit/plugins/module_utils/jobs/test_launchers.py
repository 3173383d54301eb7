# SPDX-License-Identifier: BSD-2-Clause
"""Launchers and levels of the topology, as modules run them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects import training
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.launchers import Launch
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from kubesim import Cluster

from .sessions import Session


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2).running() as running:
        yield running


def script(**blocks: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "training",
        "job": {"name": "t"},
        "environment": {"image": "registry.example.com/ml:v1", "command": ["python", "train.py"]},
        "resources": {"cpu": 1, "memory": "1Gi", "node_count": 2, **blocks.pop("resources", {})},
        **blocks,
    }


def template_of(cluster: Cluster) -> dict[str, Any]:
    (job,) = cluster.call(lambda: cluster.registry.list("Job"))
    return {**job["spec"]["template"]["spec"], "uid": job["metadata"]["uid"]}


def test_a_script_that_runs_without_a_launcher_since_a_former_version_is_not_interrupted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(cluster)
    with monkeypatch.context() as former:
        former.setattr(training, "launch", lambda manifest, equipment: Launch(manifest.environment.command))
        session.run(JOB, definition=script(), wait=True, wait_timeout=30)
    before = template_of(cluster)
    assert before["containers"][0]["command"] == ["python", "train.py"]

    again = session.run(JOB, definition=script())
    assert not again["changed"]
    assert "It keeps running as it was submitted" in again["results"][0]["reason"]
    assert template_of(cluster)["uid"] == before["uid"]

    upgraded = session.run(JOB, definition=script(), upgrade=True, recreate=True)
    assert upgraded["changed"]
    assert template_of(cluster)["containers"][0]["command"] == ["torchrun", "train.py"]


def test_what_the_pool_declares_is_read_for_a_level_of_its_topology_and_for_rdma(cluster: Cluster) -> None:
    session = Session(cluster)
    nodes = [node["metadata"]["name"] for node in cluster.call(lambda: cluster.registry.list("Node"))]
    network = {"rdma_resource": "rdma/hca", "rdma_env": {"NCCL_IB_HCA": "mlx5"}, "topology": {"rack": "x.example/rack"}}
    declared = session.run(POOL, name="fast", nodes=nodes, **network)
    assert declared["results"][0]["hardware"] == network
    assert not session.run(POOL, name="fast", nodes=nodes, **network)["changed"]

    placement = {"placement": {"within": "rack", "required": True}}
    session.run(JOB, definition=script(resources={"pool": "fast", "interconnect": "rdma"}, distributed=placement))
    pod = template_of(cluster)
    (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "x.example/rack"
    assert {"name": "NCCL_IB_HCA", "value": "mlx5"} in pod["containers"][0]["env"]


def test_a_level_that_the_pool_does_not_declare_changes_nothing(cluster: Cluster) -> None:
    refused = Session(cluster).run(JOB, definition=script(distributed={"placement": {"within": "rack"}}))
    assert refused["failed"]
    assert "distributed.placement.within: a level that pool default does not declare: rack." in refused["msg"]
    assert not cluster.call(lambda: cluster.registry.list("Job"))


def test_processes_without_a_launcher_are_warned_of_when_the_training_is_submitted(cluster: Cluster) -> None:
    session = Session(cluster)
    alone = script(distributed={"launcher": "none"})
    session.run(JOB, definition=alone)
    assert any("one process on each node" in text for text in session.warnings)
    session.run(JOB, definition=alone)
    assert not session.warnings


def test_advice_about_several_manifests_is_said_once(cluster: Cluster) -> None:
    session = Session(cluster)
    jobs = [script(job={"name": f"t{number}"}, distributed={"launcher": "none"}) for number in range(5)]
    session.run(JOB, definition=jobs)
    (said,) = [text for text in session.warnings if "one process on each node" in text]
    assert said.startswith("definition, document 1, definition, document 2 and 3 more: ")
