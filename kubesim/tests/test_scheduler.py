# SPDX-License-Identifier: BSD-2-Clause
"""Where pods go, and what is said when they go nowhere, beyond what the recordings pin."""

from __future__ import annotations

from typing import Any

import pytest

from simulation import Object, Simulation, pod_spec

GPU = "nvidia.com/gpu"
HELPLESS = (
    "no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
)
NO_VICTIMS = (
    "no new claims to deallocate, preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."
)


def required(*expressions: Object, field: str = "matchExpressions") -> Object:
    terms = [{field: list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def expression(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def near(kind: str, app: str, topology: str = "kubernetes.io/hostname") -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def scheduled(sim: Simulation, name: str = "p") -> Object:
    conditions = sim.get("Pod", name)["status"]["conditions"]
    return next(condition for condition in conditions if condition["type"] == "PodScheduled")


def label_nodes(sim: Simulation, **labels: str) -> None:
    for node, value in labels.items():
        key, _, text = value.partition("=")
        sim.change("Node", node.replace("_", "-"), lambda n, k=key, t=text: n["metadata"]["labels"].update({k: t}), "")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            pod_spec(requests={"cpu": "200"}),
            f"0/4 nodes are available: 4 Insufficient cpu. {HELPLESS}",
            id="more cpu than a node has",
        ),
        pytest.param(
            pod_spec(requests={"cpu": "200", "memory": "2Ti"}),
            f"0/4 nodes are available: 4 Insufficient cpu, 4 Insufficient memory. {HELPLESS}",
            id="each resource is named",
        ),
        pytest.param(
            pod_spec(requests={"example.com/npu": "1"}),
            f"0/4 nodes are available: 4 Insufficient example.com/npu. {HELPLESS}",
            id="a resource that no node has",
        ),
        pytest.param(
            pod_spec(requests={GPU: "8"}, nodeSelector={"kubernetes.io/hostname": "node-1"}),
            f"0/4 nodes are available: 1 Insufficient {GPU}, 3 node(s) didn't match Pod's node affinity/selector. "
            "no new claims to deallocate, preemption: 0/4 nodes are available: 1 No preemption victims found for "
            "incoming pod, 3 Preemption is not helpful for scheduling.",
            id="taken by pods of the same priority",
        ),
        pytest.param(
            pod_spec(requests={GPU: "8"}, affinity=required(expression("rack", "Exists"))),
            f"0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector. {HELPLESS}",
            id="affinity is asked before resources",
        ),
        pytest.param(
            pod_spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
            '0/4 nodes are available: persistentvolumeclaim "data" not found. not found',
            id="no such claim",
        ),
        pytest.param(
            pod_spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "unbound"}}]),
            "0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
            id="a claim that is not bound",
        ),
        pytest.param(
            pod_spec(affinity=required(expression("metadata.name", "In", "node-9"), field="matchFields")),
            f"0/4 nodes are available: 4 node(s) didn't satisfy plugin(s) [NodeAffinity]. {HELPLESS}",
            id="a node that is not there",
        ),
        pytest.param(
            pod_spec(affinity=near("podAffinity", "nobody")),
            f"0/4 nodes are available: 4 node(s) didn't match pod affinity rules. {HELPLESS}",
            id="no pod to be near to",
        ),
        pytest.param(
            pod_spec(
                topologySpreadConstraints=[
                    {
                        "maxSkew": 1,
                        "topologyKey": "zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "x"}},
                    }
                ]
            ),
            "0/4 nodes are available: 4 node(s) didn't match pod topology spread constraints (missing required label). "
            f"{HELPLESS}",
            id="nodes without the label of a spread constraint",
        ),
    ],
)
def test_the_message_says_why_no_node_fits(spec: Object, message: str) -> None:
    sim = Simulation()
    sim.create("Pod", "filler", pod_spec(requests={GPU: "1"}, nodeName="node-1"))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    sim.create("PersistentVolumeClaim", "unbound", claim)
    sim.create("Pod", "p", spec)
    condition = scheduled(sim)
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "Unschedulable", message)
    assert sim.events("p") == [("FailedScheduling", message)]


def test_a_full_cluster_offers_no_victims_of_the_same_priority() -> None:
    sim = Simulation()
    for number in range(4):
        sim.create("Pod", f"filler-{number}", pod_spec(requests={GPU: "8"}))
    sim.create("Pod", "p", pod_spec(requests={GPU: "1"}))
    assert scheduled(sim)["message"] == f"0/4 nodes are available: 4 Insufficient nvidia.com/gpu. {NO_VICTIMS}"


def test_a_cluster_without_nodes() -> None:
    sim = Simulation(nodes=0)
    sim.create("Pod", "p", pod_spec())
    assert scheduled(sim)["message"] == "no nodes available to schedule pods"


def test_a_pod_that_may_not_preempt_says_so() -> None:
    sim = Simulation(nodes=1)
    body = {"value": 5, "preemptionPolicy": "Never"}
    sim.create("PriorityClass", "meek", namespace="", **body)
    sim.create("Pod", "filler", pod_spec(requests={GPU: "8"}))
    sim.create("Pod", "p", pod_spec(requests={GPU: "1"}, priorityClassName="meek"))
    assert scheduled(sim)["message"] == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
        "preemption: not eligible due to preemptionPolicy=Never."
    )


@pytest.mark.parametrize(
    ("asked", "node"),
    [
        ({"nodeSelector": {"rank": "30"}}, "node-3"),
        ({"affinity": required(expression("rank", "Gt", "30"))}, "node-4"),
        ({"affinity": required(expression("rank", "Lt", "20"))}, "node-1"),
        ({"affinity": required(expression("rank", "NotIn", "10", "20", "40"))}, "node-3"),
        ({"affinity": required(expression("special", "Exists"))}, "node-2"),
        ({"affinity": required(expression("rank", "In", "40"), expression("special", "DoesNotExist"))}, "node-4"),
        ({"affinity": required(expression("metadata.name", "In", "node-2"), field="matchFields")}, "node-2"),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "preference": {"matchExpressions": [expression("rank", "In", "10")]}},
                            {"weight": 5, "preference": {"matchExpressions": [expression("rank", "In", "40")]}},
                        ]
                    }
                }
            },
            "node-4",
        ),
    ],
)
def test_labels_decide_where_a_pod_goes(asked: Object, node: str) -> None:
    sim = Simulation()
    label_nodes(sim, node_1="rank=10", node_2="rank=20", node_3="rank=30", node_4="rank=40")
    label_nodes(sim, node_2="special=yes")
    sim.create("Pod", "p", pod_spec(**asked))
    assert sim.get("Pod", "p")["spec"]["nodeName"] == node


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (None, False),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "a100"}, True),
        ({"key": "gpu", "value": "h100"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
    ],
)
def test_taints_and_tolerations(toleration: Object | None, tolerated: bool) -> None:
    sim = Simulation(nodes=1)
    taints = [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}]
    sim.change("Node", "node-1", lambda node: node.setdefault("spec", {}).update(taints=taints), "")
    sim.create("Pod", "p", pod_spec(**({"tolerations": [toleration]} if toleration else {})))
    assert ("nodeName" in sim.get("Pod", "p")["spec"]) is tolerated


def test_pods_of_one_kind_spread_over_nodes_and_refuse_to_share() -> None:
    sim = Simulation()
    apart = pod_spec(affinity=near("podAntiAffinity", "x"))
    for number in range(5):
        sim.create("Pod", f"x-{number}", apart, metadata={"labels": {"app": "x"}})
    assert len({pod["spec"].get("nodeName") for pod in sim.pods(app="x")} - {None}) == 4
    assert scheduled(sim, "x-4")["message"] == (
        f"0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules. {NO_VICTIMS}"
    )
    sim.create("Pod", "other", pod_spec(), metadata={"labels": {"app": "x"}})
    assert scheduled(sim, "other")["message"] == (
        f"0/4 nodes are available: 4 node(s) didn't satisfy existing pods anti-affinity rules. {NO_VICTIMS}"
    )


def test_topology_spread_keeps_zones_even() -> None:
    sim = Simulation()
    label_nodes(sim, node_1="zone=a", node_2="zone=a", node_3="zone=a", node_4="zone=b")
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    for number in range(4):
        spec = pod_spec(topologySpreadConstraints=[constraint])
        sim.create("Pod", f"x-{number}", spec, metadata={"labels": {"app": "x"}})
    assert sum(pod["spec"].get("nodeName") == "node-4" for pod in sim.pods(app="x")) == 2


def test_a_pod_with_scheduling_gates_waits() -> None:
    sim = Simulation()
    sim.create("Pod", "p", pod_spec(schedulingGates=[{"name": "example.com/wait"}]))
    assert scheduled(sim)["reason"] == "SchedulingGated"
    sim.change("Pod", "p", lambda pod: pod["spec"].pop("schedulingGates"))
    assert sim.get("Pod", "p")["spec"]["nodeName"]


def test_the_more_important_pod_goes_first() -> None:
    sim = Simulation(nodes=1)
    sim.create("PriorityClass", "high", namespace="", value=1000)
    sim.create("Pod", "filler", pod_spec(requests={GPU: "8"}))
    sim.create("Pod", "low", pod_spec(requests={GPU: "8"}))
    sim.change("Pod", "filler", lambda pod: pod["metadata"].setdefault("labels", {}).update(a="b"))
    sim.registry.create(
        "Pod",
        {
            "metadata": {"name": "high", "namespace": "default"},
            "spec": pod_spec(requests={GPU: "8"}, priorityClassName="high", preemptionPolicy="PreemptLowerPriority"),
        },
    )
    sim.settle()
    sim.advance(1)
    assert sim.get("Pod", "high")["spec"].get("nodeName") == "node-1"
    assert "nodeName" not in sim.get("Pod", "low")["spec"]


def test_preemption_takes_the_least_important_pods_and_names_why() -> None:
    sim = Simulation(nodes=2)
    for name, value in (("mid", 10), ("high", 1000)):
        sim.create("PriorityClass", name, namespace="", value=value)
    sim.create("Pod", "a", pod_spec(requests={GPU: "8"}, priorityClassName="mid"))
    sim.create("Pod", "b-0", pod_spec(requests={GPU: "4"}))
    sim.create("Pod", "b-1", pod_spec(requests={GPU: "4"}))
    sim.advance(1)
    node = sim.get("Pod", "b-0")["spec"]["nodeName"]
    sim.create("Pod", "p", pod_spec(requests={GPU: "4"}, priorityClassName="high"))
    assert sim.get("Pod", "p")["status"]["nominatedNodeName"] == node
    assert scheduled(sim)["message"] == "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    gone = [pod for pod in sim.pods() if "deletionTimestamp" in pod["metadata"]]
    assert len(gone) == 1
    assert gone[0]["metadata"]["name"].startswith("b-")
    disruption = next(c for c in gone[0]["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert disruption["reason"] == "PreemptionByScheduler"
    sim.advance(1)
    assert sim.get("Pod", "p")["spec"]["nodeName"] == node
    uid = sim.get("Pod", "p")["metadata"]["uid"]
    assert ("Preempted", f"Preempted by pod {uid} on node {node}") in sim.events(gone[0]["metadata"]["name"])


def test_a_pod_whose_devices_no_node_has_preempts_nobody() -> None:
    """Seen with kube-scheduler 1.36: pods that are taken off a node leave their devices allocated."""
    sim = Simulation(nodes=1)
    sim.create("PriorityClass", "high", namespace="", value=1000)
    device = {"name": "device", "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount"}}
    device["exactly"]["count"] = 1
    spec = {"devices": {"requests": [device]}}
    sim.create("DeviceClass", "gpu.example.com", {}, namespace="")
    sim.create("ResourceClaim", "none", spec)
    sim.create("Pod", "low", pod_spec(requests={GPU: "8"}))
    sim.advance(1)
    claiming = {"resourceClaims": [{"name": "device", "resourceClaimName": "none"}], "priorityClassName": "high"}
    sim.create("Pod", "p", pod_spec(requests={GPU: "8"}, **claiming))
    sim.advance(1)
    assert "nominatedNodeName" not in sim.get("Pod", "p")["status"]
    assert "deletionTimestamp" not in sim.get("Pod", "low")["metadata"]


def test_room_kept_for_one_pod_is_not_given_to_another() -> None:
    sim = Simulation(nodes=1)
    sim.create("PriorityClass", "high", namespace="", value=1000)
    sim.create("Pod", "victim", pod_spec(requests={GPU: "8"}))
    sim.advance(1)
    sim.create("Pod", "first", pod_spec(requests={GPU: "8"}, priorityClassName="high"))
    sim.create("Pod", "second", pod_spec(requests={GPU: "8"}, priorityClassName="high"))
    sim.advance(1)
    assert sim.get("Pod", "first")["spec"]["nodeName"] == "node-1"
    assert "nodeName" not in sim.get("Pod", "second")["spec"]


def free_by_deleting(sim: Simulation) -> None:
    sim.registry.delete("Pod", "default", "filler", grace_seconds=0)


def free_by_finishing(sim: Simulation) -> None:
    sim.kubelet.behave(name="filler", run_seconds=0)
    sim.advance(1)


def free_by_adding_a_node(sim: Simulation) -> None:
    from kubesim.nodes import fake_node

    sim.registry.create("Node", fake_node("node-2", sim.clock.now()))


def free_by_more_gpus(sim: Simulation) -> None:
    sim.change(
        "Node", "node-1", lambda node: node["status"]["allocatable"].update({GPU: "16"}), "", subresource="status"
    )


@pytest.mark.parametrize("free", [free_by_deleting, free_by_finishing, free_by_adding_a_node, free_by_more_gpus])
def test_a_parked_pod_is_tried_again_when_something_changes(free: Any) -> None:
    sim = Simulation(nodes=1)
    sim.create("Pod", "filler", pod_spec(requests={GPU: "8"}, restartPolicy="Never"))
    sim.advance(1)
    sim.create("Pod", "p", pod_spec(requests={GPU: "8"}))
    assert scheduled(sim)["status"] == "False"
    free(sim)
    sim.settle()
    assert scheduled(sim)["status"] == "True"


def test_host_ports_are_taken_once() -> None:
    sim = Simulation(nodes=1)
    spec = pod_spec()
    spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    sim.create("Pod", "one", spec)
    sim.create("Pod", "p", spec)
    assert scheduled(sim)["message"].startswith(
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    )


def test_many_pods_that_fit_nowhere_cost_little() -> None:
    sim = Simulation(nodes=200)
    for number in range(300):
        body = {"metadata": {"name": f"p-{number}", "namespace": "default"}, "spec": pod_spec(requests={GPU: "9"})}
        sim.registry.create("Pod", body)
    scheduler = sim.controllers["kube-scheduler"]
    explained: list[str] = []
    explain = scheduler._explain
    scheduler._explain = lambda key, *rest: explained.append(key) or explain(key, *rest)
    sim.settle()
    assert len(explained) == 1


def test_affinity_selects_namespaces_by_their_labels() -> None:
    sim = Simulation(nodes=1)
    for name, team in (("mine", "a"), ("theirs", "b")):
        sim.create("Namespace", name, namespace="", metadata={"labels": {"team": team}})
    sim.create("Pod", "x", pod_spec(), namespace="theirs", metadata={"labels": {"app": "x"}})
    for team, is_placed in (("a", True), ("b", False)):
        affinity = near("podAntiAffinity", "x")
        (term,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        term["namespaceSelector"] = {"matchLabels": {"team": team}}
        sim.create("Pod", f"p-{team}", pod_spec(affinity=affinity))
        assert ("nodeName" in sim.get("Pod", f"p-{team}")["spec"]) == is_placed


def test_a_spread_counts_nodes_with_taints_unless_it_honors_them() -> None:
    sim = Simulation(nodes=2)
    label_nodes(sim, node_1="zone=a", node_2="zone=b")
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    sim.change("Node", "node-2", lambda node: node.setdefault("spec", {}).update(taints=[taint]), "")
    for policy, placed in (("Ignore", 1), ("Honor", 2)):
        constraint = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "nodeTaintsPolicy": policy,
            "labelSelector": {"matchLabels": {"app": policy.lower()}},
        }
        for number in range(2):
            spec = pod_spec(topologySpreadConstraints=[constraint])
            name = f"{policy.lower()}-{number}"
            sim.create("Pod", name, spec, metadata={"labels": {"app": policy.lower()}})
        assert sum("nodeName" in pod["spec"] for pod in sim.pods(app=policy.lower())) == placed


def test_preemption_spares_what_a_budget_protects() -> None:
    sim = Simulation(nodes=2)
    for name, value in (("mid", 10), ("high", 1000)):
        sim.create("PriorityClass", name, namespace="", value=value)
    sim.create("Pod", "cheap", pod_spec(requests={GPU: "8"}), metadata={"labels": {"app": "x"}})
    sim.create("Pod", "dear", pod_spec(requests={GPU: "8"}, priorityClassName="mid"))
    sim.create("PodDisruptionBudget", "x", {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "x"}}})
    sim.advance(1)
    sim.create("Pod", "p", pod_spec(requests={GPU: "8"}, priorityClassName="high"))
    gone = [pod["metadata"]["name"] for pod in sim.pods() if "deletionTimestamp" in pod["metadata"]]
    assert gone == ["dear"]


def test_sidecars_take_host_ports() -> None:
    sim = Simulation(nodes=1)
    port = [{"containerPort": 80, "hostPort": 8080}]
    sidecar = {"name": "sidecar", "image": "x", "restartPolicy": "Always", "ports": port}
    sim.create("Pod", "one", pod_spec(initContainers=[sidecar]))
    sim.create("Pod", "p", pod_spec(initContainers=[sidecar]))
    assert "nodeName" not in sim.get("Pod", "p")["spec"]
