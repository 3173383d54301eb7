# SPDX-License-Identifier: BSD-2-Clause
"""What is kept of nodes while pods come and go is what looking at all nodes again would find."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.admitted_pod import Admission, WantedPod, admitted
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_facts import (
    PODS,
    PlacedPod,
    placed_pod,
    roomy_node,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit import fit as fit_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit import victims
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit import world as world_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit import FitJob, fit_jobs
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_snapshot import FitSnapshot
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.world import ENDING, World

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
CLASSES: Object = {"high": {"value": 1000}, "medium": {"value": 500}, "low": {"value": 0}}
BUDGET = {
    "metadata": {"name": "kept", "namespace": "other"},
    "spec": {"selector": {"matchLabels": {"app": "j1"}}},
    "status": {"disruptionsAllowed": 0},
}


def node(index: int, pools: int) -> Object:
    room = {"cpu": "32", "memory": "128Gi", "pods": "8", GPU: "8"}
    labels = {"pool": f"p{index % pools}", "rack": f"r{index // 4}"}
    return {
        "metadata": {"name": f"n{index}", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": room},
    }


def running(chance: random.Random, nodes: int) -> list[Object]:
    """Up to eight GPUs are in use on each node."""
    pods = []
    for index in range(nodes):
        free = 8
        while (gpus := chance.choice([0, 1, 1, 2, 4])) <= free and len(pods) < 7 * (index + 1):
            free -= gpus
            requests = {"cpu": chance.choice(["1", "4"]), "memory": chance.choice(["1Gi", "16Gi"]), GPU: str(gpus)}
            name, started = f"r{len(pods)}", f"2026-01-0{chance.randint(1, 9)}T00:00:{len(pods) % 60:02d}Z"
            metadata = {"name": name, "namespace": "other", "uid": name, "creationTimestamp": started}
            spec = {
                "nodeName": f"n{index}",
                "priority": chance.choice([0, 0, 500, 1000]),
                "containers": [{"name": "main", "resources": {"requests": requests}}],
            }
            labels = {"app": f"j{chance.randrange(2 * nodes)}"}
            pods.append({"metadata": {**metadata, "labels": labels}, "spec": spec, "status": {"startTime": started}})
    return pods


def template(chance: random.Random, name: str, pools: int, *, near: bool) -> Object:
    requests = {"cpu": chance.choice(["1", "8", "20"]), "memory": chance.choice(["1Gi", "100Gi"])}
    requests[GPU] = str(chance.choice([1, 2, 4, 8]))
    spec: Object = {
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        "nodeSelector": {"pool": f"p{chance.randrange(pools)}"},
        "priorityClassName": chance.choice(list(CLASSES)),
    }
    if near:
        term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": name}}}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"metadata": {"labels": {"app": name}}, "spec": spec}


def wanted(chance: random.Random, name: str = "new", *, near: bool = False) -> WantedPod:
    return admitted(template(chance, name, 1, near=near), "team", name, Admission(priority_classes=CLASSES))


def world_of(chance: random.Random, nodes: int = 12) -> World:
    pods = [placed_pod(pod) for pod in running(chance, nodes)]
    return World([roomy_node(node(index, 1)) for index in range(nodes)], pods, {})


def moves(chance: random.Random, world: World) -> None:
    """Some pods go, some of these come back, and some are new."""
    gone = chance.sample(pods := list(world.pods()), min(5, len(pods)))
    for pod in gone:
        world.remove(pod)
    for pod in gone[chance.randrange(6) :]:
        world.put_back(pod)
    for _each in range(chance.randrange(3)):
        world.place(wanted(chance), chance.choice(list(world.nodes.values())))


@pytest.mark.parametrize("gone", ["", ENDING, 500])
def test_columns_follow_the_pods(gone: int | str) -> None:
    chance = random.Random(1)
    world = world_of(chance)
    pod = wanted(chance)
    view = world.view(pod, gone)
    for _each in range(20):
        moves(chance, world)
        states = list(world.nodes.values())
        for resource in ("cpu", GPU):
            left = [state.free[resource] + state.gone(gone).requests.get(resource, 0) for state in states]
            assert view.left(resource) == left
            assert view.counts(resource) == Counter(left)
        places = [8 - len(state.pods) + len(state.gone(gone).pods) for state in states]
        assert view.left(PODS) == places


@pytest.mark.parametrize("budgets", [[], [BUDGET]], ids=["no budget", "a budget"])
def test_the_eviction_is_the_one_that_trying_all_nodes_finds(budgets: Sequence[Object]) -> None:
    chance = random.Random(2)
    found = 0
    for turn in range(60):
        if turn % 6 == 0:
            world = world_of(chance)
        moves(chance, world)
        pod = wanted(chance, near=chance.random() < 0.3)
        nodes = world.suitable(pod)[0]
        if chance.random() < 0.5:
            nodes = chance.sample(nodes, chance.choice([4, len(nodes)]))
        with world.rules_of(pod) as rules:
            tried = [each for state in nodes if (each := victims._eviction(world, pod, state, rules, budgets))]
            best = victims.best_eviction(world, pod, nodes, rules, budgets)
        expected = min(tried, key=lambda each: each.loss, default=None)
        if expected is None or not pod.priority:
            assert best is None
        else:
            found += 1
            assert best is not None
            assert (best.node, best.loss) == (expected.node, expected.loss)
    assert found > 10


def test_sums_of_room_find_what_trying_all_evictions_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    kinds = Counter[str]()
    for _each in range(60):
        world = world_of(chance, 8)
        job = FitJob("team", "new", wanted(chance, near=chance.random() < 0.5), chance.choice([1, 2, 4, 8]))
        trial = fit_module.Trial(fit_module.Cluster(world), random.Random(0), 0)
        found = trial._explore(job, job.number)
        with monkeypatch.context() as patched:
            patched.setattr(trial, "_amounts_decide", lambda job, rules: False)
            assert found == trial._explore(job, job.number)
        kinds.update(one.kind for one in found)
    assert kinds.keys() == {fit_module.NOW, fit_module.AFTER_PREEMPTION, fit_module.STUCK, fit_module.UNKNOWN}
    assert min(kinds.values()) > 3


def test_the_jobs_that_have_to_end_are_those_that_ending_them_finds() -> None:
    chance = random.Random(3)
    found = 0
    for _each in range(40):
        world = world_of(chance)
        names = sorted({pod.job for pod in world.pods()})
        ranks = {name: rank for rank, name in enumerate(chance.sample(names, len(names)))}
        ends = victims.Ends(world, wanted(chance), partial(lambda ranks, jobs: ranks, ranks))
        for _again in range(3):
            pod, number = wanted(chance), chance.choice([1, 2, 6])
            if sum(world.rooms(pod, world.suitable(pod)[0]).values()) >= number:
                continue
            if sum(world.rooms(pod, world.suitable(pod)[0], ENDING).values()) < number:
                continue
            assert victims.jobs_to_end(world, pod, number, ends) == _ended(world, pod, number, ranks)
            found += 1
            for gone in chance.sample(list(world.pods()), 2):
                world.remove(gone)
    assert found > 20


def _ended(world: World, pod: WantedPod, number: int, ranks: dict[tuple[str, str], int]) -> list[tuple[str, str]]:
    pods: dict[tuple[str, str], list[PlacedPod]] = {}
    for each in world.pods():
        pods.setdefault(each.job, []).append(each)

    def fits(jobs: Sequence[tuple[str, str]]) -> bool:
        with world.without(each for job in jobs for each in pods[job]):
            return sum(world.rooms(pod, world.suitable(pod)[0]).values()) >= number

    order = sorted(pods, key=ranks.__getitem__)
    needed = order[: next(count for count in range(len(order) + 1) if fits(order[:count]))]
    for job in needed[:-1]:
        fewer = [one for one in needed if one != job]
        if fits(fewer):
            needed = fewer
    return needed


def test_jobs_of_other_nodes_get_the_same_answers_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who shares no nodes with a job is not judged again for it."""
    chance = random.Random(4)
    nodes = [roomy_node(node(index, 3)) for index in range(12)]
    pods = [placed_pod(pod) for pod in running(chance, 12)]
    snapshot = FitSnapshot(nodes, pods, priority_classes=CLASSES)
    jobs = [_job(chance, snapshot, f"new-{index}") for index in range(12)]
    assert len(set(fit_module.crowds_of(snapshot.cluster({}).world, jobs))) == 3
    answers = fit_jobs(snapshot.cluster({}), jobs)
    monkeypatch.setattr(fit_module, "crowds_of", lambda world, jobs: [0] * len(jobs))
    assert fit_jobs(snapshot.cluster({}), jobs) == answers


def _job(chance: random.Random, snapshot: FitSnapshot, name: str, **more: Any) -> FitJob:
    number = chance.choice([1, 1, 2, 4])
    made = template(chance, name, 3, near=number > 2)
    made["spec"] |= more
    metadata = {"name": name, "namespace": "team", "labels": {"app": name}}
    return snapshot.job_of([{"kind": "Job", "metadata": metadata, "spec": {"parallelism": number, "template": made}}])


def test_who_minds_others_is_judged_with_all() -> None:
    chance = random.Random(5)
    snapshot = FitSnapshot([roomy_node(node(index, 3)) for index in range(6)], [], priority_classes=CLASSES)
    term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "new-0"}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    jobs = [_job(chance, snapshot, f"new-{index}") for index in range(6)]
    world = snapshot.cluster({}).world
    assert len(set(fit_module.crowds_of(world, jobs))) > 1
    for kind in ("podAffinity", "podAntiAffinity"):
        other = _job(chance, snapshot, "new-6", affinity={kind: rule})
        assert set(fit_module.crowds_of(world, [*jobs, other])) == {0}


@pytest.mark.parametrize("near", [False, True])
def test_more_unlike_jobs_that_wait_do_not_look_at_more_nodes(monkeypatch: pytest.MonkeyPatch, near: bool) -> None:
    """While no pod moves, nodes and the order in which jobs end are looked up once for all jobs."""
    calls = Counter[str]()
    for module, name in ((world_module, "_left"), (world_module, "unsuitable"), (victims, "_turns_of")):
        monkeypatch.setattr(module, name, _counting(calls, name, getattr(module, name)))
    counts = []
    for number in (4, 24):
        calls.clear()
        snapshot = FitSnapshot(
            [roomy_node(node(index, 1)) for index in range(8)],
            [placed_pod(pod) for pod in running(random.Random(6), 8)],
            priority_classes=CLASSES,
        )
        jobs = [_waiting_job(snapshot, index, near=near) for index in range(number)]
        fits = fit_jobs(snapshot.cluster({}), jobs)
        assert {fit.verdict for fit in fits} == {fit_module.AFTER_JOBS}
        counts.append(dict(calls))
    assert counts[0] == counts[1]
    assert counts[0].keys() == {"_left", "unsuitable", "_turns_of"}


def _counting(calls: Counter[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*arguments: Any) -> Any:
        calls[name] += 1
        return function(*arguments)

    return counted


def _waiting_job(snapshot: FitSnapshot, index: int, *, near: bool) -> FitJob:
    """It needs two whole nodes, and preempts nothing."""
    name = f"new-{index}"
    made = template(random.Random(index), name, 1, near=near)
    requests = {"cpu": f"{1000 + index}m", "memory": "1Gi", GPU: "8"}
    made["spec"] |= {"priorityClassName": "low", "containers": [{"name": "main", "resources": {"requests": requests}}]}
    metadata = {"name": name, "namespace": "team", "labels": {"app": name}}
    return snapshot.job_of([{"kind": "Job", "metadata": metadata, "spec": {"parallelism": 2, "template": made}}])
