# SPDX-License-Identifier: BSD-2-Clause
"""The ReplicaSet controller.

Source: pkg/controller/replicaset/replica_set.go (manageReplicas), replica_set_utils.go (calculateStatus).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kubesim.clock import rfc3339
from kubesim.errors import ApiError

from .base import Controller, Key, Object, batch_delay, counted, find_condition, key_of
from .events import EventRecorder
from .owners import claimed, controller_of, owner_index
from .pods import (
    PodControl,
    available_in,
    deletion_order,
    is_active,
    is_ready,
    is_terminating,
    namespace_terminating,
)

BURST = 500


class ReplicaSetController(Controller):
    name = "replicaset-controller"
    watches = ("ReplicaSet", "Pod")

    def __init__(self, registry: Any) -> None:
        super().__init__(registry)
        self.pods = PodControl(registry, EventRecorder(registry, self.name))
        owner_index(registry)

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "ReplicaSet":
            self.enqueue(key_of(obj))
            return
        for version in (obj, old):
            owner = controller_of(version) if version else None
            if owner is not None and owner["kind"] == "ReplicaSet":
                delay = batch_delay(owner_index(self.registry).count(owner["uid"]))
                self.enqueue((obj["metadata"]["namespace"], owner["name"]), delay)

    def reconcile(self, key: Key) -> None:
        replica_set = self.registry.get("ReplicaSet", *key)
        if replica_set is None:
            return
        error: ApiError | None = None
        if "deletionTimestamp" not in replica_set["metadata"]:
            error = self._manage(replica_set)
        self._write_status(key, replica_set, error)
        if error is not None and not namespace_terminating(error):
            raise error

    def _manage(self, replica_set: Object) -> ApiError | None:
        active = [pod for pod in claimed(self.registry, replica_set, "Pod") if is_active(pod)]
        missing = replica_set["spec"]["replicas"] - len(active)
        try:
            if missing > 0:
                template = replica_set["spec"]["template"]
                _, error = self.pods.create_many(min(missing, BURST), lambda _: self.pods.create(replica_set, template))
                return error
            nodes = Counter(pod["spec"].get("nodeName") for pod in active)
            order = deletion_order(active, crowding=lambda pod: nodes[pod["spec"].get("nodeName")])
            for pod in order[: min(-missing, BURST)]:
                self.pods.delete(replica_set, pod)
        except ApiError as error:
            return error
        return None

    def _write_status(self, key: Key, replica_set: Object, error: ApiError | None) -> None:
        pods = claimed(self.registry, replica_set, "Pod")
        active = [pod for pod in pods if is_active(pod)]
        template_labels = (replica_set["spec"]["template"].get("metadata", {}).get("labels") or {}).items()
        now, min_ready = self.clock.now(), replica_set["spec"].get("minReadySeconds", 0)
        waits = [wait for pod in active if (wait := available_in(pod, min_ready, now)) is not None]
        status: Object = {
            "replicas": len(active),
            "terminatingReplicas": sum(map(is_terminating, pods)),
            "observedGeneration": replica_set["metadata"]["generation"],
        } | counted(
            fullyLabeledReplicas=sum(template_labels <= (p["metadata"].get("labels") or {}).items() for p in active),
            readyReplicas=sum(map(is_ready, active)),
            availableReplicas=sum(wait <= 0 for wait in waits),
        )
        condition = self._failure_condition(replica_set, error)
        if condition is not None:
            status["conditions"] = [condition]

        def write(copied: Object) -> None:
            copied["status"] = status

        self.registry.modify("ReplicaSet", *key, write, subresource="status")
        later = [wait for wait in waits if wait > 0]
        if later:
            self.enqueue(key, min(later))

    def _failure_condition(self, replica_set: Object, error: ApiError | None) -> Object | None:
        if error is None:
            return None
        present = find_condition(replica_set, "ReplicaFailure")
        if present is not None:  # kept until a sync goes well
            return present
        wants = replica_set["spec"]["replicas"] > replica_set.get("status", {}).get("replicas", 0)
        return {
            "type": "ReplicaFailure",
            "status": "True",
            "lastTransitionTime": rfc3339(self.clock.now()),
            "reason": "FailedCreate" if wants else "FailedDelete",
            "message": error.message,
        }
