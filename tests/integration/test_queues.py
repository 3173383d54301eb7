# SPDX-License-Identifier: BSD-2-Clause
"""Pools with a queue of Kueue: what is written of it, that a training waits for all of its nodes, and who says why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubesim import Cluster

from .ansible import Ansible
from .api import Api, eventually
from .manifests import training

GROUP = "/apis/kueue.x-k8s.io/v1beta2"
NODES = [f"node-{number}" for number in (1, 2, 3, 4)]
POOL = {"kind": "pool", "pool": {"name": "big"}, "nodes": NODES, "queue": "kueue"}
QUOTA = {
    "kind": "quota",
    "quota": {"name": "teams"},
    "users": {"team-a": {"gpu": 32, "shares": {"big": 8}}, "team-b": {"cpu": 500}},
}


@pytest.fixture
def kueue(tmp_path: Path) -> Iterator[tuple[Ansible, Api]]:
    """A cluster of four nodes that has Kueue."""
    if os.environ.get("GPUCTL_TEST_KUBECONFIG"):
        pytest.skip("test_kueue_schemas.py proves there what the server accepts")
    with Cluster(nodes=4, addons={"kueue"}).running() as cluster:
        path = tmp_path / "kueue.kubeconfig"
        cluster.kubeconfig(path)
        yield Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(path)}), Api(str(path))


def found(api: Api, plural: str, namespace: str = "") -> dict[str, Any]:
    place = f"/namespaces/{namespace}" if namespace else ""
    status, answer = api.call("GET", f"{GROUP}{place}/{plural}")
    assert status == 200
    return {obj["metadata"]["name"]: obj["spec"] for obj in answer["items"]}


def quotas(spec: dict[str, Any], resource: str) -> dict[str, str]:
    (group,) = spec["resourceGroups"]
    (flavor,) = group["flavors"]
    (own,) = [each for each in flavor["resources"] if each["name"] == resource]
    return {key: value for key, value in own.items() if key != "name"}


def job(name: str, namespace: str, nodes: int) -> dict[str, Any]:
    resources = {"pool": "big", "gpu": 4, "cpu": 4, "memory": "8Gi", "node_count": nodes}
    return training(name, job={"namespace": namespace}, resources=resources)


def declared(ansible: Ansible) -> None:
    for module, manifest in (("gpuctl_pool", POOL), ("gpuctl_quota", QUOTA)):
        result = ansible.module(module, definition=manifest)
        assert result.changed, result.message


def test_a_pool_and_its_quotas_become_queues_and_go_again(kueue: tuple[Ansible, Api]):
    ansible, api = kueue
    checked = ansible.module("gpuctl_pool", definition=POOL, check=True)
    assert checked.changed, checked.message
    assert found(api, "cohorts") == {}
    declared(ansible)
    assert found(api, "resourceflavors")["gpuctl-big"]["nodeLabels"] == {"runwhere.ai/pool": "big"}
    queues = found(api, "clusterqueues")
    assert queues.keys() == {"gpuctl-big.team-a", "gpuctl-big.team-b"}
    own = queues["gpuctl-big.team-a"]
    assert own["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}
    assert own["preemption"]["reclaimWithinCohort"] == "Any"
    # A limit of the namespace is the most that is ever admitted: 32 GPUs, 8 of them its own.
    assert quotas(own, "nvidia.com/gpu") == {"nominalQuota": "8", "borrowingLimit": "24"}
    assert quotas(queues["gpuctl-big.team-b"], "nvidia.com/gpu") == {"nominalQuota": "0"}
    assert quotas(queues["gpuctl-big.team-b"], "cpu")["borrowingLimit"] == "500"
    total = sum(int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in api.list("node"))
    assert quotas(found(api, "cohorts")["gpuctl-big"], "nvidia.com/gpu") == {"nominalQuota": str(total - 8)}
    assert found(api, "localqueues", "team-b") == {"gpuctl-big": {"clusterQueue": "gpuctl-big.team-b"}}

    for module, manifest in (("gpuctl_pool", POOL), ("gpuctl_quota", QUOTA)):
        again = ansible.module(module, definition=manifest)
        assert not again.changed, again.message
    info = ansible.module("gpuctl_pool_info", name="big")
    assert info.result["results"][0]["queue"] == {"backend": "kueue", "preemption": "reclaim"}

    limited = {
        **POOL,
        "queue": {"backend": "kueue", "borrowing_limit": 4, "lending_limit": 2},
        "topology": {"rack": "r"},
    }
    assert ansible.module("gpuctl_pool", definition=limited).changed
    own = found(api, "clusterqueues")["gpuctl-big.team-a"]
    amounts = {"nominalQuota": "8", "borrowingLimit": "4", "lendingLimit": "2"}
    assert quotas(own, "nvidia.com/gpu") == amounts
    ((flavor, spec),) = found(api, "resourceflavors").items()
    assert spec["topologyName"] == flavor
    assert found(api, "topologies")[flavor]["levels"] == [{"nodeLabel": "r"}, {"nodeLabel": "kubernetes.io/hostname"}]

    removed = ansible.module("gpuctl_quota", state="absent", name="teams", namespaces=["team-b"])
    assert removed.changed, removed.message
    assert found(api, "clusterqueues").keys() == {"gpuctl-big.team-a"}
    api.call(
        "POST", f"{GROUP}/cohorts", {"kind": "Cohort", "apiVersion": GROUP[6:], "metadata": {"name": "x"}, "spec": {}}
    )
    assert ansible.module("gpuctl_pool", name="big", state="absent").changed
    left = {
        plural: list(found(api, plural)) for plural in ("cohorts", "clusterqueues", "localqueues", "resourceflavors")
    }
    assert left == {"cohorts": ["x"], "clusterqueues": [], "localqueues": [], "resourceflavors": []}


def test_a_training_gets_all_of_its_nodes_or_none(kueue: tuple[Ansible, Api]):
    ansible, api = kueue
    declared(ansible)
    total = sum(int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in api.list("node"))
    first = ansible.job(definition=job("first", "team-a", total // 4), wait=True, wait_timeout=60)
    assert not first.failed, first.message
    for name in ("second", "third"):
        assert not ansible.job(definition=job(name, "team-b", 2)).failed
    eventually(lambda: "number 2 of 2" in reason(ansible, "third", "team-b"), 20)
    text = reason(ansible, "second", "team-b")
    assert "number 1 of 2 that wait there: couldn't assign flavors" in text
    assert "nvidia.com/gpu" in text
    assert api.list("pod", "team-b") == []
    waited = ansible.job(definition=job("second", "team-b", 2), wait=True, wait_timeout=3)
    assert waited.failed
    assert "number 1 of 2" in waited.message

    paused = ansible.job(name="second", namespace="team-b", state="paused")
    assert paused.changed, paused.message
    eventually(lambda: "paused in queue gpuctl-big" in reason(ansible, "second", "team-b"), 20)
    assert "number 1 of 1" in reason(ansible, "third", "team-b")
    assert ansible.job(name="first", namespace="team-a", state="absent").changed
    started = ansible.job(definition=job("third", "team-b", 2), wait=True, wait_timeout=60)
    assert not started.failed, started.message
    assert api.get("job", "second", "team-b")["spec"]["suspend"] is True


def test_what_runs_stays_in_its_queue_when_the_pool_loses_it(kueue: tuple[Ansible, Api]):
    ansible, api = kueue
    declared(ansible)
    manifest = job("train", "team-a", 2)
    assert not ansible.job(definition=manifest, wait=True, wait_timeout=60).failed
    without = ansible.module("gpuctl_pool", definition={key: value for key, value in POOL.items() if key != "queue"})
    assert without.changed, without.message
    assert found(api, "localqueues") == {}
    assert not ansible.job(definition=manifest).changed


def test_a_namespace_without_a_quota_has_no_queue(kueue: tuple[Ansible, Api]):
    ansible, _api = kueue
    declared(ansible)
    refused = ansible.job(definition=job("train", "default", 2))
    assert refused.failed
    assert "namespace default has no queue for pool big (LocalQueue gpuctl-big)" in refused.message


def test_shares_beyond_the_pool_are_reduced(kueue: tuple[Ansible, Api]):
    ansible, api = kueue
    declared(ansible)
    greedy = {**QUOTA, "users": {name: {"shares": {"big": 1000}} for name in ("team-a", "team-b")}}
    result = ansible.module("gpuctl_quota", definition=greedy)
    assert "add up to 2000" in " ".join(result.screen.split())
    total = sum(int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in api.list("node"))
    shares = [quotas(queue, "nvidia.com/gpu")["nominalQuota"] for queue in found(api, "clusterqueues").values()]
    assert shares == [str(total // 2)] * 2


def test_without_kueue_nothing_is_changed(tmp_path: Path):
    with Cluster(nodes=4).running() as cluster:
        path = tmp_path / "plain.kubeconfig"
        cluster.kubeconfig(path)
        ansible, api = Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(path)}), Api(str(path))
        refused = ansible.module("gpuctl_pool", definition=POOL)
        assert refused.failed
        assert "Install Kueue 0.15 or later" in refused.message
        assert "Nothing was changed" in refused.message
        assert api.get("configmap", "pool-big", "gpuctl-system") is None
        useless = ansible.module("gpuctl_quota", definition=QUOTA)
        assert "shares of pool big have no effect" in " ".join(useless.screen.split())


def reason(ansible: Ansible, name: str, namespace: str) -> str:
    (row,) = ansible.module("gpuctl_job_info", name=name, namespaces=[namespace]).result["results"]
    return str(row["reason"])
