# SPDX-License-Identifier: BSD-2-Clause
"""Gangs by Kubernetes itself, held to what a real 1.36.2 with the gates on says of the same Jobs."""

from __future__ import annotations

from typing import Any

from simulation import Simulation

GPU = "nvidia.com/gpu"
WAITS = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or more plugins asked to "
    "wait and no plugin rejected pod"
)


def gang(sim: Simulation, name: str, pods: int, mode: str = "Indexed") -> None:
    container = {"name": "main", "image": "i", "resources": {"limits": {GPU: "4"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": mode, "template": template}
    sim.create("Job", name, spec)
    sim.advance(1)


def pods_of(sim: Simulation, name: str) -> list[Any]:
    return [pod for pod in sim.pods() if pod["metadata"]["name"].startswith(f"{name}-")]


def conditions(sim: Simulation) -> dict[str, tuple[str, str, str]]:
    found = {}
    for group in sim.registry.list("PodGroup", "default"):
        (one,) = group["status"]["conditions"]
        job = group["metadata"]["ownerReferences"][0]["name"]
        found[job] = (one["status"], one["reason"], one["message"])
    return found


def test_pods_are_placed_all_or_none():
    sim = Simulation(4, addons=("native-gangs",), **{GPU: "4"})
    gang(sim, "a", 3)
    gang(sim, "b", 3)
    assert all(pod["spec"].get("nodeName") for pod in pods_of(sim, "a"))
    assert not any(pod["spec"].get("nodeName") for pod in pods_of(sim, "b"))
    messages = sorted(pod["status"]["conditions"][-1]["message"].partition(". no new")[0] for pod in pods_of(sim, "b"))
    assert messages == [*["0/4 nodes are available: 4 Insufficient nvidia.com/gpu"] * 2, WAITS]
    assert conditions(sim) == {
        "a": ("True", "Scheduled", ""),
        "b": ("False", "Unschedulable", "pod group is unschedulable"),
    }
    sim.registry.delete("Job", "default", "a", propagation="Background")
    sim.advance(5)
    assert all(pod["spec"].get("nodeName") for pod in pods_of(sim, "b"))
    assert conditions(sim)["b"][0] == "True"


def test_only_indexed_jobs_of_several_pods_have_a_group():
    sim = Simulation(4, addons=("native-gangs",), **{GPU: "4"})
    gang(sim, "one", 1)
    gang(sim, "plain", 2, "NonIndexed")
    assert sim.registry.list("PodGroup", "default") == []
    assert all(pod["spec"].get("nodeName") for pod in sim.pods())
