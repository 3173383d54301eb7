# SPDX-License-Identifier: BSD-2-Clause
"""Deployments and StatefulSets on the way from one template to the next, beyond what the recordings pin."""

from __future__ import annotations

from typing import Any

import pytest

from kubesim.controllers.volumes import IS_DEFAULT, PROVISIONER
from simulation import Object, Simulation, pod_spec


def workload(replicas: int, image: str = "web:1", **spec: Any) -> Object:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    return {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}


def new_image(image: str) -> Any:
    return lambda obj: obj["spec"]["template"]["spec"]["containers"][0].update(image=image)


def images(sim: Simulation) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in sim.pods(app="web"))


def condition(sim: Simulation, kind: str, name: str = "web") -> tuple[str, str, str]:
    for one in sim.get("Deployment", name)["status"]["conditions"]:
        if one["type"] == kind:
            return one["status"], one["reason"], one["message"]
    raise AssertionError(f"no condition {kind}")


def names(sim: Simulation) -> list[str]:
    return [pod["metadata"]["name"] for pod in sim.pods(app="web")]


def sizes(sim: Simulation) -> dict[str, int]:
    """Image -> replicas of its ReplicaSet."""
    return {
        one["spec"]["template"]["spec"]["containers"][0]["image"]: one["spec"]["replicas"]
        for one in sim.registry.list("ReplicaSet", "default")
    }


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "stuck_at"),
    [
        (4, "25%", "25%", {"web:1": 3, "web:2": 2}),
        (4, 1, 0, {"web:1": 4, "web:2": 1}),
        (4, 0, 2, {"web:1": 2, "web:2": 2}),
        (10, "30%", "20%", {"web:1": 8, "web:2": 5}),
        (3, "0%", "10%", {"web:1": 2, "web:2": 1}),  # both round to nothing: one may be missing
    ],
)
def test_a_rolling_update_stops_where_its_budget_ends(
    replicas: int, surge: Any, unavailable: Any, stuck_at: dict[str, int]
) -> None:
    sim = Simulation()
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    sim.create("Deployment", "web", workload(replicas, strategy={"type": "RollingUpdate", "rollingUpdate": rolling}))
    sim.advance(2)
    sim.kubelet.behave(image="web:2", ready=False)
    sim.change("Deployment", "web", new_image("web:2"))
    sim.advance(5)
    assert sizes(sim) == stuck_at
    sim.kubelet.forget()
    sim.advance(5)
    assert sizes(sim) == {"web:1": 0, "web:2": replicas}
    assert images(sim) == ["web:2"] * replicas


def test_the_events_and_annotations_of_a_rollout() -> None:
    sim = Simulation()
    sim.create("Deployment", "web", workload(2), metadata={"annotations": {"note": "x"}})
    sim.advance(2)
    sim.change("Deployment", "web", new_image("web:2"))
    sim.advance(5)
    first, second = sorted(
        sim.registry.list("ReplicaSet", "default"),
        key=lambda one: one["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
    )
    one, two = first["metadata"]["name"], second["metadata"]["name"]
    assert [message for reason, message in sim.events("web") if reason == "ScalingReplicaSet"] == [
        f"Scaled up replica set {one} from 0 to 2",
        f"Scaled up replica set {two} from 0 to 1",
        f"Scaled down replica set {one} from 2 to 1",
        f"Scaled up replica set {two} from 1 to 2",
        f"Scaled down replica set {one} from 1 to 0",
    ]
    assert second["metadata"]["annotations"]["note"] == "x"
    sim.change("Deployment", "web", new_image("web:1"))
    sim.advance(5)
    back = sim.get("ReplicaSet", one)["metadata"]["annotations"]
    assert back["deployment.kubernetes.io/revision"] == "3"
    assert back["deployment.kubernetes.io/revision-history"] == "1"
    assert sim.get("Deployment", "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


def test_recreate_waits_until_the_old_pods_are_gone() -> None:
    sim = Simulation()
    sim.create("Deployment", "web", workload(2, strategy={"type": "Recreate"}))
    sim.advance(2)
    sim.kubelet.behave(image="web:1", stop_seconds=10)
    sim.change("Deployment", "web", new_image("web:2"))
    sim.advance(9)
    assert images(sim) == ["web:1", "web:1"]
    sim.advance(3)
    assert images(sim) == ["web:2", "web:2"]


def test_progress_deadline() -> None:
    sim = Simulation()
    sim.kubelet.behave(image="web:*", pull_error="true")
    sim.create("Deployment", "web", workload(1, progressDeadlineSeconds=30))
    sim.advance(20)
    assert condition(sim, "Progressing")[1] == "ReplicaSetUpdated"
    assert condition(sim, "Available")[:2] == ("False", "MinimumReplicasUnavailable")
    sim.advance(20)
    [replica_set] = sim.registry.list("ReplicaSet", "default")
    message = f'ReplicaSet "{replica_set["metadata"]["name"]}" has timed out progressing.'
    assert condition(sim, "Progressing") == ("False", "ProgressDeadlineExceeded", message)
    sim.kubelet.forget()
    sim.advance(60)
    assert condition(sim, "Progressing")[:2] == ("True", "NewReplicaSetAvailable")


def test_a_quota_refusal_reaches_the_deployment() -> None:
    sim = Simulation()
    sim.create("ResourceQuota", "q", {"hard": {"pods": "1"}})
    sim.create("Deployment", "web", workload(3))
    sim.advance(1)
    status, reason, message = condition(sim, "ReplicaFailure")
    assert (status, reason) == ("True", "FailedCreate")
    assert message.endswith("is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1")
    assert sim.get("Deployment", "web")["status"]["unavailableReplicas"] == 2
    sim.change("ResourceQuota", "q", lambda quota: quota["spec"]["hard"].update(pods="5"))
    sim.advance(60)
    with pytest.raises(AssertionError):
        condition(sim, "ReplicaFailure")
    assert sim.get("Deployment", "web")["status"]["availableReplicas"] == 3


def test_old_replica_sets_are_kept_up_to_the_limit() -> None:
    sim = Simulation()
    sim.create("Deployment", "web", workload(1, revisionHistoryLimit=2))
    sim.advance(2)
    for number in range(2, 7):
        sim.change("Deployment", "web", new_image(f"web:{number}"))
        sim.advance(3)
    assert sorted(sizes(sim)) == ["web:4", "web:5", "web:6"]


def test_scaling_during_a_rollout_keeps_the_proportions() -> None:
    sim = Simulation()
    rolling = {"maxSurge": 3, "maxUnavailable": 2}
    sim.create("Deployment", "web", workload(10, strategy={"type": "RollingUpdate", "rollingUpdate": rolling}))
    sim.advance(2)
    sim.kubelet.behave(image="web:2", ready=False)
    sim.change("Deployment", "web", new_image("web:2"))
    sim.advance(2)
    assert sizes(sim) == {"web:1": 8, "web:2": 5}
    sim.change("Deployment", "web", lambda one: one["spec"].update(replicas=15))
    sim.advance(2)
    assert sizes(sim) == {"web:1": 11, "web:2": 7}  # the example of the documentation of deployments


def test_min_ready_seconds_delay_availability() -> None:
    sim = Simulation()
    sim.create("Deployment", "web", workload(1, minReadySeconds=10))
    sim.advance(5)
    status = sim.get("Deployment", "web")["status"]
    assert (status["readyReplicas"], status.get("availableReplicas", 0)) == (1, 0)
    sim.advance(6)
    assert sim.get("Deployment", "web")["status"]["availableReplicas"] == 1


def test_pods_that_lose_their_labels_are_replaced() -> None:
    sim = Simulation()
    sim.create("Deployment", "web", workload(1))
    sim.advance(1)
    [name] = names(sim)
    sim.change("Pod", name, lambda one: one["metadata"].update(labels={}))
    sim.advance(1)
    assert "ownerReferences" not in sim.get("Pod", name)["metadata"]
    assert len(sim.pods(app="web")) == 1


def test_orphaned_pods_are_adopted_by_the_next_replica_set() -> None:
    sim = Simulation()
    sim.create("Deployment", "web", workload(2))
    sim.advance(1)
    before = names(sim)
    [replica_set] = sim.registry.list("ReplicaSet", "default")
    sim.registry.delete("ReplicaSet", "default", replica_set["metadata"]["name"], propagation="Orphan")
    sim.advance(1)
    [successor] = sim.registry.list("ReplicaSet", "default")
    assert successor["metadata"]["uid"] != replica_set["metadata"]["uid"]
    assert names(sim) == before
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in sim.pods(app="web")}
    assert owners == {successor["metadata"]["uid"]}


# -- StatefulSets ------------------------------------------------------------------------------------------------------


def test_ordered_pods_wait_for_each_other() -> None:
    sim = Simulation()
    sim.kubelet.behave(image="web:*", start_seconds=2)
    sim.create("StatefulSet", "web", workload(3, serviceName="web"))
    seen = []
    for _ in range(3):
        sim.advance(1)
        seen.append(names(sim))
        sim.advance(1)
    assert seen == [["web-0"], ["web-0", "web-1"], ["web-0", "web-1", "web-2"]]
    sim.kubelet.behave(image="web:*", stop_seconds=2)
    sim.change("StatefulSet", "web", lambda one: one["spec"].update(replicas=1))
    sim.advance(1)
    leaving = [pod["metadata"]["name"] for pod in sim.pods() if "deletionTimestamp" in pod["metadata"]]
    assert leaving == ["web-2"]
    sim.advance(4)
    assert names(sim) == ["web-0"]


def test_parallel_pods_do_not_wait() -> None:
    sim = Simulation()
    sim.create("StatefulSet", "web", workload(3, serviceName="web", podManagementPolicy="Parallel"))
    assert names(sim) == ["web-0", "web-1", "web-2"]


@pytest.mark.parametrize(
    ("strategy", "updated"),
    [
        ({"type": "RollingUpdate"}, ["web:2", "web:2", "web:2"]),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}, ["web:1", "web:1", "web:2"]),
        ({"type": "OnDelete"}, ["web:1", "web:1", "web:1"]),
    ],
)
def test_update_strategies(strategy: Object, updated: list[str]) -> None:
    sim = Simulation()
    sim.create("StatefulSet", "web", workload(3, serviceName="web", updateStrategy=strategy))
    sim.advance(3)
    sim.change("StatefulSet", "web", new_image("web:2"))
    sim.advance(10)
    assert [pod["spec"]["containers"][0]["image"] for pod in sim.pods(app="web")] == updated
    status = sim.get("StatefulSet", "web")["status"]
    assert status.get("updatedReplicas", 0) == updated.count("web:2")
    assert (status["currentRevision"] == status["updateRevision"]) is (updated == ["web:2"] * 3)


def test_on_delete_a_deleted_pod_comes_back_at_the_new_revision() -> None:
    sim = Simulation()
    sim.create("StatefulSet", "web", workload(2, serviceName="web", updateStrategy={"type": "OnDelete"}))
    sim.advance(3)
    sim.change("StatefulSet", "web", new_image("web:2"))
    sim.registry.delete("Pod", "default", "web-0")
    sim.advance(3)
    assert images(sim) == ["web:1", "web:2"]


def test_a_partition_keeps_lower_pods_at_the_old_revision_even_when_recreated() -> None:
    sim = Simulation()
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    sim.create("StatefulSet", "web", workload(2, serviceName="web", updateStrategy=strategy))
    sim.advance(3)
    sim.change("StatefulSet", "web", new_image("web:2"))
    sim.advance(5)
    sim.registry.delete("Pod", "default", "web-0")
    sim.advance(3)
    assert sim.get("Pod", "web-0")["spec"]["containers"][0]["image"] == "web:1"


def test_ordinals_can_start_elsewhere_and_the_partition_counts_from_there() -> None:
    sim = Simulation()
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    sim.create("StatefulSet", "web", workload(2, serviceName="web", ordinals={"start": 5}, updateStrategy=strategy))
    sim.advance(3)
    sim.change("StatefulSet", "web", new_image("web:2"))
    sim.advance(5)
    images_by_name = {one["metadata"]["name"]: one["spec"]["containers"][0]["image"] for one in sim.pods(app="web")}
    assert images_by_name == {"web-5": "web:1", "web-6": "web:2"}


def test_a_pod_lost_during_a_rolling_update_comes_back_new() -> None:
    sim = Simulation()
    sim.create("StatefulSet", "web", workload(3, serviceName="web"))
    sim.advance(3)
    sim.kubelet.behave(image="web:2", ready=False)
    sim.change("StatefulSet", "web", new_image("web:2"))
    sim.advance(3)
    assert images(sim) == ["web:1", "web:1", "web:2"]
    sim.registry.delete("Pod", "default", "web-0")
    sim.advance(3)
    assert sim.get("Pod", "web-0")["spec"]["containers"][0]["image"] == "web:2"


def test_rolling_back_reuses_the_old_revision() -> None:
    sim = Simulation()
    sim.create("StatefulSet", "web", workload(1, serviceName="web"))
    sim.advance(2)
    first = sim.get("StatefulSet", "web")["status"]["currentRevision"]
    for image in ("web:2", "web:1"):
        sim.change("StatefulSet", "web", new_image(image))
        sim.advance(4)
    assert sim.get("StatefulSet", "web")["status"]["currentRevision"] == first
    assert sorted(one["revision"] for one in sim.registry.list("ControllerRevision", "default")) == [2, 3]


def test_failed_pods_are_recreated_under_their_name() -> None:
    sim = Simulation()
    sim.create("StatefulSet", "web", workload(1, serviceName="web"))
    sim.advance(2)
    uid = sim.get("Pod", "web-0")["metadata"]["uid"]
    rule = sim.kubelet.behave(name="web-0", run_seconds=0, exit_code=1)
    sim.settle()
    sim.kubelet.forget(rule)
    sim.advance(2)
    pod = sim.get("Pod", "web-0")
    assert (pod["status"]["phase"], pod["metadata"]["uid"] != uid) == ("Running", True)
    message = "StatefulSet default/web is recreating failed Pod web-0"
    assert ("RecreatingFailedPod", message) in sim.events("web")


def bind(sim: Simulation, claim: str) -> None:
    """What a provisioner does; the simulator has none."""
    sim.change("PersistentVolumeClaim", claim, lambda one: one.update(status={"phase": "Bound"}), subresource="status")


@pytest.mark.parametrize(("policy", "left"), [("Retain", ["data-web-0", "data-web-1"]), ("Delete", ["data-web-0"])])
def test_claims_outlive_their_pods_unless_the_policy_deletes_them(policy: str, left: list[str]) -> None:
    sim = Simulation()
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    retention = {"whenDeleted": "Retain", "whenScaled": policy}
    spec = workload(2, serviceName="web", volumeClaimTemplates=[claim], persistentVolumeClaimRetentionPolicy=retention)
    sim.create("StatefulSet", "web", spec)
    for number in range(2):
        bind(sim, f"data-web-{number}")
        sim.advance(5)
    assert names(sim) == ["web-0", "web-1"]
    sim.change("StatefulSet", "web", lambda one: one["spec"].update(replicas=1))
    sim.advance(5)
    assert [one["metadata"]["name"] for one in sim.registry.list("PersistentVolumeClaim", "default")] == left


def test_a_pod_that_waits_for_its_claim_says_so() -> None:
    sim = Simulation()
    sim.create("Pod", "p", pod_spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    sim.create("PersistentVolumeClaim", "data", claim)
    [condition] = sim.get("Pod", "p")["status"]["conditions"]
    assert "unbound immediate PersistentVolumeClaims" in condition["message"]
    bind(sim, "data")
    sim.advance(1)
    assert sim.get("Pod", "p")["status"]["phase"] == "Running"
    sim.registry.delete("PersistentVolumeClaim", "default", "data")
    sim.settle()
    assert "deletionTimestamp" in sim.get("PersistentVolumeClaim", "data")["metadata"]
    sim.registry.delete("Pod", "default", "p", grace_seconds=0)
    sim.settle()
    assert sim.registry.list("PersistentVolumeClaim", "default") == []


@pytest.mark.parametrize("named", [False, True], ids=["the default class", "a class by name"])
def test_a_class_of_the_simulator_binds_claims(named: bool) -> None:
    sim = Simulation()
    chosen = {"storageClassName": "standard"} if named else {}
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, **chosen}
    sim.create("PersistentVolumeClaim", "data", claim)
    sim.settle()
    assert sim.get("PersistentVolumeClaim", "data").get("status", {}).get("phase") != "Bound"
    annotations = {} if named else {IS_DEFAULT: "true"}
    standard = {"metadata": {"name": "standard", "annotations": annotations}, "provisioner": PROVISIONER}
    sim.registry.create("StorageClass", standard)
    sim.settle()
    bound = sim.get("PersistentVolumeClaim", "data")
    assert bound["status"] == {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}}
    assert bound["spec"]["storageClassName"] == "standard"
