# SPDX-License-Identifier: BSD-2-Clause
"""The scheduler: a queue by priority, one decision per pod, and "0/4 nodes are available: …" when there is none.

Source: pkg/scheduler/schedule_one.go, framework/types.go (FitError), plugins/volumebinding, plugins/dynamicresources
(whose "no new claims to deallocate" is in every message of 1.36, whether claims are used or not).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from itertools import count
from typing import Any, ClassVar

from kubesim.clock import rfc3339
from kubesim.errors import ApiError

from .base import Controller, Key, Object, find_condition, key_of, set_condition
from .device_allocator import SchedulerError
from .events import SeriesRecorder
from .pods import is_terminal
from .scheduler_devices import DevicePlan, DeviceScheduling, Unschedulable
from .scheduler_filters import PodRules, Refusal, pod_rules, preference, refuse_for_good, refuse_for_now
from .scheduler_nodes import Amounts, NodeInfo, Snapshot, host_ports, requests
from .scheduler_preemption import NO_VICTIMS, NOT_HELPFUL, best_candidate, priority

SCHEDULER = "default-scheduler"
#: Pods placed in one go, before requests are answered again.
BATCH = 50
#: Nodes that fit and are compared before one is chosen; a real scheduler looks at a share of them, too.
COMPARED = 10


class Scheduler(Controller):
    name = "kube-scheduler"
    #: What pods name in ``spec.schedulerName``.
    scheduler_name: ClassVar[str] = SCHEDULER
    watches: ClassVar[tuple[str, ...]] = (
        "Node",
        "Pod",
        "Namespace",
        "PersistentVolumeClaim",
        "DeviceClass",
        "ResourceClaim",
        "ResourceSlice",
    )

    def __init__(self, registry: Any, ignored: Collection[str] = ()) -> None:
        """`ignored`: resources that an extender counts itself ("ignoredByScheduler" of its managedResources)."""
        super().__init__(registry)
        self.ignored = frozenset(ignored)
        self.snapshot = Snapshot()
        self.recorder = SeriesRecorder(registry, self.scheduler_name, f"{self.scheduler_name}-kubesim")
        self.devices = DeviceScheduling(registry, self.name)
        self._queue: dict[Key, tuple[int, int]] = {}  # pods to place, with what orders them
        self._parked: dict[Key, None] = {}  # pods that fitted nowhere, until something changes
        self._arrivals = count()
        self._turn = 0
        self._suitable: dict[str, list[NodeInfo]] = {}  # nodes by what is asked of a node; until nodes change
        self._full: dict[str, str] = {}  # what was said of pods like this one; until something is freed

    def _requests(self, pod: Object) -> Amounts:
        return {resource: amount for resource, amount in requests(pod).items() if resource not in self.ignored}

    # -- what changes ----------------------------------------------------------------------------------------------

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "Node":
            self._node_changed(event, obj, old)
        elif kind == "Namespace":
            self.snapshot.namespaces[obj["metadata"]["name"]] = obj["metadata"].get("labels") or {}
        elif kind != "Pod":
            self._try_again()
        elif event == "DELETED" or is_terminal(obj):
            self._forget(key_of(obj))
        elif obj["spec"].get("nodeName"):
            self._placed(obj)
        else:
            self._waiting(obj, old)

    def _node_changed(self, event: str, node: Object, old: Object | None) -> None:
        name = node["metadata"]["name"]
        if event == "DELETED":
            self.snapshot.drop_node(name)
        else:
            self.snapshot.put_node(node)
            same = old is not None and _relevant(node) == _relevant(old)
            if same:
                return
        self._suitable.clear()
        self._try_again()

    def _forget(self, key: Key) -> None:
        self._queue.pop(key, None)
        self._parked.pop(key, None)
        self.snapshot.withdraw(key)
        if key in self.snapshot.placed:
            self.snapshot.drop_pod(key)
            self._try_again()

    def _placed(self, pod: Object) -> None:
        key = key_of(pod)
        self._queue.pop(key, None)
        self._parked.pop(key, None)
        news = key not in self.snapshot.placed
        self.snapshot.withdraw(key)
        self.snapshot.put_pod(pod)
        if news and any(self._parked_is_social(key) for key in self._parked):
            self._try_again()

    def _parked_is_social(self, key: Key) -> bool:
        pod = self.registry.get("Pod", *key)
        return pod is not None and bool((pod["spec"].get("affinity") or {}).get("podAffinity"))

    def _waiting(self, pod: Object, old: Object | None) -> None:
        if pod["spec"].get("schedulerName", SCHEDULER) != self.scheduler_name or "deletionTimestamp" in pod["metadata"]:
            return
        key = key_of(pod)
        self.snapshot.nominate(key, pod)
        unchanged = old is not None and all(
            pod[part] == old[part] if part == "spec" else pod[part].get("labels") == old[part].get("labels")
            for part in ("spec", "metadata")
        )
        if (unchanged and key in self._parked) or pod["spec"].get("schedulingGates"):
            return
        self._parked.pop(key, None)
        if key not in self._queue:
            self._queue[key] = (-priority(pod), next(self._arrivals))
            self.enqueue("cycle")

    def _try_again(self) -> None:
        self._full.clear()
        if not self._parked:
            return
        for key in self._parked:
            pod = self.registry.get("Pod", *key)
            if pod is not None:
                self._queue.setdefault(key, (-priority(pod), next(self._arrivals)))
        self._parked.clear()
        self.enqueue("cycle")

    # -- one pod ---------------------------------------------------------------------------------------------------

    def reconcile(self, key: str) -> None:
        """A batch of pods, the most important first."""
        batch = sorted(self._queue, key=self._queue.__getitem__)[:BATCH]
        for pod_key in batch:
            if self._queue.pop(pod_key, None) is None:
                continue
            pod = self.registry.get("Pod", *pod_key)
            if pod is not None and not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                self._schedule(pod_key, pod)
        if self._queue:
            self.enqueue("cycle")

    def _schedule(self, key: Key, pod: Object) -> None:
        if not self.devices.is_ready(pod):
            self._parked[key] = None
            return
        social = PodRules(pod) if _is_plain(pod) and not self.snapshot.picky else pod_rules(pod, self.snapshot)
        same = _likeness(pod) if social.empty and not pod["spec"].get("resourceClaims") else ""
        known = self._full.get(same)
        if known is not None:
            self._park(key, pod, known)
            return
        problem = self._claim_problem(pod)
        if problem:
            self._park(key, pod, f"0/{len(self.snapshot.nodes)} nodes are available: {problem}. not found")
            return
        try:
            devices = self.devices.plan(pod)
            node = self._choose(pod, social, devices)
            if node is not None:
                self._bind(key, pod, node, devices)
                return
            self._parked[key] = None  # before anything is written of it, which would bring it back
            message, lasting = self._explain(key, pod, social, devices)
        except Unschedulable as error:
            self._park(key, pod, self._no_node(str(error)))
            return
        except SchedulerError as error:
            self._park(key, pod, str(error), "SchedulerError")
            return
        self._park(key, pod, message)
        if same and lasting:
            self._full[same] = message

    def _choose(self, pod: Object, social: PodRules, devices: DevicePlan) -> NodeInfo | None:
        """The best of the first nodes that fit, going round the nodes from one pod to the next."""
        wanted, ports = self._requests(pod), host_ports(pod)
        nodes = self._suitable_nodes(pod)
        nominated = (pod.get("status") or {}).get("nominatedNodeName")
        fitting: list[NodeInfo] = []
        for step in range(len(nodes)):
            node = nodes[(self._turn + step) % len(nodes)]
            reserved = self.snapshot.nominees(node.name, pod)
            refusal = refuse_for_now(wanted, ports, node, reserved=reserved, delegated=devices.delegated)
            if (refusal or social.refuse(node) or devices.refuse(node)) is None:
                fitting.append(node)
                if len(fitting) >= COMPARED:
                    break
        if nodes:
            self._turn = (self._turn + 1) % len(nodes)
        best = [node for node in fitting if node.name == nominated] or fitting
        return min(best, key=lambda node: (-preference(pod, node), node.load()), default=None)

    def _suitable_nodes(self, pod: Object) -> list[NodeInfo]:
        spec = pod["spec"]
        affinity = (spec.get("affinity") or {}).get("nodeAffinity")
        asked = json.dumps([spec.get("nodeSelector"), affinity, spec.get("tolerations")], sort_keys=True)
        nodes = self._suitable.get(asked)
        if nodes is None:
            nodes = [node for node in self.snapshot.nodes.values() if refuse_for_good(pod, node) is None]
            self._suitable[asked] = nodes
        return nodes

    def _claim_problem(self, pod: Object) -> str:
        """Claims have to be there and bound; "not found" follows in the message, said by a plugin that was not run."""
        for volume in pod["spec"].get("volumes") or ():
            source = volume.get("persistentVolumeClaim")
            if source is None:
                continue
            claim = self.registry.get("PersistentVolumeClaim", pod["metadata"]["namespace"], source["claimName"])
            if claim is None:
                return f'persistentvolumeclaim "{source["claimName"]}" not found'
            if "deletionTimestamp" in claim["metadata"]:
                return f'persistentvolumeclaim "{source["claimName"]}" is being deleted'
            if claim.get("status", {}).get("phase") != "Bound":
                return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def _bind(self, key: Key, pod: Object, node: NodeInfo, devices: DevicePlan) -> None:
        now = rfc3339(self.clock.now())

        def bind(copied: Object) -> None:
            copied["spec"]["nodeName"] = node.name
            status = copied.setdefault("status", {})
            status.pop("nominatedNodeName", None)
            scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
            generation = copied["metadata"].get("generation")
            if generation:
                scheduled["observedGeneration"] = generation
            set_condition(status.setdefault("conditions", []), scheduled)

        try:
            self.devices.bind(devices, node.name)
            self.registry.modify("Pod", *key, bind, subresource="binding", manager=self.name)
        except ApiError as error:
            self._park(key, pod, error.message)
            raise
        text = f"Successfully assigned {key[0]}/{key[1]} to {node.name}"
        self.recorder.event(pod, "Normal", "Scheduled", "Binding", text)

    # -- no node ---------------------------------------------------------------------------------------------------

    def _no_node(self, problem: str) -> str:
        """What is wrong with a pod before any node is looked at; preemption would not help."""
        nodes = len(self.snapshot.nodes)
        unhelpful = fit_error(nodes, [NOT_HELPFUL] * nodes)
        return f"0/{nodes} nodes are available: {problem}. no new claims to deallocate, preemption: {unhelpful}"

    def _explain(self, key: Key, pod: Object, social: PodRules, devices: DevicePlan) -> tuple[str, bool]:
        """Why no node takes the pod, after trying to make room; and whether that holds for pods like it, too."""
        if not self.snapshot.nodes:
            return "no nodes available to schedule pods", True
        wanted, ports = self._requests(pod), host_ports(pod)
        refusals: dict[str, Refusal] = {}
        for name, node in self.snapshot.nodes.items():
            reserved = self.snapshot.nominees(name, pod)
            refusal = refuse_for_good(pod, node) or refuse_for_now(
                wanted, ports, node, reserved=reserved, delegated=devices.delegated
            )
            refusals[name] = refusal or social.refuse(node) or devices.refuse(node) or Refusal((), final=False)
        reasons = [reason for refusal in refusals.values() for reason in refusal.reasons]
        message = fit_error(len(refusals), reasons)
        making_room, lasting = self._preempt(key, pod, refusals, devices)
        if making_room:
            claims = "no new claims to deallocate" if devices.empty else "still not schedulable"
            message = f"{message} {claims}, preemption: {making_room}"
        return message, lasting

    def _preempt(self, key: Key, pod: Object, refusals: dict[str, Refusal], devices: DevicePlan) -> tuple[str, bool]:
        """Make room for the pod if that is possible: "" then, else why not; and whether that is so for its like."""
        if pod["spec"].get("preemptionPolicy") == "Never":
            return "not eligible due to preemptionPolicy=Never.", True
        nominated = (pod.get("status") or {}).get("nominatedNodeName")
        if nominated in self.snapshot.nodes and any(
            "deletionTimestamp" in other["metadata"] and priority(other) < priority(pod)
            for other in self.snapshot.nodes[nominated].pods.values()
        ):
            return "not eligible due to a terminating pod on the nominated node.", False
        hopeful = [self.snapshot.nodes[name] for name, refusal in refusals.items() if not refusal.final]
        if not devices.empty:  # Taking pods off a node frees none of their devices (no PreFilterExtensions).
            hopeful = [node for node in hopeful if devices.refuse(node) is None]
        best = best_candidate(pod, hopeful, self.snapshot, self.registry.list("PodDisruptionBudget"))
        if best is None:
            reasons = [NOT_HELPFUL if refusal.final else NO_VICTIMS for refusal in refusals.values()]
            return fit_error(len(refusals), reasons), True

        def nominate(copied: Object) -> None:
            copied.setdefault("status", {})["nominatedNodeName"] = best.node.name

        self.registry.modify("Pod", *key, nominate, subresource="status", manager=self.name)
        for victim in best.victims:
            self._evict(victim, pod, best.node.name)
        return "", False

    def _evict(self, victim: Object, pod: Object, node_name: str) -> None:
        message = f"{SCHEDULER}: preempting to accommodate a higher priority pod"
        disruption = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self.clock.now()),
            "reason": "PreemptionByScheduler",
            "message": message,
        }

        def mark(copied: Object) -> None:
            set_condition(copied.setdefault("status", {}).setdefault("conditions", []), disruption)

        self.registry.modify("Pod", *key_of(victim), mark, subresource="status", manager=self.name)
        self.registry.delete("Pod", *key_of(victim))
        text = f"Preempted by pod {pod['metadata']['uid']} on node {node_name}"
        self.recorder.event(victim, "Normal", "Preempted", "Preempting", text)

    def _park(self, key: Key, pod: Object, message: str, reason: str = "Unschedulable") -> None:
        """Leave the pod until something changes; condition and event are written when there is something new to say."""
        self._parked[key] = None
        known = find_condition(pod, "PodScheduled")
        if known is not None and known["status"] == "False" and known.get("message") == message:
            return
        condition: Object = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self.clock.now()),
            "reason": reason,
            "message": message,
        }
        generation = pod["metadata"].get("generation")
        if generation:
            condition["observedGeneration"] = generation

        def write(copied: Object) -> None:
            set_condition(copied.setdefault("status", {}).setdefault("conditions", []), condition)

        self.registry.modify("Pod", *key, write, subresource="status", manager=self.name)
        self.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", message)


def fit_error(nodes: int, reasons: list[str]) -> str:
    """FitError.Error: how many nodes said what, sorted as text."""
    said = sorted(f"{times} {reason}" for reason, times in Counter(reasons).items())
    return f"0/{nodes} nodes are available: {', '.join(said)}."


def _is_plain(pod: Object) -> bool:
    affinity = pod["spec"].get("affinity") or {}
    social = affinity.get("podAffinity") or affinity.get("podAntiAffinity")
    return not (social or pod["spec"].get("topologySpreadConstraints"))


def _likeness(pod: Object) -> str:
    """What decides about a pod: pods of the same likeness fit, or do not, for the same reasons."""
    spec = pod["spec"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    parts = [spec.get("nodeSelector"), affinity, spec.get("tolerations"), requests(pod), host_ports(pod), priority(pod)]
    return json.dumps([*parts, spec.get("volumes") if _claims(pod) else None], sort_keys=True)


def _claims(pod: Object) -> bool:
    return any("persistentVolumeClaim" in volume for volume in pod["spec"].get("volumes") or ())


def _relevant(node: Object) -> tuple[Any, ...]:
    status, spec = node.get("status", {}), node.get("spec", {})
    return node["metadata"].get("labels"), spec.get("taints"), spec.get("unschedulable"), status.get("allocatable")
