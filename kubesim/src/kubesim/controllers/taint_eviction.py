# SPDX-License-Identifier: BSD-2-Clause
"""Pods on nodes with a NoExecute taint: deleted after the time that they tolerate it.

Source: pkg/controller/tainteviction/taint_eviction.go (processPodOnNode, getMinTolerationTime).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from kubesim.clock import rfc3339
from kubesim.errors import ApiError

from .base import Controller, Key, Object, key_of, set_condition
from .events import EventRecorder
from .pods import is_deleted, is_terminal
from .scheduler_filters import tolerated


class TaintEvictionController(Controller):
    name = "taint-eviction-controller"
    watches = ("Node", "Pod")

    def __init__(self, registry: Any) -> None:
        super().__init__(registry)
        self.recorder = EventRecorder(registry, self.name)
        self._tainted: set[str] = set()
        self._seen: dict[str, datetime] = {}  # by uid, when the taints were first seen

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "Pod":
            if event != "DELETED" and obj["spec"].get("nodeName") in self._tainted:
                self.enqueue(key_of(obj))
            return
        name = obj["metadata"]["name"]
        if event == "DELETED" or not (_no_execute(obj) or name in self._tainted):
            return
        if old is not None and _no_execute(old) == _no_execute(obj):
            return
        (self._tainted.add if _no_execute(obj) else self._tainted.discard)(name)
        for pod in self.registry.list("Pod"):
            if pod["spec"].get("nodeName") == name:
                self.enqueue(key_of(pod))

    def reconcile(self, key: Key) -> None:
        pod = self.registry.get("Pod", *key)
        if pod is None or is_deleted(pod) or is_terminal(pod):
            return
        uid, now = pod["metadata"]["uid"], self.clock.now()
        node = self.registry.get("Node", None, pod["spec"].get("nodeName", ""))
        tolerated_for = _tolerated_seconds(pod, node) if node else None
        if tolerated_for is None:
            self._seen.pop(uid, None)
            return
        left = (self._seen.setdefault(uid, now) + timedelta(seconds=tolerated_for) - now).total_seconds()
        if left > 0:
            self.enqueue(key, left)
            return
        del self._seen[uid]
        self._evict(pod)

    def _evict(self, pod: Object) -> None:
        disruption = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self.clock.now()),
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }

        def mark(copied: Object) -> None:
            set_condition(copied.setdefault("status", {}).setdefault("conditions", []), disruption)

        namespace, name = key_of(pod)
        self.recorder.event(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {namespace}/{name}")
        self.registry.modify("Pod", namespace, name, mark, subresource="status")
        try:
            self.registry.delete("Pod", namespace, name)
        except ApiError as error:
            if error.status != 404:
                raise


def _no_execute(node: Object) -> list[Object]:
    return [taint for taint in node.get("spec", {}).get("taints") or () if taint["effect"] == "NoExecute"]


def _tolerated_seconds(pod: Object, node: Object) -> float | None:
    """How long the pod tolerates the taints of its node; None for ever."""
    taints = _no_execute(node)
    tolerations = pod["spec"].get("tolerations") or []
    used = [[one for one in tolerations if tolerated(taint, [one])] for taint in taints]
    if not all(used):
        return 0.0
    times = [one["tolerationSeconds"] for matching in used for one in matching if "tolerationSeconds" in one]
    return float(max(0, min(times))) if times else None
