# SPDX-License-Identifier: BSD-2-Clause
"""Whether jobs run now, and what they wait for: each rule of the scheduler by itself. tests/fit holds all of them
together to a real scheduler."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.devices import inventory_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_facts import placed_pod, roomy_node
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.quota_fit import quota_state
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit import Fit, FitChange, fit_jobs
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_rows import Places, fit_row
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_snapshot import FitSnapshot
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.quota_rivals import with_quota_rivals
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.room_rivals import with_room_rivals

Object = dict[str, Any]
GPU, HOST, RACK = "nvidia.com/gpu", "kubernetes.io/hostname", "rack"
CLASSES = {"high": {"value": 1000}, "low": {"value": 10, "preemptionPolicy": "Never"}}


def node(name: str, gpus: int = 8, *, spec: Object | None = None, room: Object | None = None, **labels: str) -> Object:
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110", GPU: str(gpus), **(room or {})}
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {HOST: name, **labels}},
        "spec": spec or {},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str, on: str, gpus: int = 0, priority: int = 100, **more: Any) -> Object:
    requests = {"cpu": "1", **({GPU: str(gpus)} if gpus else {})}
    spec = {"nodeName": on, "priority": priority, "containers": [{"name": "main", "resources": {"requests": requests}}]}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": name,
            "labels": {"app": name},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **more.pop("metadata", {}),
        },
        "spec": {**spec, **more},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    }


def job(name: str = "new", number: int = 1, gpus: int = 1, *, requests: Object | None = None, **spec: Any) -> Object:
    wanted = {"cpu": "1", **({GPU: str(gpus)} if gpus else {}), **(requests or {})}
    main = {"name": "main", "resources": {"requests": wanted}}
    return {
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team", "labels": {"app": name}},
        "spec": {
            "parallelism": number,
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [main], **spec}},
        },
    }


def judged(nodes: list[Object], pods: list[Object], *jobs: Object, **lists: Any) -> list[Fit]:
    lists = {"priority_classes": CLASSES, **lists}
    snapshot = FitSnapshot([roomy_node(one) for one in nodes], [placed_pod(one) for one in pods], **lists)
    cluster = snapshot.cluster({})
    fits = fit_jobs(cluster, [snapshot.job_of([one]) for one in jobs])
    return with_quota_rivals(cluster.quotas, with_room_rivals(cluster, fits))


def verdict(nodes: list[Object], pods: list[Object], one: Object, **lists: Any) -> str:
    return judged(nodes, pods, one, **lists)[0].verdict


def near(app: str, key: str = RACK) -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def away(app: str, key: str = HOST, **more: Any) -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def nodes_in(key: str, operator: str, *values: str) -> Object:
    rule = {"key": key, "operator": operator, "values": list(values)}
    terms = [{"matchExpressions": [rule]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def sidecar(port: Object) -> Object:
    return {"name": "sidecar", "restartPolicy": "Always", "ports": [port]}


TAINT = {"key": GPU, "effect": "NoSchedule"}
CASES = {
    "free GPUs": ([node("a")], [], job(gpus=8), "now"),
    "all GPUs in use": ([node("a")], [pod("p", "a", 1)], job(gpus=8), "after_jobs"),
    "more GPUs than a node has": ([node("a")], [], job(gpus=9), "never"),
    "spread over nodes": ([node("a"), node("b")], [], job(number=2, gpus=8), "now"),
    "one node too few": ([node("a"), node("b")], [], job(number=3, gpus=8), "never"),
    "too many pods": ([node("a", room={"pods": "1"})], [pod("p", "a")], job(), "after_jobs"),
    "a resource that no node has": ([node("a")], [], job(gpus=0, requests={"nvidia.com/mig-1g.10gb": "1"}), "never"),
    "an init container needs more": (
        [node("a")],
        [],
        job(initContainers=[{"name": "i", "resources": {"requests": {"cpu": "33"}}}]),
        "never",
    ),
    "a sidecar is added": (
        [node("a")],
        [],
        job(
            requests={"cpu": "30"},
            initContainers=[{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}}],
        ),
        "never",
    ),
    "limits are requests": (
        [node("a")],
        [],
        job(initContainers=[{"name": "i", "resources": {"limits": {"cpu": "33"}}}]),
        "never",
    ),
    "overhead": ([node("a")], [], job(requests={"cpu": "32"}, overhead={"cpu": "1"}), "never"),
    "a taint": ([node("a", spec={"taints": [TAINT]})], [], job(), "never"),
    "a taint that it tolerates": (
        [node("a", spec={"taints": [TAINT]})],
        [],
        job(tolerations=[{"key": GPU, "operator": "Exists"}]),
        "now",
    ),
    "a preference is no taint": (
        [node("a", spec={"taints": [{"key": "x", "effect": "PreferNoSchedule"}]})],
        [],
        job(),
        "now",
    ),
    "cordoned": ([node("a", spec={"unschedulable": True})], [], job(), "after_nodes"),
    "not ready": (
        [node("a", spec={"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]})],
        [],
        job(),
        "after_nodes",
    ),
    "a selector": ([node("a", pool="x")], [], job(nodeSelector={"pool": "y"}), "never"),
    "affinity to nodes": ([node("a", size="3")], [], job(affinity=nodes_in("size", "Gt", "2")), "now"),
    "affinity to other nodes": ([node("a", size="3")], [], job(affinity=nodes_in("size", "NotIn", "3")), "never"),
    "a host port in use": (
        [node("a")],
        [pod("p", "a", containers=[{"name": "m", "ports": [{"hostPort": 80, "containerPort": 80}]}])],
        job(initContainers=[sidecar({"hostPort": 80, "containerPort": 8})]),
        "after_jobs",
    ),
    "the same host port of another address": (
        [node("a")],
        [pod("p", "a", containers=[{"name": "m", "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}])],
        job(
            initContainers=[{"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 80, "hostIP": "10.0.0.2"}]}]
        ),
        "now",
    ),
    "away from itself": ([node("a")], [], job(number=2, affinity=away("new")), "never"),
    "away from others": ([node("a")], [pod("p", "a")], job(affinity=away("p")), "after_jobs"),
    "away from others elsewhere": ([node("a")], [pod("p", "a")], job(affinity=away("p", namespaces=["x"])), "now"),
    "others keep it off": ([node("a")], [pod("p", "a", affinity=away("new"))], job(), "after_jobs"),
    "near others": ([node("a", rack="1"), node("b", rack="2")], [pod("p", "a")], job(affinity=near("p")), "now"),
    "near what is not there": ([node("a", rack="1")], [], job(affinity=near("p")), "never"),
    "near itself": ([node("a", rack="1")], [], job(number=2, affinity=near("new")), "now"),
    "near itself without the label": ([node("a")], [], job(number=2, affinity=near("new")), "never"),
    "in each rack there is room": (
        [node("a", rack="1"), node("b", rack="2")],
        [],
        job(number=2, gpus=4, affinity=near("new")),
        "now",
    ),
    "in one rack there is room": (
        [node("a", rack="1"), node("b", 1, rack="2")],
        [],
        job(number=2, affinity=near("new")),
        "unknown",
    ),
    "gated": ([node("a")], [], job(schedulingGates=[{"name": "g"}]), "unknown"),
    "gated, and nowhere": ([node("a")], [], job(gpus=9, schedulingGates=[{"name": "g"}]), "never"),
    "another scheduler": ([node("a")], [], job(schedulerName="volcano"), "unknown"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_job(case: str) -> None:
    nodes, pods, one, expected = CASES[case]
    assert verdict(nodes, pods, one) == expected


SPREAD = {
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "new"}},
    "topologyKey": HOST,
}


@pytest.mark.parametrize(
    ("number", "more", "second", "expected"),
    [
        (2, {}, {}, "now"),
        (3, {}, {}, "now"),
        (3, {}, {"room": {"pods": "0"}}, "never"),
        (1, {"topologyKey": "nowhere"}, {}, "never"),
        (2, {"minDomains": 3}, {}, "now"),
        (3, {"minDomains": 3}, {}, "never"),
        # A node that it does not tolerate counts as empty, unless taints are honored.
        (2, {}, {"spec": {"taints": [TAINT]}}, "never"),
        (2, {"nodeTaintsPolicy": "Honor"}, {"spec": {"taints": [TAINT]}}, "now"),
    ],
)
def test_pods_are_spread(number: int, more: Object, second: Object, expected: str) -> None:
    one = job(number=number, topologySpreadConstraints=[{**SPREAD, **more}])
    assert verdict([node("a"), node("b", **second)], [], one) == expected


class TestPreemption:
    def test_less_important_pods_go(self) -> None:
        pods = [pod("p", "a", 4, priority=10), pod("q", "a", 4, priority=20)]
        found = judged([node("a")], pods, job(gpus=4, priorityClassName="high"))[0]
        assert (found.verdict, found.evicted) == ("after_preemption", (("team", "p"),))

    def test_not_if_it_may_not(self) -> None:
        assert verdict([node("a")], [pod("p", "a", 8, priority=1)], job(priorityClassName="low")) == "after_jobs"

    def test_not_those_of_the_same_priority(self) -> None:
        assert verdict([node("a")], [pod("p", "a", 8, priority=1000)], job(priorityClassName="high")) == "after_jobs"

    def test_the_node_where_the_least_is_lost(self) -> None:
        pods = [pod("p", "a", 8, priority=20), pod("q", "b", 8, priority=10)]
        found = judged([node("a"), node("b")], pods, job(gpus=8, priorityClassName="high"))[0]
        assert found.evicted == (("team", "q"),)

    def test_a_budget_is_kept_where_possible(self) -> None:
        pods = [pod("p", "a", 8, priority=10), pod("q", "b", 8, priority=20)]
        selector = {"matchLabels": {"app": "p"}}
        budget = {"metadata": {"name": "b", "namespace": "team"}, "spec": {"selector": selector}, "status": {}}
        found = judged([node("a"), node("b")], pods, job(gpus=8, priorityClassName="high"), budgets=[budget])[0]
        assert found.evicted == (("team", "q"),)

    def test_some_of_its_pods_make_room_and_the_others_do_not_run(self) -> None:
        pods = [pod("p", "a", 8, priority=10), pod("q", "b", 8, priority=2000)]
        found = judged([node("a"), node("b")], pods, job(number=2, gpus=8, priorityClassName="high"))[0]
        assert (found.verdict, found.after) == ("after_jobs", (("team", "p"), ("team", "q")))


# The pods on one node of 8 GPUs, what the new pods of the rolling update request, and the jobs that are preempted.
OLD = [
    pod("web-0", "a", 1, metadata={"labels": {"app": "web"}}),
    pod("web-1", "a", 1, metadata={"labels": {"app": "web"}}),
]
LESS = pod("less", "a", 1, priority=-10)
ROLLS: dict[str, tuple[list[Object], Object, str, list[str]]] = {
    "the room of the pod that ends": ([*OLD, pod("p", "a", 6)], job("web", 2), "now", []),
    "other room first": ([*OLD, LESS], job("web", 2), "now", []),
    "what is less important, while the old pod ends": (
        [*OLD, LESS, pod("p", "a", 5)],
        job("web", 2),
        "after_preemption",
        ["less"],
    ),
    "once only, because the next one gets the room of the first": (
        [*OLD, LESS, pod("more", "a", 1, priority=-20), pod("p", "a", 4)],
        job("web", 2),
        "after_preemption",
        ["more"],
    ),
    "its own pods are not preempted": (
        [*OLD, pod("p", "a", 6, priority=2000)],
        job("web", 2, priorityClassName="high"),
        "now",
        [],
    ),
    "the less important, also where the old pod is so too": (
        [*OLD, LESS, pod("p", "a", 5)],
        job("web", 2, priorityClassName="high"),
        "after_preemption",
        ["less"],
    ),
    "nothing, if it may not preempt": (
        [*OLD, LESS, pod("p", "a", 5)],
        job("web", 2, priorityClassName="low"),
        "now",
        [],
    ),
    "what a larger pod needs beside the room of one": (
        [*OLD, LESS, pod("p", "a", 3)],
        job("web", 2, gpus=2),
        "after_preemption",
        ["less"],
    ),
    "the room of all that end, if fewer pods come": ([*OLD, LESS, pod("p", "a", 5)], job("web", 1, gpus=2), "now", []),
}


def rolled(pods: list[Object], one: Object, surge: int, unavailable: int, **lists: Any) -> tuple[Fit, Any]:
    lists = {"priority_classes": CLASSES, **lists}
    snapshot = FitSnapshot([roomy_node(node("a"))], [placed_pod(each) for each in pods], **lists)
    cluster = snapshot.cluster({})
    one["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    (fit,) = fit_jobs(cluster, [snapshot.job_of([one], rolls=True)])
    assert len(cluster.world.nodes["a"].pods) == len(pods), "everything is as before"
    return fit, fit_jobs(cluster, [snapshot.job_of([one])])[0]


@pytest.mark.parametrize("case", ROLLS)
def test_a_rolling_update_takes(case: str) -> None:
    pods, one, expected, preempted = ROLLS[case]
    fit, without_old = rolled(pods, one, 0, 1)
    assert (fit.verdict, [name for _namespace, name in fit.evicted]) == (expected, preempted)
    assert (fit.rollout, without_old.verdict) == (None, "now")


# The pods on one node of 8 GPUs, the new pods, maxSurge and maxUnavailable; how many new ones run, and what is left.
FULL, ROOM_FOR_ONE = pod("p", "a", 6), pod("p", "a", 5)
ALONE = pod("web-0", "a", 6, metadata={"labels": {"app": "web"}})
STUCK_ROLLS: dict[str, tuple[list[Object], Object, int, int, int, tuple[int, int, int]]] = {
    "a surplus pod that finds no room": ([*OLD, FULL], job("web", 2), 1, 0, 0, (2, 0, 1)),
    "more pods, of which one finds room": ([*OLD, ROOM_FOR_ONE], job("web", 4), 0, 1, 1, (2, 0, 1)),
    "more pods and no room": ([*OLD, FULL], job("web", 4), 0, 1, 0, (2, 1, 1)),
    "larger pods": ([*OLD, FULL], job("web", 2, gpus=3), 0, 1, 0, (1, 0, 1)),
    "larger pods, of which the first takes the room of two": ([*OLD, FULL], job("web", 1, gpus=3), 0, 1, 0, (0, 0, 1)),
    "larger pods, of which one finds room": ([*OLD, ROOM_FOR_ONE], job("web", 2, gpus=2), 0, 1, 1, (0, 0, 1)),
}


@pytest.mark.parametrize("case", STUCK_ROLLS)
def test_a_rolling_update_that_does_not_get_through_leaves(case: str) -> None:
    """As the Deployment controller of Kubernetes 1.36 does."""
    pods, one, surge, unavailable, running, left = STUCK_ROLLS[case]
    fit, _without_old = rolled(pods, one, surge, unavailable)
    assert (len(fit.nodes), tuple(fit.rollout or ())) == (running, left)
    assert fit.verdict == "after_jobs"


def test_a_rolling_update_whose_old_pods_keep_the_room_never_gets_through() -> None:
    fit, without_old = rolled([ALONE], job("web", 1, gpus=6), 1, 0)
    assert (fit.verdict, fit.after, fit.rollout) == ("never", (), (1, 0, 1))
    assert without_old.verdict == "now"
    row = fit_row(fit, "compute", Places([]), {}, datetime.now(timezone.utc))
    assert row["reason"].endswith("One of its former pods serves on.")


class TestWaiting:
    def test_for_as_few_jobs_as_are_needed(self) -> None:
        pods = [pod("p", "a", 4), pod("q", "b", 8), pod("r", "a", 2)]
        found = judged([node("a"), node("b")], pods, job(gpus=8))[0]
        assert (found.verdict, found.after) == ("after_jobs", (("team", "q"),))

    def test_for_those_that_end_first(self) -> None:
        pods = [pod("p", "a", 8), pod("q", "b", 8)]
        snapshot = FitSnapshot([roomy_node(node("a")), roomy_node(node("b"))], [placed_pod(one) for one in pods])
        cluster = snapshot.cluster({("team", "p"): 900.0, ("team", "q"): 60.0})
        assert fit_jobs(cluster, [snapshot.job_of([job(gpus=8)])])[0].after == (("team", "q"),)

    def test_never_for_what_comes_back_at_once(self) -> None:
        owner = [{"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]
        pods = [pod("p", "a", 1, metadata={"ownerReferences": owner})]
        assert verdict([node("a")], pods, job(gpus=8)) == "never"

    def test_not_for_its_own_former_pods(self) -> None:
        assert verdict([node("a")], [pod("new", "a", 8)], job(gpus=8)) == "now"

    def test_room_is_kept_for_the_nominated(self) -> None:
        waiting = pod("p", "", 8, priority=100)
        waiting["spec"].pop("nodeName")
        waiting["status"]["nominatedNodeName"] = "a"
        (fit,) = judged([node("a")], [waiting], job())
        assert (fit.verdict, fit.after) == ("after_jobs", (("team", "p"),))
        (fit,) = judged([node("a")], [waiting], job(affinity=away("other")))  # not by amounts alone
        assert (fit.verdict, fit.after) == ("after_jobs", (("team", "p"),))
        assert (
            verdict(
                [node("a")], [{**waiting, "spec": {**waiting["spec"], "priority": 9}}], job(priorityClassName="high")
            )
            == "now"
        )

    def test_not_for_the_room_that_is_kept_for_itself(self) -> None:
        waiting = pod("new", "", 8, priority=100)
        waiting["spec"].pop("nodeName")
        waiting["status"]["nominatedNodeName"] = "a"
        assert verdict([node("a")], [waiting], job(gpus=8)) == "now"


def quota(hard: Object, used: Object | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"name": "q", "namespace": "team"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or {}},
    }


GUARANTEED = {
    "scopeSelector": {
        "matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["gpuctl-opportunistic"]}]
    }
}


@pytest.mark.parametrize(
    ("priority", "held", "used", "expected"),
    [
        ("opportunistic", 6, "4", "now"),
        ("opportunistic", 8, "0", "after_jobs"),
        ("high", 6, "4", "after_quota"),
        ("high", 8, "2", "after_preemption"),
    ],
)
def test_opportunistic_jobs_use_no_guaranteed_quota(priority: str, held: int, used: str, expected: str) -> None:
    """Nor do they give any back to those that preempt them."""
    classes = {**CLASSES, "gpuctl-opportunistic": {"value": -1000, "preemptionPolicy": "Never"}}
    name = "gpuctl-opportunistic"
    yielding = pod("y", "a", held, priority=-1000, priorityClassName=name)
    limits = {"team": [quota({f"requests.{GPU}": "4"}, {f"requests.{GPU}": used}, **GUARANTEED)]}
    wanted = job(gpus=2, priorityClassName=name if priority == "opportunistic" else priority)
    (found,) = judged([node("a")], [yielding], wanted, quotas=limits, priority_classes=classes)
    assert (found.verdict, found.rivals, found.replaced) == (expected, (), ())


def test_only_what_a_quota_counts_is_charged_to_it_and_given_back() -> None:
    (state,) = filter(None, [quota_state(quota({"pods": "4"}, **GUARANTEED))])
    classes = ("gpuctl-opportunistic", "gpuctl-low", "")
    counted = [state.counts(placed_pod(pod("p", "a", priorityClassName=name))) for name in classes]
    assert counted == [False, True, True]


@pytest.mark.parametrize(
    ("one", "expected", "short"),
    [
        (quota({f"requests.{GPU}": "8"}, {f"requests.{GPU}": "0"}), "now", []),
        (quota({f"requests.{GPU}": "8"}, {f"requests.{GPU}": "6"}), "after_quota", ["2"]),
        (quota({f"requests.{GPU}": "3"}), "never", ["1"]),
        (quota({"pods": "1"}), "never", ["1"]),
        (quota({"limits.memory": "1Gi"}), "never", []),  # The container names none.
        (quota({"requests.cpu": "500m"}), "never", ["1500m"]),
        (quota({"pods": "1"}, scopes=["Terminating"]), "now", []),
        (quota({"pods": "0"}, scopes=["BestEffort"]), "now", []),
    ],
)
def test_quotas(one: Object, expected: str, short: list[str]) -> None:
    found = judged([node("a"), node("b")], [], job(number=2, gpus=2), quotas={"team": [one]})[0]
    assert found.verdict == expected
    assert [lack.row["short"] for lack in found.lacks] == short


@pytest.mark.parametrize(
    ("nodes", "wanted", "expected"),
    [
        ([node("a", pool="x")], job(nodeSelector={"pool": "y"}), "never"),
        ([node("a", 2)], job(gpus=4), "never"),
        ([node("a", spec={"unschedulable": True})], job(), "after_quota"),
        ([node("a")], job(gpus=4), "after_quota"),
    ],
    ids=["no such pool", "too small", "cordoned", "room"],
)
def test_more_quota_is_no_help_where_no_node_takes_the_pods(nodes: list[Object], wanted: Object, expected: str) -> None:
    full = quota({f"requests.{GPU}": "8"}, {f"requests.{GPU}": "8"})
    found = judged(nodes, [], wanted, quotas={"team": [full]})[0]
    assert (found.verdict, found.fits_nowhere) == (expected, expected == "never")
    assert len(found.lacks) == 1
    assert bool(found.refusals) == found.fits_nowhere


@pytest.mark.parametrize(
    ("gpus", "hard", "running", "left"),
    [(1, "2", 2, None), (2, "3", 1, (0, 0, 0)), (4, "3", 0, (1, 0, 0))],
    ids=["all new pods", "one", "none"],
)
def test_a_rolling_update_goes_as_far_as_the_quota_lets_it(
    gpus: int, hard: str, running: int, left: tuple[int, int, int] | None
) -> None:
    one = quota({f"requests.{GPU}": hard}, {f"requests.{GPU}": "2"})
    fit, _without_old = rolled(OLD, job("web", 2, gpus=gpus), 0, 1, quotas={"team": [one]})
    assert (len(fit.nodes), fit.rollout) == (running, left)


def test_where_a_rolling_update_stops_is_not_known_without_the_nodes() -> None:
    snapshot = FitSnapshot(None, [placed_pod(each) for each in OLD], priority_classes=CLASSES)
    (fit,) = fit_jobs(snapshot.cluster({}), [snapshot.job_of([job("web", 2)], rolls=True)])
    row = fit_row(fit, "compute", Places([]), {}, datetime.now(timezone.utc))
    assert (row["verdict"], row.get("rollout")) == ("unknown", None)


def test_without_the_nodes_a_quota_is_all_that_is_known() -> None:
    full = quota({f"requests.{GPU}": "8"}, {f"requests.{GPU}": "8"})
    snapshot = FitSnapshot(None, [], priority_classes=CLASSES, quotas={"team": [full]})
    (found,) = fit_jobs(snapshot.cluster({}), [snapshot.job_of([job()])])
    assert (found.verdict, found.fits_nowhere) == ("unknown", False)


def test_more_pods_than_a_node_takes_are_not_preempted_for_one_more() -> None:
    """The node takes one pod and has three, of which one may be preempted."""
    pods = [pod("low", "a", 1, priority=1), *(pod(name, "a", 1, priority=2000) for name in "pq")]
    other = [pod("small", "b", 8, priority=1)]
    found = judged([node("a", room={"pods": "1"}), node("b")], [*pods, *other], job(gpus=2, priorityClassName="high"))[
        0
    ]
    assert (found.verdict, found.nodes, found.evicted) == ("after_preemption", ("b",), (("team", "small"),))


def test_jobs_on_cordoned_nodes_end_as_well() -> None:
    found = judged([node("a", spec={"unschedulable": True})], [pod("p", "a", 8)], job(gpus=8))[0]
    assert (found.verdict, found.away) == ("after_nodes", ("a",))


def test_what_has_to_end_for_pods_that_share_a_rack() -> None:
    """Wherever the first pod goes: a rack with room for one of them only is in the way until it has room for two."""
    nodes = [node(name, rack=rack) for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"), ("d", "r2"))]
    pods = [pod(f"on-{name}", name, 8) for name in "abcd"]
    wanted = job(number=2, gpus=8, affinity=near("new"))
    assert judged(nodes, pods, wanted)[0].after == (("team", "on-a"), ("team", "on-b"))
    assert judged(nodes, pods[:-1], wanted)[0].after == (("team", "on-c"),)


@pytest.mark.parametrize(
    ("on", "number", "expected"),
    [
        (["a", "b", "c", "d"], 2, "unknown"),  # Both are nominated at once, perhaps in different racks.
        (["a", "b", "c", "d"], 1, "after_preemption"),
        (["b", "c", "d"], 2, "after_preemption"),  # The first one has a node, where the second one has to be near.
    ],
)
def test_several_pods_that_must_be_near_each_other_preempt(on: list[str], number: int, expected: str) -> None:
    nodes = [node(name, rack=rack) for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"), ("d", "r2"))]
    pods = [pod(f"on-{name}", name, 8, priority=1) for name in on]
    found = judged(nodes, pods, job(number=number, gpus=8, affinity=near("new"), priorityClassName="high"))[0]
    assert (found.verdict, found.otherwise or found.verdict) == (expected, "after_preemption")


def test_what_a_pod_requests_as_a_whole_is_enough_for_a_quota() -> None:
    limits = {"team": [quota({"requests.memory": "64Gi"})]}
    assert verdict([node("a")], [], job(), quotas=limits) == "never"
    assert verdict([node("a")], [], job(resources={"requests": {"memory": "1Gi"}}), quotas=limits) == "now"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"type": "Pod", "max": {"cpu": "2"}}, "now"),
        ({"type": "Pod", "max": {"cpu": "1500m"}}, "never"),
        ({"type": "Pod", "max": {"memory": "2Gi"}}, "never"),  # no limit of memory
        ({"type": "Pod", "min": {"cpu": "1"}}, "now"),
        ({"type": "Pod", "min": {"cpu": "3"}}, "never"),
        ({"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}}, "now"),
        ({"type": "Pod", "maxLimitRequestRatio": {"cpu": "1"}}, "never"),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}, "now"),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "1500m"}}, "never"),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "1"}}, "now"),
    ],
)
def test_limits_of_containers_and_of_whole_pods(limits: Object, expected: str) -> None:
    ranges = {"team": [{"metadata": {"name": "l"}, "spec": {"limits": [limits]}}]}
    cpu = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
    containers = [{"name": name, "resources": cpu} for name in ("one", "two")]
    assert verdict([node("a")], [], job(containers=containers), limit_ranges=ranges) == expected


def test_a_namespace_that_is_missing() -> None:
    (fit,) = judged([node("a")], [], job(), exists={"team": False})
    assert (fit.verdict, fit.refused) == ("never", ("namespace team does not exist",))
    assert verdict([node("a")], [], job(), exists={"team": None}) == "now"  # no permission to read it


def deployment(replicas: int = 1, **labels: str) -> Object:
    one = job("web")
    spec = {"replicas": replicas, "template": one["spec"]["template"]}
    return {"kind": "Deployment", "metadata": {**one["metadata"], "labels": labels}, "spec": spec}


def service(type_: str | None = None, ports: int = 1, **spec: Any) -> Object:
    given = {"type": type_, "ports": [{"port": 80 + number} for number in range(ports)], **spec}
    return {"kind": "Service", "metadata": {"name": "svc-web", "namespace": "team"}, "spec": given}


CONFIG_MAP = {"kind": "ConfigMap", "metadata": {"name": "web", "namespace": "team"}}
AUTOSCALER = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "web", "namespace": "team"}, "spec": {}}
QUEUED = {"kueue.x-k8s.io/queue-name": "q"}
COUNTS = {
    "jobs": ([job()], {"count/jobs.batch": "0"}, "never"),
    "jobs, of which one is left": ([job()], {"count/jobs.batch": "1"}, "now"),
    "deployments": ([deployment()], {"count/deployments.apps": "0"}, "never"),
    "what a controller makes of it": ([deployment()], {"count/replicasets.apps": "0"}, "never"),
    "stateful sets": ([{**deployment(), "kind": "StatefulSet"}], {"count/statefulsets.apps": "0"}, "never"),
    "services": ([deployment(), service()], {"services": "0"}, "never"),
    "services by their other name": ([deployment(), service()], {"count/services": "0"}, "never"),
    "node ports, each of them": ([deployment(), service("NodePort", 2)], {"services.nodeports": "1"}, "never"),
    "node ports of others": ([deployment(), service()], {"services.nodeports": "0"}, "now"),
    "node ports of a load balancer": ([deployment(), service("LoadBalancer")], {"services.nodeports": "0"}, "never"),
    "a load balancer without them": (
        [deployment(), service("LoadBalancer", allocateLoadBalancerNodePorts=False)],
        {"services.nodeports": "0"},
        "now",
    ),
    "load balancers": ([deployment(), service("LoadBalancer")], {"services.loadbalancers": "0"}, "never"),
    "config maps": ([job(), CONFIG_MAP], {"configmaps": "0"}, "never"),
    "config maps of others": ([job()], {"configmaps": "0", "secrets": "0", "persistentvolumeclaims": "0"}, "now"),
    "autoscalers": ([deployment(), AUTOSCALER], {"count/horizontalpodautoscalers.autoscaling": "0"}, "never"),
    "what Volcano makes of it": (
        [job(schedulerName="volcano")],
        {"count/podgroups.scheduling.volcano.sh": "0"},
        "never",
    ),
    "what Kueue makes of it": (
        [{**job(), "metadata": {**job()["metadata"], "labels": {"app": "new", **QUEUED}}}],
        {"count/workloads.kueue.x-k8s.io": "0"},
        "never",
    ),
    "pods": ([job(number=2)], {"count/pods": "1"}, "never"),
}


@pytest.mark.parametrize(("objects", "hard", "expected"), COUNTS.values(), ids=COUNTS)
def test_quotas_on_counts(objects: list[Object], hard: Object, expected: str) -> None:
    snapshot = FitSnapshot([roomy_node(node("a"))], [], quotas={"team": [quota(hard)]})
    (fit,) = fit_jobs(snapshot.cluster({}), [snapshot.job_of(objects)])
    assert fit.verdict == expected, fit
    assert [lack.resource for lack in fit.lacks] == ([] if expected == "now" else list(hard))


def test_quotas_on_counts_by_what_there_is_already() -> None:
    """The job is submitted again; its Service gets a node port."""
    hard = {"count/deployments.apps": "1", "services": "1", "services.nodeports": "1"}
    used = {"count/deployments.apps": "1", "services": "1", "services.nodeports": "1"}
    snapshot = FitSnapshot(
        [roomy_node(node("a"))],
        [],
        quotas={"team": [quota(hard, used)]},
        live={("team", "web"): [deployment(), service()]},
    )
    fits = [
        fit_jobs(snapshot.cluster({}), [snapshot.job_of([deployment(), service(type_)])])[0]
        for type_ in ("ClusterIP", "NodePort")
    ]
    assert [(fit.verdict, [lack.resource for lack in fit.lacks]) for fit in fits] == [
        ("now", []),
        ("after_quota", ["services.nodeports"]),
    ]


def test_a_quota_with_a_scope_counts_only_pods() -> None:
    scoped = quota({"count/jobs.batch": "0"}, scopes=["NotTerminating"])
    assert verdict([node("a")], [], job(), quotas={"team": [scoped]}) == "now"


def test_quotas_on_counts_are_shared_by_a_batch() -> None:
    found = judged([node("a")], [], job("one"), job("two"), quotas={"team": [quota({"count/jobs.batch": "1"})]})
    assert [fit.verdict for fit in found] == ["now", "after_quota"]
    assert found[1].nodes == ()


@pytest.mark.parametrize(
    ("gpus", "hard", "used", "expected"),
    [(1, "1", "1", "now"), (8, "8", "1", "now"), (1, "0", "0", "now"), (9, "8", "0", "")],
)
def test_a_higher_quota_helps_where_nodes_take_the_job(gpus: int, hard: str, used: str, expected: str) -> None:
    limits = quota({"requests.nvidia.com/gpu": hard}, {"requests.nvidia.com/gpu": used})
    (fit,) = judged([node("a")], [], job(gpus=gpus), quotas={"team": [limits]})
    assert (bool(fit.lacks), fit.with_quota) == (True, expected)


def test_a_job_that_never_fits_names_whom_it_preempts() -> None:
    low = [pod("p", "a", 4, priority=10), pod("q", "b", 4, priority=10)]
    nodes = [node("a", 4), node("b", 4)]
    (fit,) = judged(nodes, low, job(number=3, gpus=4, priorityClassName="high"))
    assert (fit.verdict, set(fit.evicted)) == ("never", {("team", "p"), ("team", "q")})
    kept = [*low, pod("r", "c", 4, priority=5000)]
    (fit,) = judged([*nodes, node("c", 4)], kept, job(number=3, gpus=4, priorityClassName="high"))
    assert (fit.verdict, set(fit.evicted)) == ("after_jobs", {("team", "p"), ("team", "q")})
    assert judged(nodes, low, job(number=3, gpus=4, priorityClassName="low"))[0].evicted == ()


def test_which_jobs_use_the_quota() -> None:
    pods = [pod(name, "a", gpus) for name, gpus in (("one", 1), ("two", 2), ("three", 3))]
    limits = {"team": [quota({"requests.nvidia.com/gpu": "8"}, used={"requests.nvidia.com/gpu": "6"})]}
    found = judged([node("a", 16)], pods, job(gpus=4), quotas=limits)[0]
    assert (found.verdict, found.after) == ("after_quota", (("team", "three"),))
    scoped = {"team": [{**limits["team"][0], "spec": {**limits["team"][0]["spec"], "scopes": ["NotTerminating"]}}]}
    assert judged([node("a", 16)], pods, job(gpus=4), quotas=scoped)[0].after == ()


def test_a_job_that_is_recreated_gives_back_what_it_uses_of_a_quota() -> None:
    resources = {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}
    containers = [{"name": "main", "resources": resources}]
    limits = {"team": [quota({"requests.cpu": "6", "limits.cpu": "6"}, {"requests.cpu": "4", "limits.cpu": "4"})]}
    wanted = job(containers=containers)
    assert verdict([node("a")], [pod("new", "a", containers=containers)], wanted, quotas=limits) == "now"
    (other,) = judged([node("a")], [pod("other", "a", containers=containers)], wanted, quotas=limits)
    assert (other.verdict, other.after) == ("after_quota", (("team", "other"),))


def test_limit_ranges_give_defaults_and_bounds() -> None:
    limits = {"type": "Container", "defaultRequest": {"memory": "200Gi"}, "max": {"cpu": "2"}}
    ranges = {"team": [{"metadata": {"name": "l"}, "spec": {"limits": [limits]}}]}
    found = judged([node("a")], [], job(), limit_ranges=ranges)[0]
    assert found.verdict == "never"
    assert found.refused == ("LimitRange l allows at most 2 of cpu in each container",)
    limits.pop("max")
    assert judged([node("a")], [], job(), limit_ranges=ranges)[0].refusals == {"memory": 1}


@pytest.mark.parametrize(("number", "expected"), [(0, "now"), (1, "never")])
def test_what_the_server_refuses_of_pods_matters_once_there_are_some(number: int, expected: str) -> None:
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.memory": "1Gi"}}}
    for lists in ({"limit_ranges": {"team": [limits]}}, {"quotas": {"team": [quota]}}):
        assert verdict([node("a")], [], job(number=number), **lists) == expected


CLAIM = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]


class TestVolumes:
    def judged(
        self,
        claim: Object,
        volume: Object | None = None,
        storage_class: Object | None = None,
        phase: str = "Bound",
        number: int = 1,
        **others: Any,
    ) -> str:
        status = {"phase": phase if "volumeName" in claim else "Pending"}
        named = {"metadata": {"name": "data", "namespace": "team"}, "spec": claim, "status": status}
        volumes = {"pv": {"metadata": {"name": "pv"}, "spec": volume or {}}}
        classes = {"local": storage_class or {}}
        lists = {"claims": {"team": [named]}, "volumes": volumes, "storage_classes": classes}
        lists["csi_drivers"] = {"full.example.com": {"spec": {"storageCapacity": True}}}
        return verdict([node("a", zone="1")], [], job(volumes=CLAIM, number=number), **lists | others)

    def test_bound(self) -> None:
        terms = nodes_in("zone", "In", "1")["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert self.judged({"volumeName": "pv"}, {"nodeAffinity": {"required": terms}}) == "now"

    def test_a_volume_that_is_not_for_the_claim_that_names_it(self) -> None:
        assert self.judged({"volumeName": "pv"}, phase="Pending") == "never"

    def test_bound_elsewhere(self) -> None:
        terms = nodes_in("zone", "In", "2")["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert self.judged({"volumeName": "pv"}, {"nodeAffinity": {"required": terms}}) == "never"

    def test_without_a_volume(self) -> None:
        assert self.judged({"storageClassName": "other"}) == "never"

    @pytest.mark.parametrize(
        ("storage_class", "volume", "expected"),
        [
            ({}, {}, "never"),
            ({}, {"accessModes": ["ReadWriteOnce"], "zone": "1"}, "now"),
            ({}, {"accessModes": ["ReadWriteOnce"], "zone": "2"}, "never"),
            ({}, {"accessModes": ["ReadWriteMany"], "zone": "1"}, "never"),
            ({}, {"accessModes": ["ReadWriteOnce"], "zone": "1", "storageClassName": "other"}, "never"),
            ({}, {"accessModes": ["ReadWriteOnce"], "zone": "1", "capacity": {"storage": "1Gi"}}, "never"),
            ({}, {"accessModes": ["ReadWriteOnce"], "zone": "1", "claimRef": {"name": "x", "namespace": "y"}}, "never"),
            ({}, {"accessModes": ["ReadWriteOnce"], "zone": "1", "volumeAttributesClassName": "fast"}, "never"),
            ({"provisioner": "csi.example.com"}, {}, "now"),
            ({"provisioner": "csi.example.com", "zones": ["1", "2"]}, {}, "now"),
            ({"provisioner": "csi.example.com", "zones": ["2"]}, {}, "never"),
            ({"provisioner": "full.example.com"}, {}, "unknown"),
        ],
    )
    def test_a_volume_that_comes_with_the_pod(self, storage_class: Object, volume: Object, expected: str) -> None:
        """It is one that is free and reached from the node, or else made where the class makes volumes."""
        late = {"volumeBindingMode": "WaitForFirstConsumer", **storage_class}
        if zones := late.pop("zones", None):
            late["allowedTopologies"] = [{"matchLabelExpressions": [{"key": "zone", "values": zones}]}]
        spec: Object = {"storageClassName": "local", "capacity": {"storage": "9Gi"}, **volume}
        if zone := spec.pop("zone", None):
            terms = nodes_in("zone", "In", zone)["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            spec["nodeAffinity"] = {"required": terms}
        claim = {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "2Gi"}},
        }
        assert self.judged(claim, spec, late) == expected

    def test_where_a_volume_comes_to_be_decides_for_all_pods(self) -> None:
        late = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "csi.example.com"}
        assert self.judged({"storageClassName": "local"}, storage_class=late, number=2) == "unknown"

    def test_a_volume_is_only_once(self) -> None:
        """Whether the second job gets one too is not known, however the first one ends."""
        claims = [
            {"metadata": {"name": name, "namespace": "team"}, "spec": {"storageClassName": "local"}}
            for name in ("data", "more")
        ]
        lists = {
            "claims": {"team": claims},
            "volumes": {"pv": {"metadata": {"name": "pv"}, "spec": {"storageClassName": "local"}}},
            "storage_classes": {"local": {"volumeBindingMode": "WaitForFirstConsumer"}},
        }
        more = [{"name": "v", "persistentVolumeClaim": {"claimName": "more"}}]
        jobs = [job("one", gpus=1, volumes=CLAIM), job("two", gpus=1, volumes=more)]
        fits = judged([node("a")], [], *jobs, **lists)
        assert [fit.verdict for fit in fits] == ["now", "unknown"]

    @pytest.mark.parametrize(
        ("most", "handle", "priority", "expected"),
        [(2, "new", 0, "now"), (1, "new", 0, "after_jobs"), (1, "old", 0, "now"), (1, "new", 9, "after_preemption")],
    )
    def test_how_many_volumes_a_node_attaches(self, most: int, handle: str, priority: int, expected: str) -> None:
        """What several pods use is attached once."""

        def volume(handle: str, claim: str) -> Object:
            csi = {"driver": "csi.example.com", "volumeHandle": handle}
            return {"metadata": {"name": claim}, "spec": {"csi": csi, "claimRef": {"namespace": "team", "name": claim}}}

        claim = {
            "metadata": {"name": "data", "namespace": "team"},
            "spec": {"volumeName": "data"},
            "status": {"phase": "Bound"},
        }
        limits = {"spec": {"drivers": [{"name": "csi.example.com", "allocatable": {"count": most}}]}}
        there = pod("p", "a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "theirs"}}])
        lists: Object = {
            "claims": {"team": [claim]},
            "volumes": {"data": volume(handle, "data"), "theirs": volume("old", "theirs")},
            "csi_nodes": {"a": limits},
        }
        wanted = job(gpus=1, volumes=CLAIM, **({"priorityClassName": "high"} if priority else {}))
        assert verdict([node("a")], [there], wanted, **lists) == expected

    def test_limits_that_are_not_readable(self) -> None:
        csi = {"csi": {"driver": "csi.example.com", "volumeHandle": "x"}}
        assert self.judged({"volumeName": "pv"}, csi) == "now"
        assert self.judged({"volumeName": "pv"}, csi, csi_nodes=None) == "unknown"

    def test_missing(self) -> None:
        assert verdict([node("a")], [], job(volumes=CLAIM), claims={"team": []}) == "never"

    def test_not_readable(self) -> None:
        assert verdict([node("a")], [], job(volumes=CLAIM), claims={"team": None}) == "unknown"


class TestDevices:
    def slice(self, *models: str, tainted: int = 0) -> Object:
        """A slice of devices, of which the first ones are tainted."""
        devices: list[Object] = [
            {"name": f"d{index}", "attributes": {"model": {"string": model}, "pair": {"int": index // 2}}}
            for index, model in enumerate(models)
        ]
        for device in devices[:tainted]:
            device["taints"] = [{"key": "example.com/broken", "effect": "NoSchedule"}]
        pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": "a", "pool": pool, "devices": devices}
        return {"metadata": {"name": "s"}, "spec": spec}

    def judged(self, one: Object, count: int | None, number: int = 1, model: str = "", alike: bool = False) -> str:
        exactly: Object = {"deviceClassName": "gpu", "allocationMode": "All"}
        if count:
            exactly |= {"count": count, "allocationMode": "ExactCount"}
        if model:
            expression = f"device.attributes['gpu.example.com'].model == '{model}'"
            exactly["selectors"] = [{"cel": {"expression": expression}}]
        devices: Object = {"requests": [{"name": "r", "exactly": exactly}]}
        if alike:
            devices["constraints"] = [{"matchAttribute": "gpu.example.com/pair"}]
        template = {
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "t", "namespace": "team"},
            "spec": {"spec": {"devices": devices}},
        }
        selector = {"cel": {"expression": "device.driver == 'gpu.example.com'"}}
        inventory = inventory_of([one], [], [{"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}])
        wanted = job(number=number, gpus=0, resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}])
        snapshot = FitSnapshot([roomy_node(node("a")), roomy_node(node("b"))], [], devices=inventory)
        fits = fit_jobs(snapshot.cluster({}), [snapshot.job_of([wanted, template])])
        return fits[0].verdict

    @pytest.mark.parametrize(
        ("models", "count", "number", "model", "alike", "expected"),
        [
            ("xx", 2, 1, "", False, "now"),
            ("xx", 3, 1, "", False, "never"),
            ("xx", 1, 2, "", False, "now"),
            ("xx", 1, 3, "", False, "never"),
            ("xy", 1, 1, "y", False, "now"),
            ("xy", 2, 1, "y", False, "never"),
            ("yxxy", 2, 1, "x", True, "never"),
            ("yyxx", 2, 1, "x", True, "now"),
        ],
    )
    def test_claims(self, models: str, count: int, number: int, model: str, alike: bool, expected: str) -> None:
        assert self.judged(self.slice(*models), count, number, model, alike) == expected

    @pytest.mark.parametrize(
        ("tainted", "count", "expected"),
        [(0, None, "now"), (1, None, "never"), (1, 1, "now"), (1, 2, "never"), (2, 1, "never")],
    )
    def test_tainted_devices(self, tainted: int, count: int | None, expected: str) -> None:
        assert self.judged(self.slice("x", "x", tainted=tainted), count) == expected


class TestBatch:
    def test_more_important_jobs_come_first(self) -> None:
        jobs = job("one", gpus=8, priorityClassName="low"), job("two", gpus=8, priorityClassName="high")
        assert [fit.verdict for fit in judged([node("a")], [], *jobs)] == ["after_jobs", "now"]

    def test_it_depends_on_where_the_first_goes(self) -> None:
        fits = judged([node("a"), node("b")], [], job("one"), job("two", number=1, gpus=8), job("three", gpus=8))
        assert [fit.verdict for fit in fits] == ["now", "now", "after_jobs"]
        fits = judged([node("a"), node("b", 4)], [], job("one"), job("two", gpus=8))
        assert [fit.verdict for fit in fits] == ["now", "unknown"]
        assert fits[1].depends_on_batch

    def test_a_quota_is_shared(self) -> None:
        fits = judged([node("a")], [], job("one"), job("two"), quotas={"team": [quota({"pods": "1"})]})
        assert [fit.verdict for fit in fits] == ["now", "after_quota"]

    def test_nothing_of_it_stays(self) -> None:
        snapshot = FitSnapshot([roomy_node(node("a"))], [placed_pod(pod("p", "a", 4))])
        cluster = snapshot.cluster({})
        wanted = [snapshot.job_of([job("one", gpus=4)]), snapshot.job_of([job("two", gpus=8)])]
        assert fit_jobs(cluster, wanted) == fit_jobs(cluster, wanted)
        assert cluster.world.nodes["a"].free[GPU] == 4


def test_the_first_change_of_each_field_that_helps() -> None:
    snapshot = FitSnapshot([roomy_node(node("a"))], [placed_pod(pod("p", "a", 5))])
    tried: list[int] = []

    def variants(wanted: Any, is_wanted: Any) -> Any:
        for gpus in (7, 3, 2):
            change = FitChange((("resources.gpu", "8", str(gpus)),))
            if is_wanted(change):
                tried.append(gpus)
                yield change, snapshot.job_of([job(gpus=gpus)])

    found = fit_jobs(snapshot.cluster({}), [snapshot.job_of([job(gpus=8)])], variants)[0]
    assert [change.fields for change in found.changes] == [(("resources.gpu", "8", "3"),)]
    assert tried == [3]  # Of 7 the node has too little, and once a change of the field helps, no other is built.


@pytest.mark.parametrize(("priority", "expected"), [(1, "unknown"), (1000, "after_jobs")])
def test_a_later_change_does_not_promise_to_wait_for_what_it_may_preempt(priority: int, expected: str) -> None:
    """Both pods are nominated at once, perhaps in different racks: they may run by preempting, or only later."""
    nodes = [node(name, rack=rack) for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"), ("d", "r2"))]
    pods = [placed_pod(pod(f"on-{name}", name, 8, priority=priority)) for name in "abcd"]
    snapshot = FitSnapshot([roomy_node(one) for one in nodes], pods, priority_classes=CLASSES)

    def two(gpus: int) -> Any:
        return snapshot.job_of([job(number=2, gpus=gpus, affinity=near("new"), priorityClassName="high")])

    def variants(wanted: Any, is_wanted: Any) -> Any:
        yield FitChange((("resources.gpu", "9", "8"),)), two(8)

    found = fit_jobs(snapshot.cluster({}), [two(9)], variants)[0]
    assert (found.verdict, [change.verdict for change in found.changes]) == ("never", [expected])


def test_changes_that_leave_another_resource_too_little_are_not_tried() -> None:
    snapshot = FitSnapshot([roomy_node(node("a"))], [placed_pod(pod("p", "a", 8))])
    asked: dict[str, bool] = {}

    def variants(wanted: Any, is_wanted: Any) -> Any:
        for field in ("resources.cpu", "resources.memory", "resources.pool"):
            asked[field] = is_wanted(FitChange(((field, "8", "4"),)))
        yield from ()

    fit_jobs(snapshot.cluster({}), [snapshot.job_of([job(gpus=8)])], variants)
    assert asked == {"resources.cpu": False, "resources.memory": False, "resources.pool": True}


def test_what_may_not_be_read_is_not_known() -> None:
    snapshot = FitSnapshot([roomy_node(node("a"))], None)
    fits = fit_jobs(snapshot.cluster({}), [snapshot.job_of([job()]), snapshot.job_of([job("big", gpus=9)])])
    assert [fit.verdict for fit in fits] == ["unknown", "never"]
    assert fits[0].undecided == ("the account may not list the pods of all namespaces, which use the nodes",)


def test_jobs_that_are_alike_share_an_answer_but_not_a_quota() -> None:
    full = [pod("p", "a", 8)]
    three = [job(f"new-{number}") for number in range(3)]
    assert [one.verdict for one in judged([node("a")], full, *three)] == ["after_jobs"] * 3
    hard = quota({"pods": "2"})
    found = judged([node("a")], full, *three, quotas={"team": [hard]})
    assert [(one.job.name, one.verdict) for one in found] == [
        ("new-0", "after_jobs"),
        ("new-1", "after_jobs"),
        ("new-2", "after_quota"),
    ]


def test_jobs_that_are_alike_get_answers_of_their_own_where_a_pod_looks_at_labels() -> None:
    picky = pod("p", "a", affinity=away("new-1"))
    found = judged([node("a", 1)], [picky, pod("full", "a", 1)], job("new-0"), job("new-1"), job("new-2"))
    assert [len(one.after) for one in found] == [1, 2, 1]


@pytest.mark.parametrize(("used", "compete"), [("0", True), ("4", True), ("6", False)])
def test_of_two_jobs_that_compete_for_a_quota_either_may_wait(used: str, compete: bool) -> None:
    """Where it would be enough for the one without the other: priority does not decide whose pods are created first."""
    hard = quota({f"requests.{GPU}": "8"}, {f"requests.{GPU}": used})
    jobs = job("second", gpus=4, priorityClassName="low"), job("first", gpus=5 if used == "0" else 2)
    found = {one.job.name: one for one in judged([node("a"), node("b")], [], *jobs, quotas={"team": [hard]})}
    waiting = found["second"] if found["second"].lacks else found["first"]
    other = "first" if waiting is found["second"] else "second"
    assert waiting.rivals == ((("team", other),) if compete else ())
    reason = fit_row(waiting, "training", Places([]), {}, datetime(2026, 1, 1, tzinfo=timezone.utc))["reason"]
    told = f" Job team/{other} of this task needs it too, and whichever is created first gets it."
    assert reason.endswith(told) is compete, reason
    assert found[other].rivals == ((("team", waiting.job.name),) if compete else ()), "the order may be the other one"


@pytest.mark.parametrize(("used", "competes"), [("8", True), ("14", False)])
def test_a_job_that_is_preempted_competes_for_its_quota(used: str, competes: bool) -> None:
    """Its pod gives back what it uses, and its controller creates another one: either may be first."""
    hard = quota({f"requests.{GPU}": "8"}, {f"requests.{GPU}": used})
    other = job("other", gpus=8, priorityClassName="high")
    other["metadata"]["namespace"] = "others"
    pods = [pod("low", "a", 8, priority=-10)]
    _first, waiting = judged([node("a"), node("b", 4)], pods, other, job("new", gpus=4), quotas={"team": [hard]})
    assert (waiting.verdict, waiting.replaced) == ("after_quota", (("team", "low"),) if competes else ())
    reason = fit_row(waiting, "training", [], {}, datetime(2026, 1, 1, tzinfo=timezone.utc))["reason"]
    told = " Job team/low, which is preempted, needs it too, and whichever is created first gets it."
    assert reason.endswith(told) is competes, reason


def test_what_a_job_preempts_itself_comes_after_it() -> None:
    hard = quota({f"requests.{GPU}": "16"}, {f"requests.{GPU}": "8"})
    jobs = job("first", gpus=8, priorityClassName="high"), job("second", gpus=1)
    pods = [pod("low", "a", 8, priority=-10)]
    first, second = judged([node("a"), node("b", 1)], pods, *jobs, quotas={"team": [hard]})
    assert (first.evicted, first.rivals, first.replaced) == ((("team", "low"),), (("team", "second"),), ())
    assert (second.rivals, second.replaced) == ((("team", "first"),), (("team", "low"),))


def test_a_job_that_waits_for_its_gates_may_leave_its_room_to_others() -> None:
    """Seen with kube-scheduler 1.36: the one with a gate comes first by priority, and takes nothing."""
    gated = job("gated", gpus=8, schedulingGates=[{"name": "example.com/gate"}], priorityClassName="high")
    found = {one.job.name: one for one in judged([node("a")], [], gated, job("other", gpus=8))}
    assert found["gated"].verdict == "unknown"
    assert (found["other"].verdict, found["other"].depends_on_batch) == ("unknown", True)


# Jobs in the order of the task as (name, GPUs, priority class), free GPUs of nodes; then who names whom.
ROOM: dict[str, tuple[list[tuple[str, int, str]], list[int], dict[str, str]]] = {
    "all fit": ([("a", 1, ""), ("b", 1, "")], [2], {}),
    "the last GPU": ([("a", 1, ""), ("b", 1, "")], [1], {"a": "b", "b": "a"}),
    "unlike jobs": ([("a", 3, ""), ("b", 5, "")], [7], {"a": "b", "b": "a"}),
    "one takes what two need": ([("a", 1, ""), ("b", 1, ""), ("c", 2, "")], [2], {"a": "b c", "b": "a c", "c": "a b"}),
    "three for two places": ([("a", 1, ""), ("b", 1, ""), ("c", 1, "")], [2], {"a": "b c", "b": "a c", "c": "a b"}),
    "room for one more": ([("a", 8, ""), ("b", 8, ""), ("c", 1, "")], [8, 1], {"a": "b", "b": "a"}),
    "one never fits": ([("a", 1, ""), ("b", 9, "")], [8], {}),
    "one waits for a job that runs": ([("a", 1, ""), ("b", 8, "")], [7], {}),
    "priority decides": ([("a", 1, ""), ("b", 1, "high")], [1], {}),
    "the more important one never preempts": ([("a", 1, ""), ("b", 1, "low")], [1], {"a": "b", "b": "a"}),
    "priority decides between some": ([("a", 1, "high"), ("b", 1, ""), ("c", 1, "")], [2], {"b": "c", "c": "b"}),
    "it depends on who is put where": ([("a", 1, ""), ("b", 8, "")], [8, 8, 8, 1], {}),
}


@pytest.mark.parametrize("case", ROOM)
def test_of_jobs_that_compete_for_room_either_may_wait(case: str) -> None:
    wanted, free, expected = ROOM[case]
    nodes = [node(f"n{index}") for index in range(len(free))]
    pods = [pod(f"p{index}", f"n{index}", 8 - left, 2000) for index, left in enumerate(free) if left < 8]
    jobs = [job(name, gpus=gpus, **({"priorityClassName": one} if one else {})) for name, gpus, one in wanted]
    found = judged(nodes, pods, *jobs)
    named = {fit.job.name: " ".join(name for _team, name in fit.room_rivals) for fit in found if fit.room_rivals}
    assert named == expected
    for fit in found:
        reason = fit_row(fit, "training", Places([]), {}, datetime(2026, 1, 1, tzinfo=timezone.utc))["reason"]
        told = f"of this task need{'s' * (len(fit.room_rivals) == 1)} its room too, and whichever is created first"
        assert (told in reason) is bool(fit.room_rivals), reason


def test_jobs_that_may_preempt_compete_for_what_that_frees() -> None:
    pods = [pod("p", "a", 8, priority=-10)]
    fits = judged([node("a")], pods, job("one", gpus=8), job("two", gpus=8))
    assert [(fit.verdict, fit.room_rivals) for fit in fits] == [
        ("after_preemption", (("team", "two"),)),
        ("after_jobs", (("team", "one"),)),
    ]


def test_a_job_that_depends_on_which_more_important_ones_are_first_is_not_judged() -> None:
    jobs = [job("small", gpus=1, priorityClassName="high"), job("large", gpus=8, priorityClassName="high"), job("new")]
    fits = judged([node("a")], [], *jobs)
    assert [(fit.verdict, fit.room_rivals) for fit in fits] == [
        ("now", (("team", "large"),)),
        ("after_jobs", (("team", "small"),)),
        ("unknown", ()),
    ]
    assert fits[2].depends_on_batch


def test_jobs_that_a_quota_keeps_out_do_not_compete_for_room() -> None:
    hard = quota({f"requests.{GPU}": "1"})
    fits = judged([node("a", 1)], [], job("one"), job("two"), quotas={"team": [hard]})
    assert [(fit.verdict, len(fit.rivals), fit.room_rivals) for fit in fits] == [("now", 1, ()), ("after_quota", 1, ())]


@pytest.mark.parametrize(("free", "competes"), [(1, True), (2, False)])
def test_a_rolling_update_needs_more_room_while_it_goes_on(free: int, competes: bool) -> None:
    """Its first new pod needs room beside the old one. If another job takes that first, it gets no further."""
    old = pod("old", "a", 1)
    snapshot = FitSnapshot([roomy_node(node("a", 1 + free))], [placed_pod(old)], priority_classes=CLASSES)
    cluster = snapshot.cluster({})
    new = snapshot.job_of([job("web")])
    web = replace(new, replaces=tuple(cluster.world.pods()), rolls=(1, 0))
    fits = with_room_rivals(cluster, fit_jobs(cluster, [web, snapshot.job_of([job("other")])]))
    assert [(fit.verdict, fit.room_rivals) for fit in fits] == [
        ("now", (("team", "other"),) if competes else ()),
        ("now", ()),
    ]


@pytest.mark.parametrize("grows", [True, False], ids=["grows", "is created again"])
def test_a_more_important_job_preempts_the_pods_of_one_that_grows_beside_it(grows: bool) -> None:
    """Those of a job that is created again are gone before."""
    pods = [pod(f"web-{place}", "a", 2, priority=0, metadata={"labels": {"app": "web"}}) for place in range(3)]
    snapshot = FitSnapshot(
        [roomy_node(node("a"))],
        [placed_pod(each) for each in (*pods, pod("less", "a", 1, priority=0))],
        priority_classes=CLASSES,
    )
    cluster = snapshot.cluster({})
    web = snapshot.job_of([job("web", 4, gpus=2)], grows=grows)
    important = snapshot.job_of([job("important", gpus=4, priorityClassName="high")])
    found, first = fit_jobs(cluster, [web, important])
    assert len(cluster.world.nodes["a"].pods) == len(pods) + 1, "everything is as before"
    if not grows:
        assert (first.verdict, first.evicted, len(found.nodes)) == ("now", (), 1)
        return
    assert (first.verdict, {name for _namespace, name in first.evicted}) == ("after_preemption", {"web"})
    assert found.verdict == "after_jobs"
    assert ("team", "important") in found.after


def test_a_job_that_grows_needs_room_for_its_further_pods_only() -> None:
    pods = [pod(f"web-{place}", "a", 2, metadata={"labels": {"app": "web"}}) for place in range(2)]
    snapshot = FitSnapshot([roomy_node(node("a"))], [placed_pod(each) for each in pods])
    for number, expected in ((3, "now"), (4, "now"), (5, "never")):
        (fit,) = fit_jobs(snapshot.cluster({}), [snapshot.job_of([job("web", number, gpus=2)], grows=True)])
        assert (fit.verdict, len(fit.nodes)) == (expected, min(number, 4)), number
