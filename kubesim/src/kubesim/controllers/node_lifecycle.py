# SPDX-License-Identifier: BSD-2-Clause
"""Taints that follow the conditions of nodes, pods of nodes that are not ready, and pods of deleted nodes.

Source: pkg/controller/nodelifecycle/node_lifecycle_controller.go (doNoScheduleTaintingPass),
pkg/controller/util/node/controller_utils.go (MarkPodsNotReady), pkg/controller/podgc.
"""

from __future__ import annotations

from typing import Any

from kubesim.clock import rfc3339
from kubesim.errors import ApiError

from .base import Controller, Object, find_condition, key_of, set_condition
from .events import EventRecorder
from .pods import is_terminal
from .scheduler_filters import UNSCHEDULABLE_TAINT

#: Condition and status -> key of the taint.
CONDITION_TAINTS = {
    ("Ready", "False"): "node.kubernetes.io/not-ready",
    ("Ready", "Unknown"): "node.kubernetes.io/unreachable",
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
EVICTING = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
#: Seconds after which the pods of a deleted node are deleted (podgc quarantineTime).
LOST_AFTER = 40.0
OURS = {*CONDITION_TAINTS.values(), UNSCHEDULABLE_TAINT}


class NodeLifecycleController(Controller):
    name = "node-controller"
    watches = ("Node",)

    def __init__(self, registry: Any) -> None:
        super().__init__(registry)
        self.recorder = EventRecorder(registry, self.name)

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        name = obj["metadata"]["name"]
        if event == "DELETED":
            self.enqueue(("lost", name), LOST_AFTER)
        else:
            self.enqueue(("node", name))

    def reconcile(self, key: tuple[str, str]) -> None:
        what, name = key
        node = self.registry.get("Node", None, name)
        if node is not None:
            self._taint(node)
            ready = find_condition(node, "Ready")
            if ready is not None and ready["status"] != "True":
                self._mark_pods(name)
        elif what == "lost":
            self._collect_pods(name)

    def _taint(self, node: Object) -> None:
        wanted = wanted_taints(node)
        present = node["spec"].get("taints") or []
        kept = [one for one in present if one["key"] not in OURS or (one["key"], one["effect"]) in wanted]
        known = {(one["key"], one["effect"]) for one in kept}
        now = rfc3339(self.clock.now())
        new = kept + [{"key": k, "effect": e, "timeAdded": now} for k, e in wanted if (k, e) not in known]
        if new == present:
            return

        def write(copied: Object) -> None:
            copied["spec"].pop("taints", None)
            if new:
                copied["spec"]["taints"] = new

        self.registry.modify("Node", None, node["metadata"]["name"], write)

    def _mark_pods(self, node_name: str) -> None:
        """Pods that were ready are so no longer; what their kubelet reported of their containers stays."""
        now = rfc3339(self.clock.now())

        def mark(copied: Object) -> None:
            ready = find_condition(copied, "Ready")
            if ready is not None:
                ready |= {"status": "False", "lastTransitionTime": now}

        for pod in self.registry.list("Pod"):
            ready = find_condition(pod, "Ready")
            if pod["spec"].get("nodeName") == node_name and ready is not None and ready["status"] == "True":
                self.registry.modify("Pod", *key_of(pod), mark, subresource="status")
                self.recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")

    def _collect_pods(self, node_name: str) -> None:
        """The pods of a node that is gone have no kubelet to end them (podgc, gcOrphaned)."""
        for pod in self.registry.list("Pod"):
            if pod["spec"].get("nodeName") == node_name:
                self._delete(pod)

    def _delete(self, pod: Object) -> None:
        """Delete a pod without grace, saying why in its condition DisruptionTarget."""
        disruption = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self.clock.now()),
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }

        def mark(copied: Object) -> None:
            status = copied.setdefault("status", {})
            set_condition(status.setdefault("conditions", []), disruption)
            if not is_terminal(copied):
                status["phase"] = "Failed"

        self.registry.modify("Pod", *key_of(pod), mark, subresource="status")
        try:
            self.registry.delete("Pod", *key_of(pod), grace_seconds=0)
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
            if key in EVICTING:
                wanted.append((key, "NoExecute"))
    return wanted
