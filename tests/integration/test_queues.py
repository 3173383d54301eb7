# SPDX-License-Identifier: BSD-2-Clause
"""Pools with a queue of Kueue or Volcano: what is written of it, that a training waits for all of its nodes, and who
says why. A real cluster that serves one of them needs its controllers, and the nodes node-1 to node-4 for itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.queues.backends import BACKENDS as ALL
from kubesim import Cluster

from .ansible import Ansible
from .api import Api, eventually
from .manifests import inference, training

BACKENDS = {name: backend for name, backend in ALL.items() if backend.queue and name != "multikueue"}
GROUP = "/apis/kueue.x-k8s.io/v1beta2"
NODES = [f"node-{number}" for number in (1, 2, 3, 4)]
QUOTA = {
    "kind": "quota",
    "quota": {"name": "teams"},
    "users": {"team-a": {"gpu": 32, "shares": {"big": 8}}, "team-b": {"cpu": 500}},
}


class Queues(NamedTuple):
    """A cluster with a queueing system."""

    ansible: Ansible
    api: Api
    backend: str

    @property
    def pool(self) -> dict[str, Any]:
        return {"kind": "pool", "pool": {"name": "big"}, "nodes": NODES, "queue": self.backend}

    def found(self, plural: str, namespace: str = "") -> dict[str, Any]:
        """The specs of the queueing system's objects that are ours."""
        place = f"/namespaces/{namespace}" if namespace else ""
        ours = "labelSelector=app.kubernetes.io/managed-by=runwhere.gpuctl"
        status, answer = self.api.call(
            "GET", f"/apis/{BACKENDS[self.backend].queue.api_version}{place}/{plural}?{ours}"
        )
        assert status == 200
        return {obj["metadata"]["name"]: obj["spec"] for obj in answer["items"]}

    def total(self) -> int:
        """The GPUs of the pool."""
        nodes = [node for node in self.api.list("node") if node["metadata"]["name"] in NODES]
        return sum(int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in nodes)

    def row(self, name: str, namespace: str) -> dict[str, Any]:
        (row,) = self.ansible.module("gpuctl_job_info", name=name, namespaces=[namespace]).result["results"]
        return dict(row)

    def reason(self, name: str, namespace: str) -> str:
        return str(self.row(name, namespace)["reason"])

    def declare(self) -> None:
        for module, manifest in (("gpuctl_pool", self.pool), ("gpuctl_quota", QUOTA)):
            result = self.ansible.module(module, definition=manifest)
            assert result.changed, result.message


@contextmanager
def cluster_with(backend: str, tmp_path: Path) -> Iterator[Queues]:
    if given := os.environ.get("GPUCTL_TEST_KUBECONFIG"):
        found = Queues(Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": given}), Api(given), backend)
        if found.api.call("GET", f"/apis/{BACKENDS[backend].queue.api_version}")[0] != 200:
            pytest.skip(f"this cluster does not have {backend}")
        try:
            yield found
        finally:
            found.ansible.module("gpuctl_quota", state="absent", name="teams", delete_namespaces=True, force=True)
            found.ansible.module("gpuctl_pool", name="big", state="absent", force=True)
            for namespace in ("team-a", "team-b"):
                found.api.delete("namespace", namespace)
            eventually(lambda: not any(found.api.get("namespace", name) for name in ("team-a", "team-b")), 90)
        return
    with Cluster(nodes=4, addons={backend}).running() as cluster:
        path = tmp_path / "queues.kubeconfig"
        cluster.kubeconfig(path)
        yield Queues(Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(path)}), Api(str(path)), backend)


@pytest.fixture
def kueue(tmp_path: Path) -> Iterator[Queues]:
    """A cluster of four nodes that has Kueue."""
    with cluster_with("kueue", tmp_path) as found:
        yield found


@pytest.fixture
def volcano(tmp_path: Path) -> Iterator[Queues]:
    with cluster_with("volcano", tmp_path) as found:
        yield found


@pytest.fixture(params=sorted(BACKENDS))
def queues(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Queues]:
    """One after the other."""
    with cluster_with(request.param, tmp_path) as found:
        yield found


def quotas(spec: dict[str, Any], resource: str) -> dict[str, str]:
    (group,) = spec["resourceGroups"]
    (flavor,) = group["flavors"]
    (own,) = [each for each in flavor["resources"] if each["name"] == resource]
    return {key: value for key, value in own.items() if key != "name"}


def job(name: str, namespace: str, nodes: int) -> dict[str, Any]:
    resources = {"pool": "big", "gpu": 4, "cpu": 4, "memory": "8Gi", "node_count": nodes}
    return training(name, job={"namespace": namespace}, resources=resources)


def test_a_pool_and_its_quotas_become_queues_and_go_again(kueue: Queues):
    ansible, api, found, pool = kueue.ansible, kueue.api, kueue.found, kueue.pool
    checked = ansible.module("gpuctl_pool", definition=pool, check=True)
    assert checked.changed, checked.message
    assert found("cohorts") == {}
    kueue.declare()
    assert found("resourceflavors")["gpuctl-big"]["nodeLabels"] == {"runwhere.ai/pool": "big"}
    queues = found("clusterqueues")
    assert queues.keys() == {"gpuctl-big.team-a", "gpuctl-big.team-b"}
    own = queues["gpuctl-big.team-a"]
    assert own["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}
    assert own["preemption"]["reclaimWithinCohort"] == "Any"
    # A limit of the namespace is the most that is ever admitted: 32 GPUs, 8 of them its own.
    assert quotas(own, "nvidia.com/gpu") == {"nominalQuota": "8", "borrowingLimit": "24"}
    assert quotas(queues["gpuctl-big.team-b"], "nvidia.com/gpu") == {"nominalQuota": "0"}
    assert quotas(queues["gpuctl-big.team-b"], "cpu")["borrowingLimit"] == "500"
    total = kueue.total()
    assert quotas(found("cohorts")["gpuctl-big"], "nvidia.com/gpu") == {"nominalQuota": str(total - 8)}
    assert found("localqueues", "team-b")["gpuctl-big"]["clusterQueue"] == "gpuctl-big.team-b"

    for module, manifest in (("gpuctl_pool", pool), ("gpuctl_quota", QUOTA)):
        again = ansible.module(module, definition=manifest)
        assert not again.changed, again.message
    info = ansible.module("gpuctl_pool_info", name="big")
    assert info.result["results"][0]["queue"] == {"backend": "kueue", "preemption": "reclaim"}
    shares = ansible.module("gpuctl_quota_info", name="teams", all_namespaces=True).result["results"]
    assert {row["namespace"]: row["shares"] for row in shares} == {"team-a": {"big": 8}, "team-b": {}}

    limited = {
        **pool,
        "queue": {"backend": "kueue", "borrowing_limit": 4, "lending_limit": 2},
        "topology": {"rack": "r"},
    }
    assert ansible.module("gpuctl_pool", definition=limited).changed
    own = found("clusterqueues")["gpuctl-big.team-a"]
    amounts = {"nominalQuota": "8", "borrowingLimit": "4", "lendingLimit": "2"}
    assert quotas(own, "nvidia.com/gpu") == amounts
    ((flavor, spec),) = found("resourceflavors").items()
    assert spec["topologyName"] == flavor
    assert found("topologies")[flavor]["levels"] == [{"nodeLabel": "r"}, {"nodeLabel": "kubernetes.io/hostname"}]

    removed = ansible.module("gpuctl_quota", state="absent", name="teams", namespaces=["team-b"])
    assert removed.changed, removed.message
    assert found("clusterqueues").keys() == {"gpuctl-big.team-a"}
    others = {"kind": "Cohort", "apiVersion": GROUP[6:], "metadata": {"name": "of-others"}, "spec": {}}
    api.call("POST", f"{GROUP}/cohorts", others)
    assert ansible.module("gpuctl_pool", name="big", state="absent").changed
    left = {plural: list(found(plural)) for plural in ("cohorts", "clusterqueues", "localqueues", "resourceflavors")}
    assert left == {"cohorts": [], "clusterqueues": [], "localqueues": [], "resourceflavors": []}
    assert api.call("DELETE", f"{GROUP}/cohorts/of-others")[0] == 200


def test_a_pool_and_its_quotas_become_queues_of_volcano_and_go_again(volcano: Queues):
    ansible, found, pool = volcano.ansible, volcano.found, volcano.pool
    checked = ansible.module("gpuctl_pool", definition=pool, check=True)
    assert checked.changed, checked.message
    assert found("queues") == {}
    volcano.declare()
    assert found("queues").keys() == {"gpuctl-big.team-a", "gpuctl-big.team-b"}
    own, other = found("queues")["gpuctl-big.team-a"], found("queues")["gpuctl-big.team-b"]
    assert (own["deserved"]["nvidia.com/gpu"], own["weight"], own["reclaimable"]) == ("8", 8, True)
    assert "cpu" not in own["deserved"]
    assert own["capability"]["nvidia.com/gpu"] == str(min(32, volcano.total()))
    assert (other.get("deserved"), other["weight"]) == (None, 1)
    assert other["capability"]["cpu"] == "500"
    for module, manifest in (("gpuctl_pool", pool), ("gpuctl_quota", QUOTA)):
        again = ansible.module(module, definition=manifest)
        assert not again.changed, again.message
    info = ansible.module("gpuctl_pool_info", name="big")
    assert info.result["results"][0]["queue"] == {"backend": "volcano", "preemption": "reclaim"}

    limits = {"backend": "volcano", "borrowing_limit": 4, "lending_limit": 2, "preemption": "never"}
    assert ansible.module("gpuctl_pool", definition={**pool, "queue": limits}).changed
    own = found("queues")["gpuctl-big.team-a"]
    assert own["guarantee"] == {"resource": {"nvidia.com/gpu": "6"}}
    assert (own["capability"]["nvidia.com/gpu"], own["reclaimable"]) == ("12", False)

    removed = ansible.module("gpuctl_quota", state="absent", name="teams", namespaces=["team-b"])
    assert removed.changed, removed.message
    assert found("queues").keys() == {"gpuctl-big.team-a"}
    assert ansible.module("gpuctl_pool", name="big", state="absent").changed
    assert found("queues") == {}


def test_a_training_gets_all_of_its_nodes_or_none(queues: Queues):
    ansible, api, reason = queues.ansible, queues.api, queues.reason
    queues.declare()
    first = ansible.job(definition=job("first", "team-a", queues.total() // 4), wait=True, wait_timeout=60)
    assert not first.failed, first.message
    for name in ("second", "third"):
        assert not ansible.job(definition=job(name, "team-b", 2)).failed
    place = {"kueue": "number 2 of 2", "volcano": "and 1 more of this namespace wait there"}[queues.backend]
    eventually(lambda: place in reason("third", "team-b"), 30)
    says = {"kueue": "that wait there: couldn't assign flavors", "volcano": "for Volcano to schedule all of its pods"}
    eventually(lambda: says[queues.backend] in reason("second", "team-b"), 20)
    text = reason("second", "team-b")
    assert "is waiting in queue gpuctl-big" in text
    assert " since 20" in text
    assert queues.row("second", "team-b")["status"] == "Pending"
    assert not [pod for pod in api.list("pod", "team-b") if pod["spec"].get("nodeName")]
    waited = ansible.job(definition=job("second", "team-b", 2), wait=True, wait_timeout=3)
    assert waited.failed
    assert "is waiting in queue gpuctl-big" in waited.message

    assert ansible.job(name="first", namespace="team-a", state="absent").changed
    started = ansible.job(definition=job("second", "team-b", 2), wait=True, wait_timeout=60)
    assert not started.failed, started.message


def test_a_paused_training_gives_its_place_up(queues: Queues):
    ansible, api = queues.ansible, queues.api
    queues.declare()
    first = ansible.job(definition=job("first", "team-a", queues.total() // 4), wait=True, wait_timeout=60)
    assert not first.failed, first.message
    submitted = ansible.job(definition=[job(name, "team-b", 2) for name in ("second", "third")])
    assert not submitted.failed, submitted.message
    eventually(lambda: queues.row("second", "team-b")["status"] == "Pending", 20)
    paused = ansible.job(name="second", namespace="team-b", state="paused")
    assert paused.changed, paused.message
    eventually(lambda: queues.row("second", "team-b")["status"] == "Paused", 20)
    assert not ansible.job(name="second", namespace="team-b", state="paused").changed
    assert not ansible.job(definition=job("second", "team-b", 2)).changed
    assert ansible.job(name="first", namespace="team-a", state="absent").changed
    started = ansible.job(definition=job("third", "team-b", 2), wait=True, wait_timeout=60)
    assert not started.failed, started.message
    assert api.get("job", "second", "team-b")["spec"]["suspend"] is True
    assert queues.row("second", "team-b")["status"] == "Paused"

    resumed = ansible.job(name="second", namespace="team-b", state="resumed", wait=True, wait_timeout=60)
    assert resumed.changed, resumed.message
    eventually(lambda: queues.row("second", "team-b")["status"] == "Running", 30)


@pytest.mark.skipif("GPUCTL_TEST_KUBECONFIG" not in os.environ, reason="the simulated ones take nothing back")
def test_a_team_gets_its_share_back(queues: Queues):
    ansible, reason = queues.ansible, queues.reason
    queues.declare()
    for number in range(queues.total() // 8):  # team-b has no share, and borrows all
        borrowed = ansible.job(definition=job(f"borrows-{number}", "team-b", 2), wait=True, wait_timeout=60)
        assert not borrowed.failed, borrowed.message
    own = ansible.job(definition=job("own", "team-a", 2), wait=True, wait_timeout=120)
    assert not own.failed, own.message
    names = [f"borrows-{number}" for number in range(queues.total() // 8)]

    def waiting() -> list[str]:
        return [name for name in names if queues.row(name, "team-b")["status"] != "Running"]

    eventually(waiting, 60)
    assert "is waiting in queue gpuctl-big" in reason(waiting()[0], "team-b")


@pytest.mark.skipif("GPUCTL_TEST_KUBECONFIG" not in os.environ, reason="the simulated ones know no racks")
def test_a_training_stays_in_one_rack(queues: Queues):
    ansible, api = queues.ansible, queues.api
    racks = dict(zip(NODES, ("r1", "r1", "r2", "r2"), strict=True))
    for node, rack in racks.items():
        api.patch("node", node, {"metadata": {"labels": {"example.com/rack": rack}}})
    pool = {**queues.pool, "topology": {"rack": "example.com/rack"}}
    for module, manifest in (("gpuctl_pool", pool), ("gpuctl_quota", QUOTA)):
        result = ansible.module(module, definition=manifest)
        assert result.changed, result.message
        assert not ansible.module(module, definition=manifest).changed
    beside = ansible.job(definition=job("beside", "team-b", 1), wait=True, wait_timeout=60)
    assert not beside.failed, beside.message
    (taken,) = (racks[pod["spec"]["nodeName"]] for pod in api.list("pod", "team-b"))

    def whole(name: str) -> dict[str, Any]:
        """Two nodes with all of their GPUs."""
        manifest = job(name, "team-a", 2)
        placement = {"placement": {"within": "rack", "required": True}}
        return {**manifest, "resources": {**manifest["resources"], "gpu": 8}, "distributed": placement}

    first = ansible.job(definition=whole("first"), wait=True, wait_timeout=90)
    assert not first.failed, first.message
    assert {racks[pod["spec"]["nodeName"]] for pod in api.list("pod", "team-a")} == {"r1", "r2"} - {taken}
    assert not ansible.job(definition=whole("second")).failed
    eventually(lambda: "is waiting in queue gpuctl-big" in queues.reason("second", "team-a"), 30)
    assert ansible.job(name="beside", namespace="team-b", state="absent").changed
    second = ansible.job(definition=whole("second"), wait=True, wait_timeout=90)
    assert not second.failed, second.message
    pods = [pod for pod in api.list("pod", "team-a") if pod["metadata"]["labels"]["app"] == "second"]
    assert {racks[pod["spec"]["nodeName"]] for pod in pods} == {taken}


def test_volcano_keeps_no_group_of_what_does_not_run(volcano: Queues):
    ansible, api = volcano.ansible, volcano.api

    def groups() -> int:
        return len(api.call("GET", "/apis/scheduling.volcano.sh/v1beta1/namespaces/team-a/podgroups")[1]["items"])

    volcano.declare()
    services = {"pool": "big", "gpu": 1, "cpu": 1, "memory": "1Gi"}
    serve = inference("serve", job={"namespace": "team-a"}, resources=services)
    started = ansible.job(definition=[job("train", "team-a", 2), serve], wait=True, wait_timeout=60)
    assert not started.failed, started.message
    assert groups() == 2
    for name in ("train", "serve"):
        paused = ansible.job(name=name, namespace="team-a", state="paused")
        assert paused.changed, paused.message
    eventually(lambda: groups() == 0, 30)
    for name in ("train", "serve"):
        assert ansible.job(name=name, namespace="team-a", state="resumed", wait=True, wait_timeout=60).changed
    assert groups() == 2
    restarted = ansible.job(name="train", namespace="team-a", state="restarted", wait=True, wait_timeout=90)
    assert restarted.changed, restarted.message
    eventually(lambda: groups() == 2, 30)
    for name in ("train", "serve"):
        assert ansible.job(name=name, namespace="team-a", state="absent").changed
    eventually(lambda: groups() == 0, 30)


def test_what_runs_stays_in_its_queue_when_the_pool_loses_it(queues: Queues):
    ansible = queues.ansible
    queues.declare()
    manifest = job("train", "team-a", 2)
    started = ansible.job(definition=manifest, wait=True, wait_timeout=60)
    assert not started.failed, started.message
    without = ansible.module(
        "gpuctl_pool", definition={key: value for key, value in queues.pool.items() if key != "queue"}
    )
    assert without.changed, without.message
    assert queues.found(BACKENDS[queues.backend].queue.plural) == {}
    assert not ansible.job(definition=manifest).changed


def test_what_runs_without_a_queue_gets_none_of_its_pool(queues: Queues):
    ansible = queues.ansible
    plain = {key: value for key, value in queues.pool.items() if key != "queue"}
    topology = {"topology": {"rack": "example.com/rack"}}
    for module, manifest in (("gpuctl_pool", {**plain, **topology}), ("gpuctl_quota", QUOTA)):
        assert ansible.module(module, definition=manifest).changed
    manifest = {**job("train", "team-a", 2), "distributed": {"placement": {"within": "rack"}}}
    manifest["resources"] = {**manifest["resources"], "gpu": 1}
    assert ansible.job(definition=manifest).changed
    assert ansible.module("gpuctl_pool", definition={**queues.pool, **topology}).changed
    assert not ansible.job(definition=manifest).changed


def test_a_namespace_without_a_quota_has_no_queue(queues: Queues):
    queues.declare()
    refused = queues.ansible.job(definition=job("train", "default", 2))
    assert refused.failed
    queue = {"kueue": "LocalQueue gpuctl-big", "volcano": "Queue gpuctl-big.default"}[queues.backend]
    assert f"namespace default has no queue for pool big ({queue})" in refused.message


def test_shares_beyond_the_pool_are_reduced(kueue: Queues):
    kueue.declare()
    greedy = {**QUOTA, "users": {name: {"shares": {"big": 1000}} for name in ("team-a", "team-b")}}
    result = kueue.ansible.module("gpuctl_quota", definition=greedy)
    assert "add up to 2000" in " ".join(result.screen.split())
    shares = [quotas(queue, "nvidia.com/gpu")["nominalQuota"] for queue in kueue.found("clusterqueues").values()]
    assert shares == [str(kueue.total() // 2)] * 2


@pytest.mark.parametrize(("backend", "hint"), [("kueue", "Install Kueue 0.15"), ("volcano", "Install Volcano 1.11")])
def test_without_it_nothing_is_changed(tmp_path: Path, backend: str, hint: str):
    with Cluster(nodes=4).running() as cluster:
        path = tmp_path / "plain.kubeconfig"
        cluster.kubeconfig(path)
        ansible, api = Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(path)}), Api(str(path))
        refused = ansible.module("gpuctl_pool", definition=Queues(ansible, api, backend).pool)
        assert refused.failed
        assert hint in refused.message
        assert "Nothing was changed" in refused.message
        assert api.get("configmap", "pool-big", "gpuctl-system") is None
        useless = ansible.module("gpuctl_quota", definition=QUOTA)
        assert "shares of pool big have no effect" in " ".join(useless.screen.split())
