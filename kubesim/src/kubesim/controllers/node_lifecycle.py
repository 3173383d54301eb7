# SPDX-License-Identifier: BSD-2-Clause
"""Taints from what is true of nodes, eviction of pods that do not tolerate a NoExecute taint, pods of lost nodes.

Source: pkg/controller/nodelifecycle/node_lifecycle_controller.go (doNoScheduleTaintingPass),
pkg/controller/tainteviction, pkg/controller/podgc.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kubesim.clock import parse_time, rfc3339
from kubesim.errors import ApiError

from .base import Controller, Object, find_condition, key_of, set_condition
from .events import EventRecorder
from .pods import is_terminal
from .scheduler_filters import UNSCHEDULABLE_TAINT, tolerated

#: Condition and status -> key of the taint.
CONDITION_TAINTS = {
    ("Ready", "False"): "node.kubernetes.io/not-ready",
    ("Ready", "Unknown"): "node.kubernetes.io/unreachable",
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
EXECUTING = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
#: Seconds after which the pods of a deleted node are deleted (podgc quarantineTime).
LOST_AFTER = 40.0
OURS = {*CONDITION_TAINTS.values(), UNSCHEDULABLE_TAINT}


class NodeLifecycleController(Controller):
    name = "node-controller"
    watches = ("Node", "Pod")

    def __init__(self, registry: Any) -> None:
        super().__init__(registry)
        self.recorder = EventRecorder(registry, "taint-eviction-controller")
        self._tainted: set[str] = set()

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "Node":
            name = obj["metadata"]["name"]
            if event == "DELETED":
                self.enqueue(("lost", "", name), LOST_AFTER)
            else:
                self.enqueue(("node", "", name))
        elif event != "DELETED" and obj["spec"].get("nodeName") in self._tainted:
            self.enqueue(("pod", *key_of(obj)))

    def reconcile(self, key: tuple[str, str, str]) -> None:
        what, namespace, name = key
        if what == "pod":
            self._judge_pod(namespace, name)
            return
        node = self.registry.get("Node", None, name)
        if node is None:
            if what == "lost":
                self._collect_pods(name)
            return
        node = self._taint(node)
        executing = bool(_executing(node))
        if executing or name in self._tainted:
            self._tainted = self._tainted | {name} if executing else self._tainted - {name}
            for pod in self.registry.list("Pod"):
                if pod["spec"].get("nodeName") == name:
                    self.enqueue(("pod", *key_of(pod)))

    def _taint(self, node: Object) -> Object:
        wanted = wanted_taints(node)
        present = node["spec"].get("taints") or []
        kept = [one for one in present if one["key"] not in OURS or (one["key"], one["effect"]) in wanted]
        known = {(one["key"], one["effect"]) for one in kept}
        now = rfc3339(self.clock.now())
        new = kept + [{"key": k, "effect": e, "timeAdded": now} for k, e in wanted if (k, e) not in known]
        if new == present:
            return node

        def write(copied: Object) -> None:
            copied["spec"].pop("taints", None)
            if new:
                copied["spec"]["taints"] = new

        return self.registry.modify("Node", None, node["metadata"]["name"], write) or node

    def _judge_pod(self, namespace: str, name: str) -> None:
        pod = self.registry.get("Pod", namespace, name)
        node = self.registry.get("Node", None, pod["spec"].get("nodeName", "")) if pod else None
        if pod is None or node is None or "deletionTimestamp" in pod["metadata"] or is_terminal(pod):
            return
        waits = [self._toleration_left(pod, taint) for taint in _executing(node)]
        finite = [wait for wait in waits if wait is not None]
        if not finite:
            return
        if min(finite) > 0:
            self.enqueue(("pod", namespace, name), min(finite))
            return
        self._evict(pod)

    def _toleration_left(self, pod: Object, taint: Object) -> float | None:
        """Seconds a pod may stay with a taint: None for ever, 0 not at all."""
        matching = [one for one in pod["spec"].get("tolerations") or () if tolerated(taint, [one])]
        if not matching:
            return 0.0
        limits = [one["tolerationSeconds"] for one in matching if one.get("tolerationSeconds") is not None]
        if not limits:
            return None
        since = parse_time(taint["timeAdded"]) if taint.get("timeAdded") else self.clock.now()
        return max(0.0, (since + timedelta(seconds=min(limits)) - self.clock.now()).total_seconds())

    def _evict(self, pod: Object) -> None:
        namespace, name = key_of(pod)
        self._delete(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
        message = f"Marking for deletion Pod {namespace}/{name}"
        self.recorder.event(pod, "Normal", "TaintManagerEviction", message)

    def _collect_pods(self, node_name: str) -> None:
        """The pods of a node that is gone have no kubelet to end them (podgc, gcOrphaned)."""
        for pod in self.registry.list("Pod"):
            if pod["spec"].get("nodeName") == node_name:
                phase = "" if is_terminal(pod) else "Failed"
                self._delete(pod, "DeletionByPodGC", "PodGC: node no longer exists", phase, grace_seconds=0)

    def _delete(
        self, pod: Object, reason: str, message: str, phase: str = "", grace_seconds: int | None = None
    ) -> None:
        """Delete a pod, saying why in its condition DisruptionTarget."""
        disruption = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self.clock.now()),
            "reason": reason,
            "message": message,
        }

        def mark(copied: Object) -> None:
            status = copied.setdefault("status", {})
            set_condition(status.setdefault("conditions", []), disruption)
            if phase:
                status["phase"] = phase

        self.registry.modify("Pod", *key_of(pod), mark, subresource="status")
        try:
            self.registry.delete("Pod", *key_of(pod), grace_seconds=grace_seconds)
        except ApiError as error:
            if error.status != 404:
                raise


def wanted_taints(node: Object) -> list[tuple[str, str]]:
    """Key and effect of the taints that the controller is to see to."""
    wanted = [(UNSCHEDULABLE_TAINT, "NoSchedule")] if node["spec"].get("unschedulable") else []
    for (kind, status), key in CONDITION_TAINTS.items():
        condition = find_condition(node, kind)
        if condition is not None and condition["status"] == status:
            wanted.append((key, "NoSchedule"))
            if key in EXECUTING:
                wanted.append((key, "NoExecute"))
    return wanted


def _executing(node: Object) -> list[Object]:
    return [taint for taint in node["spec"].get("taints") or () if taint["effect"] == "NoExecute"]
