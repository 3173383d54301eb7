# SPDX-License-Identifier: BSD-2-Clause
"""A cluster that has Volcano: pods of a group are placed all or none, as far as their Queue has room."""

from __future__ import annotations

from typing import Any

from simulation import Simulation

GPU = "nvidia.com/gpu"


def simulation(nodes: int = 2) -> Simulation:
    return Simulation(nodes, addons=("volcano",), **{GPU: "4"})


def job(sim: Simulation, name: str, pods: int, queue: str = "q", gpus: int = 4) -> Any:
    container = {"name": "main", "image": "i", "resources": {"limits": {GPU: str(gpus)}}}
    template = {
        "metadata": {"annotations": {"scheduling.volcano.sh/queue-name": queue}},
        "spec": {"containers": [container], "restartPolicy": "Never", "schedulerName": "volcano"},
    }
    annotations = {"scheduling.volcano.sh/group-min-member": str(pods)}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template}
    created = sim.create("Job", name, spec, metadata={"annotations": annotations})
    sim.advance(1)
    return created


def groups(sim: Simulation) -> dict[str, str]:
    owners = {one["metadata"]["ownerReferences"][0]["name"]: one for one in sim.registry.list("PodGroup", "default")}
    return {name: one["status"]["phase"] for name, one in owners.items()}


def placed(sim: Simulation) -> int:
    return sum(1 for pod in sim.pods() if pod["spec"].get("nodeName"))


def test_a_group_waits_for_all_of_its_nodes():
    sim = simulation()
    sim.create("Queue", "q", {}, namespace="")
    job(sim, "one", 1)
    job(sim, "two", 2)
    assert (groups(sim), placed(sim)) == ({"one": "Running", "two": "Inqueue"}, 1)
    sim.registry.delete("Job", "default", "one", propagation="Background")
    sim.advance(60)
    assert (groups(sim), placed(sim)) == ({"two": "Running"}, 2)
    (group,) = sim.registry.list("PodGroup", "default")
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["minResources"][GPU] == "8"


def test_a_group_waits_for_its_queue():
    sim = simulation()
    sim.create("Queue", "q", {"capability": {GPU: "4"}}, namespace="")
    job(sim, "two", 2)
    job(sim, "one", 1)
    assert (groups(sim), placed(sim)) == ({"one": "Running", "two": "Pending"}, 1)
    job(sim, "lost", 1, queue="none")
    assert groups(sim)["lost"] == "Pending"
    sim.registry.delete("Job", "default", "one", propagation="Background")
    sim.change("Queue", "q", lambda obj: obj["spec"]["capability"].update({GPU: "8"}), namespace="")
    sim.advance(60)
    assert groups(sim)["two"] == "Running"


def test_the_group_of_a_service_goes_with_its_pods():
    sim = simulation()
    sim.create("Queue", "q", {}, namespace="")
    template = {
        "metadata": {"labels": {"app": "a"}, "annotations": {"scheduling.volcano.sh/queue-name": "q"}},
        "spec": {"containers": [{"name": "main", "image": "i"}], "schedulerName": "volcano"},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    sim.create("Deployment", "serve", spec)
    sim.advance(5)
    assert (list(groups(sim).values()), placed(sim)) == (["Running"], 2)
    sim.change("Deployment", "serve", lambda obj: obj["spec"].update(replicas=0))
    sim.advance(5)
    assert groups(sim) == {}
