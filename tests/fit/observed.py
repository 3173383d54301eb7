# SPDX-License-Identifier: BSD-2-Clause
"""What the scheduler of a cluster makes of random jobs on random nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_facts import placed_pod
from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.admission_policies import admission_objects
from integration.api import PATHS, Api

from .worlds import (
    CLASSES,
    DEVICE_CLASS,
    DRIVER,
    FREE,
    LABELS,
    LIMITED,
    MARK,
    OTHER,
    RACK,
    RUNTIME_CLASS,
    Job,
    Object,
    RandomWorld,
)

NOW, PREEMPTS, STUCK, QUOTA = "now", "preempts", "stuck", "quota"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
_MERGE = "application/merge-patch+json"
_SHORT = {"HorizontalPodAutoscaler": "hpa"}
_REFUSED = ("FailedCreate", "ReplicaSetCreateError")  # of a pod, and of the ReplicaSet that would make the pods
_TRIED = f"{MARK}=try"
VOLUMES = {"data-rack": "rack-1", "data-any": None, "data-none": ""}  # rack, everywhere, no volume
CSI = "csi.fit.test"
ATTACHED = ("csi-there", "csi-other")  # claims with a volume of the driver, one of which pods of worlds use
CLASSES_OF_STORAGE = {"late-local": None, "late-rack": ["rack-1"], "late-any": []}  # racks where volumes are made
_STORAGE, _VOLUMES = "/apis/storage.k8s.io/v1", "/api/v1/persistentvolumes"
_CLAIMS = f"/api/v1/namespaces/{FREE}/persistentvolumeclaims"


class Stage:
    """The nodes of a cluster that worlds are set up on, and namespaces for their pods."""

    def __init__(self, api: Api, nodes: list[str], *, real: bool) -> None:
        self.api = api
        self.nodes = nodes
        self.real = real  # whether there are volumes and devices, and controllers for them
        self.world: RandomWorld | None = None
        self.victims: set[tuple[str, str]] = set()  # the jobs of which the last one that was tried preempted pods
        self._made: list[str] = []  # paths of the objects of manifests
        # Those of the worlds of an earlier run are removed as well: a seed is the same world again.
        live = {node["metadata"]["name"]: set(node["metadata"].get("labels") or ()) for node in api.list("node")}
        self._labels = {name: live[name].intersection(LABELS) for name in nodes}
        for name, (value, policy) in CLASSES.items():
            body: Object = {"metadata": {"name": name}, "value": value}
            if policy:
                body["preemptionPolicy"] = policy
            self._post("/apis/scheduling.k8s.io/v1/priorityclasses", body)
        for name in (LIMITED, FREE, OTHER):
            labels = {"fit.test/team": "other"} if name == OTHER else {}
            self._post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
        self._post(
            "/apis/resource.k8s.io/v1/deviceclasses",
            {"metadata": {"name": DEVICE_CLASS}, "spec": {"selectors": [selector]}},
        )
        overhead, selector = {"podFixed": {"cpu": "250m", "memory": "1Gi"}}, {"fit.test/generation": "3"}
        runtime = {"handler": "fit", "overhead": overhead, "scheduling": {"nodeSelector": selector}}
        self._post("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": RUNTIME_CLASS}, **runtime})
        if real:
            self._make_volumes()

    def _post(self, path: str, body: Object) -> int:
        status, answer = self.api.call("POST", path, body)
        assert status in (200, 201, 403, 409, 422), answer
        return status

    def _make_volumes(self) -> None:
        for name, rack in VOLUMES.items():
            claim = {
                "metadata": {"name": name},
                "spec": {
                    "accessModes": ["ReadWriteMany"],
                    "storageClassName": "",
                    "resources": {"requests": {"storage": "1Gi"}},
                    "volumeName": f"fit-{name}",
                },
            }
            volume: Object = {
                "metadata": {"name": f"fit-{name}"},
                "spec": {
                    "accessModes": ["ReadWriteMany"],
                    "capacity": {"storage": "1Gi"},
                    "hostPath": {"path": "/data"},
                    "claimRef": {"namespace": FREE, "name": name},
                },
            }
            if rack:
                rule = {"key": "fit.test/rack", "operator": "In", "values": [rack]}
                term = {"matchExpressions": [rule]}
                volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
            if rack == "":
                del claim["spec"]["volumeName"]
            else:
                self._post("/api/v1/persistentvolumes", volume)
            self._post(f"/api/v1/namespaces/{FREE}/persistentvolumeclaims", claim)

        for name in ATTACHED:
            self._post(_VOLUMES, _volume(name, volume=name))
            self._post(_CLAIMS, _claim(name, "", volume=name))
        self._post(f"{_STORAGE}/csidrivers", {"metadata": {"name": CSI}, "spec": {"attachRequired": False}})
        for name, racks in CLASSES_OF_STORAGE.items():
            body: Object = {"metadata": {"name": name}, "volumeBindingMode": "WaitForFirstConsumer"}
            body["provisioner"] = "kubernetes.io/no-provisioner" if racks is None else CSI
            if racks:
                body["allowedTopologies"] = [{"matchLabelExpressions": [{"key": RACK, "values": racks}]}]
            self._post(f"{_STORAGE}/storageclasses", body)

    def _renew_late_volumes(self) -> None:
        """Claims that get a volume with the pod are without one again."""
        for name in CLASSES_OF_STORAGE:
            claim = self.api.call("GET", f"{_CLAIMS}/{name}")[1]
            annotations = (claim.get("metadata") or {}).get("annotations") or {}
            if "uid" in (claim.get("metadata") or {}) and not claim["spec"].get("volumeName") and not annotations:
                continue
            for path in (f"{_CLAIMS}/{name}", f"{_VOLUMES}/{name}"):
                self.api.call("DELETE", path)
                self._until(lambda path=path: self.api.call("GET", path)[0] == 404)
            if name == "late-local":
                self._post(_VOLUMES, _volume(name, storage_class=name, rack="rack-2"))
            self._post(_CLAIMS, _claim(name, name))

    def _provision(self) -> None:
        """What a CSI driver does for claims that the scheduler has chosen a node for."""
        for claim in self._items(_CLAIMS):
            name, annotations = claim["metadata"]["name"], claim["metadata"].get("annotations") or {}
            racks, is_chosen = CLASSES_OF_STORAGE.get(name), "volume.kubernetes.io/selected-node" in annotations
            if racks is not None and is_chosen and not claim["spec"].get("volumeName"):
                self._post(_VOLUMES, _volume(name, storage_class=name, rack=next(iter(racks), ""), claim=claim))

    # -- worlds --------------------------------------------------------------------------------------------------------

    def set_up(self, world: RandomWorld) -> None:
        self.clear()
        self.world = world
        for node in world.nodes:
            self._shape(node)
        for one in world.slices if self.real else ():
            self._post("/apis/resource.k8s.io/v1/resourceslices", one)
        if self.real:
            self._delete_all(f"{_STORAGE}/csinodes")
            for name, count in world.attached.items():
                driver = {"name": CSI, "nodeID": name, "topologyKeys": None, "allocatable": {"count": count}}
                self._post(f"{_STORAGE}/csinodes", {"metadata": {"name": name}, "spec": {"drivers": [driver]}})
            self._renew_late_volumes()
        for budget in world.budgets:
            self._post(f"/apis/policy/v1/namespaces/{OTHER}/poddisruptionbudgets", budget)
        self.restore()
        self._until(self._is_settled)
        time.sleep(0.5)  # The scheduler hears of nodes and of pods by watches of their own.
        self._begin_preemption(world)
        if world.policy:
            for obj in admission_objects(world.policy):
                assert self._post(f"{_ADMISSION}/{_PLURALS[obj['kind']]}", obj) == 201, obj
            self._until(lambda: self._is_guarded() is True)

    def _begin_preemption(self, world: RandomWorld) -> None:
        """Until its finalizer is removed, the victim keeps its place, and the room for the other one is only kept."""
        for pod in world.preempting or ():
            assert self._post(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod) == 201, pod
            if "nodeName" in pod["spec"]:
                time.sleep(1)
        if not world.preempting:
            return
        victim, waiting = (
            f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            for pod in world.preempting
        )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            # The scheduler nominates first and deletes afterwards (SchedulerAsyncPreemption): a job that is tried in
            # between would seem to have preempted the victim.
            is_nominated = (self.api.call("GET", waiting)[1].get("status") or {}).get("nominatedNodeName")
            if is_nominated and "deletionTimestamp" in self.api.call("GET", victim)[1].get("metadata", {}):
                return
            time.sleep(0.2)
        # It finds no room even without the victim. Left waiting, it would be served before the jobs that are tried.
        self.api.call("DELETE", waiting, {"gracePeriodSeconds": 0})

    def _is_guarded(self) -> bool:
        """Whether the policy of a world is in force, whichever of its rules it names: it never allows so many GPUs."""
        main = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "999"}}}
        body = {"metadata": {"name": "guarded", "namespace": LIMITED}, "spec": {"containers": [main]}}
        status, answer = self.api.call("POST", f"/api/v1/namespaces/{LIMITED}/pods?dryRun=All", body)
        return status != 201 and "gpuctl-fit-" in str(answer.get("message"))

    def _shape(self, node: Object) -> None:
        name = node["name"]
        labels = {**dict.fromkeys(self._labels[name]), **node["labels"]}
        self._labels[name] = set(node["labels"])
        body = {
            "metadata": {"labels": labels},
            "spec": {"taints": node["taints"], "unschedulable": node["unschedulable"]},
        }
        status, answer = self.api.call("PATCH", f"/api/v1/nodes/{name}", body, _MERGE)
        assert status == 200, answer
        known = answer["status"].get("allocatable") or {}
        amounts = {**dict.fromkeys(known), **node["amounts"]}
        body = {"status": {"capacity": amounts, "allocatable": amounts}}
        status, answer = self.api.call("PATCH", f"/api/v1/nodes/{name}/status", body, _MERGE)
        assert status == 200, answer

    def _is_settled(self) -> bool:
        assert self.world is not None
        live = {node["metadata"]["name"]: node for node in self._items("/api/v1/nodes")}
        for node in self.world.nodes:
            taints = live[node["name"]]["spec"].get("taints") or []
            cordoned = any(taint["key"] == "node.kubernetes.io/unschedulable" for taint in taints)
            if cordoned != node["unschedulable"] or len(taints) != len(node["taints"]) + cordoned:
                return False
        return self._is_quota_right() and self._are_budgets_right()

    def _is_quota_right(self) -> bool:
        for quota in self._items(f"/api/v1/namespaces/{LIMITED}/resourcequotas"):
            status = quota.get("status") or {}
            if status.get("hard") != quota["spec"]["hard"]:
                return False
            if (status.get("used") or {}).get("pods") != str(self._charged(quota)):
                return False
        return True

    def _charged(self, quota: Object) -> int:
        """The pods that the quota counts."""
        pods = self._items(f"/api/v1/namespaces/{LIMITED}/pods")
        if "scopeSelector" in quota["spec"]:
            pods = [pod for pod in pods if pod["spec"].get("priorityClassName") == "fit-high"]
        return len(pods)

    def _are_budgets_right(self) -> bool:
        budgets = self._items(f"/apis/policy/v1/namespaces/{OTHER}/poddisruptionbudgets")
        return all("observedGeneration" in (budget.get("status") or {}) for budget in budgets)

    def restore(self) -> None:
        """The pods of the world that are gone."""
        assert self.world is not None
        live = {pod["metadata"]["name"] for pod in self._running()}
        missing = [pod for pod in self.world.pods if pod["metadata"]["name"] not in live]
        own = [(f"/api/v1/namespaces/{LIMITED}/resourcequotas", self.world.quota)]
        own.append((f"/api/v1/namespaces/{LIMITED}/limitranges", self.world.limits))
        if any(pod["metadata"]["namespace"] == LIMITED for pod in missing):
            for path, _body in own:  # What is there may use more, or be larger.
                self._delete_all(path)
            self._until(lambda: not any(self._items(path) for path, _body in own))
        for pod in missing:
            status = self._post(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)
            assert status == 201, pod
        if self.real and any(pod["metadata"]["namespace"] == LIMITED for pod in missing):
            time.sleep(1)  # Of a new quota, the controller counts the pods that it has heard of, and then not for long.
        for path, body in own:
            if body and not self._items(path):
                self._post(path, body)

    def clear(self) -> None:
        self.clean()
        self.world = None
        for namespace in (OTHER, FREE, LIMITED):
            self._delete_all(f"/api/v1/namespaces/{namespace}/pods", f"{MARK}=run")
        self._delete_all(f"/api/v1/namespaces/{LIMITED}/resourcequotas")
        self._delete_all(f"/api/v1/namespaces/{LIMITED}/limitranges")
        self._delete_all(f"/apis/policy/v1/namespaces/{OTHER}/poddisruptionbudgets")
        if self.real:
            self._delete_all("/apis/resource.k8s.io/v1/resourceslices")
        for plural in reversed(_PLURALS.values()):
            self._delete_all(f"{_ADMISSION}/{plural}", "runwhere.ai/policy=fit")
        self._let_go()
        self._until(lambda: not self._running() and not self._is_guarded())

    def _let_go(self) -> None:
        """Remove the finalizers of pods that are held."""
        for pod in self._running():
            if pod["metadata"].get("finalizers"):
                path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
                self.api.call("PATCH", path, {"metadata": {"finalizers": None}}, _MERGE)

    def _delete_all(self, path: str, labels: str = "") -> None:
        status, answer = self.api.call("DELETE", f"{path}?labelSelector={labels}", {"gracePeriodSeconds": 0})
        assert status in (200, 202, 404), answer

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def try_job(self, job: Job) -> tuple[str, list[Object]]:
        """What becomes of a job: a word, and its pods."""
        before = self._undisturbed()
        self.victims = set()
        wanted = self._create(job)
        if wanted is None:
            return QUOTA, []
        self._until(lambda: len(self._judged(job)) == wanted, quick=True)
        word, pods = self._word(job, wanted, before)
        self.victims = {before[uid] for uid in before.keys() - self._undisturbed().keys()}
        return word if wanted == job.number else QUOTA, pods

    def _word(self, job: Job, wanted: int, before: dict[str, tuple[str, str]]) -> tuple[str, list[Object]]:
        """What becomes of the pods that the server lets in."""
        pods = self._judged(job)
        if before.keys() - self._undisturbed().keys() or any(
            (pod.get("status") or {}).get("nominatedNodeName") for pod in pods
        ):
            settled = self._after_preemption(job, wanted)
            return (PREEMPTS if settled else STUCK), self._judged(job)
        return (NOW if all(pod["spec"].get("nodeName") for pod in pods) else STUCK), pods

    def _create(self, job: Job) -> int | None:
        """How many of its pods the server lets in; None if it does not let in all of its objects."""
        if job.claim:
            path = f"/apis/resource.k8s.io/v1/namespaces/{job.namespace}/resourceclaimtemplates"
            self._post(path, job.claim)
        if job.selected is None:
            path = f"/api/v1/namespaces/{job.namespace}/pods"
            created = [self._post(path, job.pod(index)) for index in range(job.number)]
            return sum(status == 201 for status in created)
        if job.selected.priority_class:
            self._post(PATHS["priorityclass"], {**job.selected.priority_class})
        for obj in job.objects:
            path = PATHS[_SHORT.get(obj["kind"], obj["kind"].lower())].format(job.namespace)
            status = self._post(path, obj)
            assert status in (201, 403, 422), obj
            if status != 201:
                return None
            self._made.append(f"{path}/{obj['metadata']['name']}")
        self._until(lambda: len(self._pods_of(job)) >= job.number or self._is_refused(job))
        if len(self._pods_of(job)) < job.number:
            time.sleep(0.5)  # The controllers create what they can in steps, and stop at the first that is refused.
        return len(self._pods_of(job))

    def _is_refused(self, job: Job) -> bool:
        """Whether a controller could not create a pod of it, or what makes the pods; names of jobs are used once."""
        events = self._items(f"/api/v1/namespaces/{job.namespace}/events")
        return any(
            event["reason"] in _REFUSED and event["involvedObject"]["name"].startswith(job.name) for event in events
        )

    def _pods_of(self, job: Job) -> list[Object]:
        return self._items(f"/api/v1/namespaces/{job.namespace}/pods", f"app={job.name}")

    def _judged(self, job: Job) -> list[Object]:
        if self.real and any(one in str(job.template["spec"].get("volumes")) for one in CLASSES_OF_STORAGE):
            self._provision()
        return [pod for pod in self._pods_of(job) if pod["spec"].get("nodeName") or _condition(pod)]

    def _undisturbed(self) -> dict[str, tuple[str, str]]:
        """The pods of the world that nothing has preempted, nor the earlier jobs of the batch, with their jobs."""
        pods = (*self._running(), *self._tried())
        return {
            pod["metadata"]["uid"]: placed_pod(pod).job for pod in pods if "deletionTimestamp" not in pod["metadata"]
        }

    def end_jobs(self, names: Iterable[tuple[str, str]]) -> None:
        """End pods of the world by their jobs, which are as in the label ``app``."""
        for namespace, name in names:
            self._delete_all(f"/api/v1/namespaces/{namespace}/pods", f"{MARK}=run,app={name}")
        self._let_go()
        self._until(lambda: not any("deletionTimestamp" in pod["metadata"] for pod in self._running()))
        self._until(self._is_quota_right)

    def _after_preemption(self, job: Job, wanted: int) -> bool:
        """Whether all its pods get nodes once what was preempted is gone; the scheduler backs off between attempts.

        It gives up on a pod if it says so for long enough that what was preempted is gone. And now and then it does not
        try a pod again that has a node nominated, until something else in the cluster changes (seen with 1.36): another
        pod takes its place, which it tries at once.
        """
        began, renewed = time.monotonic(), False
        while (waited := time.monotonic() - began) < 60:
            pods = self._judged(job)
            waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
            if len(pods) == wanted and not waiting:
                return True
            if waited > 12 and waiting and all("preemption:" in _message(pod) for pod in waiting):
                return False
            if waited > 25 and not renewed:
                renewed = True
                self._renew(job, {pod["metadata"]["name"] for pod in waiting})
            time.sleep(0.2)
        return False

    def _renew(self, job: Job, names: set[str]) -> None:
        path = f"/api/v1/namespaces/{job.namespace}/pods"
        for name in names:
            self.api.call("DELETE", f"{path}/{name}")
        if job.selected is None:  # Otherwise a controller does.
            for pod in map(job.pod, range(job.number)):
                if pod["metadata"]["name"] in names:
                    self._until(lambda pod=pod: self._post(path, pod) == 201)

    def clean(self) -> None:
        """Remove the jobs that were tried, and put back what they have preempted."""
        for path in self._made:
            self.api.call("DELETE", path, {"propagationPolicy": "Background"})
        self._made.clear()
        for namespace in (LIMITED, FREE):
            self._delete_all(f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates", _TRIED)
        self._until(self._remove_tried)
        self._until(lambda: not self._items("/apis/resource.k8s.io/v1/resourceclaims"))
        if self.world:
            if self.real:
                self._renew_late_volumes()
            self._until(lambda: not any(_is_leaving(pod) for pod in self._running()))
            self.restore()
            self._until(self._is_quota_right)

    def _remove_tried(self) -> bool:
        """Controllers that still are there create pods again."""
        left = self._tried()
        for namespace in {pod["metadata"]["namespace"] for pod in left}:
            self._delete_all(f"/apis/apps/v1/namespaces/{namespace}/replicasets", _TRIED)
            self._delete_all(f"/api/v1/namespaces/{namespace}/pods", _TRIED)
        return not left

    def _tried(self) -> list[Object]:
        return self._items("/api/v1/pods", _TRIED)

    def _running(self) -> list[Object]:
        return self._items("/api/v1/pods", f"{MARK}=run")

    def _items(self, path: str, labels: str = "") -> list[Object]:
        status, answer = self.api.call("GET", f"{path}?labelSelector={labels}")
        return list(answer["items"]) if status == 200 else []

    def _until(self, condition: Callable[[], Any], seconds: float = 60, *, quick: bool = False) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
            time.sleep(0.02 if quick else 0.05)


def _claim(name: str, storage_class: str, *, volume: str = "") -> Object:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
        **({"volumeName": volume} if volume else {}),
    }
    return {"metadata": {"name": name}, "spec": spec}


def _volume(
    name: str, *, storage_class: str = "", rack: str = "", volume: str = "", claim: Object | None = None
) -> Object:
    """One of the CSI driver, for a claim of its name if it is a ``volume`` that is there from the start."""
    spec: Object = {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": storage_class,
        "csi": {"driver": CSI, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    if volume:
        spec["claimRef"] = {"namespace": FREE, "name": volume}
    if claim:
        spec["claimRef"] = {"namespace": FREE, "name": name, "uid": claim["metadata"]["uid"]}
    if rack:
        terms = [{"matchExpressions": [{"key": RACK, "operator": "In", "values": [rack]}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {"metadata": {"name": name}, "spec": spec}


def _is_leaving(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"] and not pod["metadata"].get("finalizers")


def _message(pod: Object) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one.get("message") or "" for one in conditions if one["type"] == "PodScheduled"), "")


def _condition(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one.get("reason") != "SchedulerError" for one in conditions)
