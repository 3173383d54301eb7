# SPDX-License-Identifier: BSD-2-Clause
"""Garbage, namespaces, quotas, endpoints, budgets, node taints, the autoscaler and events, beyond the recordings."""

from __future__ import annotations

from typing import Any

import pytest

from kubesim.controllers.events import EventRecorder
from simulation import Object, Simulation, pod_spec


def owner(obj: Object, **more: Any) -> Object:
    metadata = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        **more,
    }


def config_map(sim: Simulation, name: str, *owners: Object, **metadata: Any) -> Object:
    return sim.create("ConfigMap", name, metadata={"ownerReferences": list(owners), **metadata})


def exists(sim: Simulation, name: str, kind: str = "ConfigMap") -> bool:
    return sim.registry.get(kind, "default", name) is not None


# -- garbage -----------------------------------------------------------------------------------------------------------


def test_an_object_stays_while_one_of_its_owners_does() -> None:
    sim = Simulation()
    one, two = config_map(sim, "one"), config_map(sim, "two")
    config_map(sim, "child", owner(one), owner(two))
    sim.registry.delete("ConfigMap", "default", "one")
    sim.settle()
    assert [reference["name"] for reference in sim.get("ConfigMap", "child")["metadata"]["ownerReferences"]] == ["two"]
    sim.registry.delete("ConfigMap", "default", "two")
    sim.settle()
    assert not exists(sim, "child")


@pytest.mark.parametrize(
    ("reference", "collected"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "1"}, True),
        ({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "1"}, False),
        ({"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "not its uid"}, True),
    ],
)
def test_absent_owners(reference: Object, collected: bool) -> None:
    sim = Simulation()
    config_map(sim, "child", reference)
    assert exists(sim, "child") is not collected


def test_an_owner_in_another_namespace_is_no_owner() -> None:
    sim = Simulation()
    sim.create("Namespace", "other", namespace="")
    parent = sim.create("ConfigMap", "parent", namespace="other")
    config_map(sim, "child", owner(parent))
    assert not exists(sim, "child")


@pytest.mark.parametrize(("blocks", "waits"), [(True, True), (False, False)])
def test_only_blocking_dependents_hold_up_a_foreground_deletion(blocks: bool, waits: bool) -> None:
    sim = Simulation()
    parent = config_map(sim, "parent")
    config_map(sim, "child", owner(parent, blockOwnerDeletion=blocks), finalizers=["example.com/slow"])
    sim.registry.delete("ConfigMap", "default", "parent", propagation="Foreground")
    sim.settle()
    assert exists(sim, "parent") is waits
    sim.change("ConfigMap", "child", lambda one: one["metadata"].pop("finalizers"))
    assert not exists(sim, "parent")
    assert not exists(sim, "child")


def test_foreground_deletion_goes_down_a_tree() -> None:
    sim = Simulation()
    top = config_map(sim, "top")
    middle = config_map(sim, "middle", owner(top, blockOwnerDeletion=True))
    config_map(sim, "leaf", owner(middle, blockOwnerDeletion=True), finalizers=["example.com/slow"])
    sim.registry.delete("ConfigMap", "default", "top", propagation="Foreground")
    sim.settle()
    assert [exists(sim, name) for name in ("top", "middle", "leaf")] == [True, True, True]
    sim.change("ConfigMap", "leaf", lambda one: one["metadata"].pop("finalizers"))
    assert [exists(sim, name) for name in ("top", "middle", "leaf")] == [False, False, False]


def test_a_late_collector_leaves_a_service_terminating_long_after_its_owner() -> None:
    sim = Simulation()
    sim.controllers["garbage-collector-controller"].collect_seconds = 10
    parent = config_map(sim, "parent")
    spec = {"clusterIP": "None", "selector": {"app": "x"}, "ports": [{"port": 80}]}
    sim.create("Service", "s", spec, metadata={"ownerReferences": [owner(parent)]})
    config_map(sim, "child", owner(parent, blockOwnerDeletion=True), finalizers=["example.com/slow"])
    sim.registry.delete("ConfigMap", "default", "parent", propagation="Foreground")
    sim.advance(11)
    sim.change("ConfigMap", "child", lambda one: one["metadata"].pop("finalizers"))
    assert not exists(sim, "parent"), "the Service does not block it"
    assert sim.get("Service", "s")["metadata"]["finalizers"] == ["foregroundDeletion"], "it waits for its EndpointSlice"
    sim.advance(10)
    assert not exists(sim, "s", "Service")


# -- namespaces and quotas ---------------------------------------------------------------------------------------------


def test_a_namespace_waits_for_pods_that_take_their_time() -> None:
    sim = Simulation()
    sim.create("Namespace", "busy", namespace="")
    sim.kubelet.behave(namespace="busy", stop_seconds=10)
    sim.create("Pod", "p", pod_spec(), namespace="busy")
    sim.create("Job", "j", {"template": {"spec": pod_spec(restartPolicy="Never")}}, namespace="busy")
    sim.advance(1)
    sim.registry.delete("Namespace", None, "busy")
    sim.advance(1)
    status = sim.get("Namespace", "busy", "")["status"]
    conditions = {one["type"]: (one["status"], one["message"]) for one in status["conditions"]}
    assert conditions["NamespaceContentRemaining"] == (
        "True",
        "Some resources are remaining: pods. has 2 resource instances",
    )
    sim.advance(15)
    assert sim.registry.get("Namespace", None, "busy") is None
    assert not [pod for pod in sim.registry.list("Pod") if pod["metadata"]["namespace"] == "busy"]


def test_default_objects_come_back_when_they_are_deleted() -> None:
    sim = Simulation()
    sim.registry.delete("ServiceAccount", "default", "default")
    sim.registry.delete("ConfigMap", "default", "kube-root-ca.crt")
    sim.settle()
    assert exists(sim, "default", "ServiceAccount")
    assert exists(sim, "kube-root-ca.crt")


def test_a_quota_gives_back_what_ended_pods_used() -> None:
    sim = Simulation()
    sim.create("ResourceQuota", "q", {"hard": {"requests.nvidia.com/gpu": "8", "pods": "3", "count/jobs.batch": "2"}})
    annotations = {"lab/run-seconds": "5"}
    spec = pod_spec(requests={"nvidia.com/gpu": "4"}, restartPolicy="Never")
    sim.create("Pod", "p", spec, metadata={"annotations": annotations})
    assert sim.get("ResourceQuota", "q")["status"]["used"] == {
        "requests.nvidia.com/gpu": "4",
        "pods": "1",
        "count/jobs.batch": "0",
    }
    sim.advance(6)
    assert sim.get("ResourceQuota", "q")["status"]["used"]["requests.nvidia.com/gpu"] == "0"


# -- endpoints ---------------------------------------------------------------------------------------------------------


def addresses(sim: Simulation, name: str = "web") -> tuple[list[str], list[str]]:
    """The names of the pods among the ready and among the other addresses."""
    ready: list[str] = []
    unready: list[str] = []
    for subset in sim.get("Endpoints", name).get("subsets") or ():
        ready += [one["targetRef"]["name"] for one in subset.get("addresses") or ()]
        unready += [one["targetRef"]["name"] for one in subset.get("notReadyAddresses") or ()]
    return sorted(ready), sorted(unready)


@pytest.mark.parametrize(("publish", "ready"), [(False, ["a"]), (True, ["a", "b"])])
def test_unready_pods_are_published_only_on_demand(publish: bool, ready: list[str]) -> None:
    sim = Simulation()
    spec = {
        "selector": {"app": "web"},
        "ports": [{"port": 80}],
        "publishNotReadyAddresses": publish,
        "clusterIP": "None",
    }
    sim.create("Service", "web", spec)
    sim.kubelet.behave(name="b", ready=False)
    for name in ("a", "b"):
        sim.create("Pod", name, pod_spec(), metadata={"labels": {"app": "web"}})
    sim.create("Pod", "stranger", pod_spec(), metadata={"labels": {"app": "other"}})
    sim.advance(1)
    assert addresses(sim)[0] == ready
    [piece] = sim.registry.list("EndpointSlice", "default")
    assert sum(one["conditions"]["ready"] for one in piece["endpoints"]) == len(ready)
    sim.change("Pod", "a", lambda pod: pod["metadata"].update(labels={}))
    assert "a" not in addresses(sim)[0]


def test_pods_of_an_indexed_job_have_names_in_the_headless_service() -> None:
    sim = Simulation()
    selector = {"job-name": "dist"}
    ports = [{"name": "rdzv", "port": 29500}]
    sim.create("Service", "svc-dist", {"selector": selector, "ports": ports, "clusterIP": "None"})
    template = {"spec": pod_spec(restartPolicy="Never", subdomain="svc-dist")}
    sim.create("Job", "dist", {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": template})
    sim.advance(1)
    [subset] = sim.get("Endpoints", "svc-dist")["subsets"]
    assert sorted(one["hostname"] for one in subset["addresses"]) == ["dist-0", "dist-1"]
    assert subset["ports"] == [{"name": "rdzv", "port": 29500, "protocol": "TCP"}]


def test_named_target_ports_are_those_of_each_pod() -> None:
    sim = Simulation()
    sim.create("Service", "web", {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]})
    for name, number in (("a", 8080), ("b", 9090)):
        spec = pod_spec()
        spec["containers"][0]["ports"] = [{"name": "http", "containerPort": number}]
        sim.create("Pod", name, spec, metadata={"labels": {"app": "web"}})
    sim.advance(1)
    subsets = sim.get("Endpoints", "web")["subsets"]
    assert sorted(port["port"] for subset in subsets for port in subset["ports"]) == [8080, 9090]
    sim.registry.delete("Service", "default", "web")
    sim.settle()
    assert not exists(sim, "web", "Endpoints")
    assert sim.registry.list("EndpointSlice", "default") == []


# -- disruption budgets and nodes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"minAvailable": 2}, 1),
        ({"minAvailable": "100%"}, 0),
        ({"maxUnavailable": 2}, 2),
        ({"maxUnavailable": "34%"}, 2),
    ],
)
def test_disruption_budgets(spec: Object, allowed: int) -> None:
    sim = Simulation()
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec()}
    sim.create("Deployment", "web", {"replicas": 3, "selector": {"matchLabels": labels}, "template": template})
    sim.create("PodDisruptionBudget", "b", {"selector": {"matchLabels": labels}, **spec})
    sim.advance(2)
    status = sim.get("PodDisruptionBudget", "b")["status"]
    assert (status["currentHealthy"], status["expectedPods"], status["disruptionsAllowed"]) == (3, 3, allowed)


def set_ready(sim: Simulation, status: str) -> None:
    def write(node: Object) -> None:
        next(one for one in node["status"]["conditions"] if one["type"] == "Ready")["status"] = status

    sim.change("Node", "node-1", write, "", subresource="status")


def taints(sim: Simulation) -> list[tuple[str, str]]:
    return [(one["key"], one["effect"]) for one in sim.get("Node", "node-1", "")["spec"].get("taints", ())]


def test_pods_of_a_deleted_node_are_collected_and_replaced() -> None:
    sim = Simulation(nodes=2)
    template = {"spec": pod_spec(restartPolicy="Never", nodeSelector={"kubernetes.io/hostname": "node-1"})}
    sim.create("Job", "j", {"template": template})
    sim.advance(1)
    sim.registry.delete("Node", None, "node-1")
    sim.advance(39)
    assert len(sim.pods()) == 1
    sim.advance(15)
    assert sim.get("Job", "j")["status"]["failed"] == 1
    assert ["nodeName" in pod["spec"] for pod in sim.pods()] == [False]


HERE = {"kubernetes.io/hostname": "node-1"}


def conditions(pod: Object) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one.get("reason", "")) for one in pod["status"]["conditions"]}


def test_the_pods_of_a_silent_node_are_not_ready_and_can_neither_start_nor_end() -> None:
    sim = Simulation(nodes=1)
    sim.create("Pod", "old", pod_spec(nodeSelector=HERE))
    sim.advance(1)
    set_ready(sim, "Unknown")
    sim.create("Pod", "new", pod_spec(nodeName="node-1", tolerations=[{"operator": "Exists"}]))
    sim.registry.delete("Pod", "default", "old")
    sim.advance(60)
    old, new = sim.get("Pod", "old"), sim.get("Pod", "new")
    assert (old["status"]["phase"], conditions(old)["Ready"][0]) == ("Running", "False")
    assert old["status"]["containerStatuses"][0]["ready"]
    assert ("NodeNotReady", "Node is not ready") in sim.events("old")
    assert "containerStatuses" not in new["status"]
    set_ready(sim, "True")
    sim.advance(1)
    assert sim.registry.get("Pod", "default", "old") is None
    assert conditions(sim.get("Pod", "new"))["Ready"][0] == "True"


def test_a_lost_node_is_evicted_after_five_minutes_but_its_pods_stay_until_it_is_back() -> None:
    sim = Simulation(nodes=2)
    template = {"metadata": {"labels": {"app": "j"}}, "spec": pod_spec(restartPolicy="Never", nodeSelector=HERE)}
    sim.create("Job", "j", {"template": template, "podReplacementPolicy": "Failed"})
    sim.advance(1)
    set_ready(sim, "Unknown")
    sim.advance(299)
    [pod] = sim.pods(app="j")
    assert "deletionTimestamp" not in pod["metadata"]
    sim.advance(400)
    [pod] = sim.pods(app="j")
    assert "deletionTimestamp" in pod["metadata"]
    assert conditions(pod)["DisruptionTarget"] == ("True", "DeletionByTaintManager")
    status = sim.get("Job", "j")["status"]
    assert (status.get("active", 0), status["terminating"]) == (0, 1)
    set_ready(sim, "True")
    sim.advance(15)
    [replacement] = sim.pods(app="j")
    assert replacement["metadata"]["uid"] != pod["metadata"]["uid"]


def test_pods_that_tolerate_a_taint_for_a_while_go_then_and_others_at_once() -> None:
    sim = Simulation(nodes=1)
    taint = {"key": "broken", "effect": "NoExecute"}
    sim.create("Pod", "intolerant", pod_spec())
    sim.create("Pod", "patient", pod_spec(tolerations=[{"key": "broken", "operator": "Exists"}]))
    for_a_while = {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    sim.create("Pod", "hesitant", pod_spec(tolerations=[for_a_while]))
    sim.advance(1)
    sim.change("Node", "node-1", lambda node: node.setdefault("spec", {}).update(taints=[taint]), "")
    sim.advance(1)
    assert {pod["metadata"]["name"] for pod in sim.pods()} == {"patient", "hesitant"}
    sim.advance(31)
    assert {pod["metadata"]["name"] for pod in sim.pods()} == {"patient"}


def test_taints_of_others_stay() -> None:
    sim = Simulation(nodes=1)
    foreign = [{"key": "example.com/gpu", "effect": "NoSchedule"}]
    sim.change(
        "Node", "node-1", lambda node: node.setdefault("spec", {}).update(taints=foreign, unschedulable=True), ""
    )
    assert taints(sim) == [("example.com/gpu", "NoSchedule"), ("node.kubernetes.io/unschedulable", "NoSchedule")]
    sim.change("Node", "node-1", lambda node: node["spec"].pop("unschedulable"), "")
    assert taints(sim) == [("example.com/gpu", "NoSchedule")]


# -- the autoscaler ----------------------------------------------------------------------------------------------------


def autoscaled(replicas: int = 2, **spec: Any) -> Simulation:
    sim = Simulation()
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec()}
    sim.create("Deployment", "web", {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    sim.create("HorizontalPodAutoscaler", "web", {"scaleTargetRef": target, "maxReplicas": 6, **spec})
    sim.advance(2)
    return sim


def scaled_to(sim: Simulation) -> int:
    return int(sim.get("Deployment", "web")["spec"]["replicas"])


def active(sim: Simulation) -> tuple[str, str]:
    conditions = sim.get("HorizontalPodAutoscaler", "web")["status"]["conditions"]
    return next((one["status"], one["reason"]) for one in conditions if one["type"] == "ScalingActive")


def test_without_metrics_nothing_moves_and_the_status_says_why() -> None:
    sim = autoscaled()
    assert scaled_to(sim) == 2
    assert active(sim) == ("False", "FailedGetResourceMetric")


def test_bounds_hold_without_metrics() -> None:
    assert scaled_to(autoscaled(9)) == 6
    assert scaled_to(autoscaled(1, minReplicas=3)) == 3


def test_with_metrics_all_of_them_are_at_their_targets() -> None:
    sim = autoscaled()
    sim.controllers["horizontal-pod-autoscaler"].has_metrics = True
    sim.advance(60)
    assert scaled_to(sim) == 2
    assert active(sim) == ("True", "ValidMetricFound")
    [autoscaler] = sim.registry.list("HorizontalPodAutoscaler", "default")
    assert [one["resource"]["current"] for one in autoscaler["status"]["currentMetrics"]] == [
        {"averageUtilization": one["resource"]["target"]["averageUtilization"]} for one in autoscaler["spec"]["metrics"]
    ]


def test_a_workload_scaled_to_nothing_is_left_alone() -> None:
    sim = autoscaled(0)
    assert scaled_to(sim) == 0
    assert active(sim) == ("False", "ScalingDisabled")


# -- events ------------------------------------------------------------------------------------------------------------


def test_equal_events_are_counted_and_many_alike_are_combined() -> None:
    sim = Simulation()
    about = config_map(sim, "subject")
    recorder = EventRecorder(sim.registry, "tester")
    for _ in range(3):
        recorder.event(about, "Warning", "Trouble", "the same")
    [event] = [one for one in sim.registry.list("Event", "default") if one["involvedObject"]["name"] == "subject"]
    assert (event["count"], event["source"], event["reportingComponent"]) == (3, {"component": "tester"}, "tester")
    for number in range(15):
        recorder.event(about, "Warning", "Failed", f"error {number}")
    messages = [message for reason, message in sim.events("subject") if reason == "Failed"]
    assert len(messages) == 10
    assert messages[-1] == "(combined from similar events): error 14"


# -- roles -------------------------------------------------------------------------------------------------------------
