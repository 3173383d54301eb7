# SPDX-License-Identifier: BSD-2-Clause
"""A cluster that has Kueue, and one that has not."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from kubesim.cluster import Cluster
from simulation import Simulation, pod_spec

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"


def call(cluster: Cluster, path: str) -> tuple[int, Any]:
    request = urllib.request.Request(cluster.url + path, headers={"Authorization": f"Bearer {cluster.token}"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, None


@pytest.mark.parametrize(("addons", "status"), [((), 404), (("kueue",), 200)], ids=["without", "with"])
def test_the_group_is_there_with_the_addon_only(addons, status):
    with Cluster(nodes=0, controllers=False, addons=addons).running() as cluster:
        assert call(cluster, "/apis/kueue.x-k8s.io")[0] == status
        assert call(cluster, WORKLOADS)[0] == status
        groups = {group["name"] for group in call(cluster, "/apis")[1]["groups"]}
        assert ("kueue.x-k8s.io" in groups) is (status == 200)


def test_a_workload_that_is_not_active_suspends_its_job():
    """The Workload is made for the Job, and goes with it."""
    sim = Simulation(addons=("kueue",))
    job = sim.create(
        "Job",
        "train",
        {"template": {"spec": pod_spec(restartPolicy="Never")}},
        metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}},
    )
    sim.advance(1)
    (workload,) = sim.registry.list("Workload", "default")
    assert workload["metadata"]["labels"]["kueue.x-k8s.io/job-uid"] == job["metadata"]["uid"]
    assert len(sim.pods()) == 1

    for active in (False, True):
        sim.change(
            "Workload", workload["metadata"]["name"], lambda obj, active=active: obj["spec"].update(active=active)
        )
        sim.advance(1)
        assert sim.get("Job", "train")["spec"]["suspend"] is not active
        assert len(sim.pods()) == active

    sim.registry.delete("Job", "default", "train", propagation="Background")
    sim.advance(1)
    assert sim.registry.list("Workload", "default") == []


def test_a_job_in_no_queue_is_none_of_its_business():
    sim = Simulation(addons=("kueue",))
    sim.create("Job", "train", {"template": {"spec": pod_spec(restartPolicy="Never")}})
    sim.advance(1)
    assert sim.registry.list("Workload", "default") == []


def quota(name: str, nominal: str, **more: str) -> dict[str, Any]:
    resources = [{"name": name, "nominalQuota": nominal, **more}]
    return {"coveredResources": [name], "flavors": [{"name": "flavor", "resources": resources}]}


def test_a_workload_is_admitted_as_a_whole_once_its_quota_has_room():
    sim = Simulation(addons=("kueue",))
    gpus = "nvidia.com/gpu"
    sim.create("Cohort", "all", {"resourceGroups": [quota(gpus, "2")]}, namespace="")
    for name, limits in (("a", {}), ("b", {"borrowingLimit": "1"})):
        spec = {"cohortName": "all", "resourceGroups": [quota(gpus, "1", **limits)]}
        sim.create("ClusterQueue", name, spec, namespace="")
        sim.create("LocalQueue", name, {"clusterQueue": name})

    def job(name: str, queue: str, pods: int) -> None:
        container = {"name": "main", "image": "i", "resources": {"limits": {gpus: "1"}}}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        labels = {"kueue.x-k8s.io/queue-name": queue}
        sim.create("Job", name, {"parallelism": pods, "template": template}, metadata={"labels": labels})
        sim.advance(1)

    def suspended() -> set[str]:
        return {one["metadata"]["name"] for one in sim.registry.list("Job", "default") if one["spec"]["suspend"]}

    job("too-much", "b", 3)
    assert suspended() == {"too-much"}, "it may borrow one, and has one"
    job("most", "a", 3)
    assert suspended() == {"too-much"}
    assert len(sim.pods()) == 3
    job("late", "b", 2)
    assert suspended() == {"too-much", "late"}
    (late,) = (one for one in sim.registry.list("Workload", "default") if "late" in one["metadata"]["name"])
    assert late["status"]["conditions"][0]["message"].endswith("in flavor flavor, 1 more needed")
    sim.registry.delete("Job", "default", "most", propagation="Background")
    sim.advance(1)
    assert suspended() == {"too-much"}
