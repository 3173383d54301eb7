# SPDX-License-Identifier: BSD-2-Clause
"""Pods as workload controllers see them: their states, which to delete first, how they are created from a template.

Source: pkg/controller/controller_utils.go (ActivePods, ActivePodsWithRanks, GetPodFromTemplate, RealPodControl),
pkg/api/v1/pod/util.go (readiness, availability).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from kubesim.clock import parse_time
from kubesim.errors import ApiError

from .base import Object, find_condition
from .events import EventRecorder
from .owners import controller_reference

if TYPE_CHECKING:
    from kubesim.registry import Registry

SLOW_START_BATCH = 1
_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}
_NEVER = datetime.max.timestamp()


def is_terminal(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_deleted(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_active(pod: Object) -> bool:
    return not is_terminal(pod) and not is_deleted(pod)


def is_terminating(pod: Object) -> bool:
    return is_deleted(pod) and not is_terminal(pod)


def ready_since(pod: Object) -> datetime | None:
    condition = find_condition(pod, "Ready")
    if condition is None or condition["status"] != "True":
        return None
    return parse_time(condition["lastTransitionTime"])


def is_ready(pod: Object) -> bool:
    return ready_since(pod) is not None


def available_in(pod: Object, min_ready_seconds: int, now: datetime) -> float | None:
    """Seconds until a pod counts as available: 0 when it does now, None when it is not even ready."""
    since = ready_since(pod)
    if since is None:
        return None
    return max(0.0, (since + timedelta(seconds=min_ready_seconds) - now).total_seconds())


def restarts(pod: Object) -> int:
    statuses = pod.get("status", {})
    lists = (statuses.get("initContainerStatuses") or [], statuses.get("containerStatuses") or [])
    return sum(status.get("restartCount", 0) for one in lists for status in one)


def deletion_order(pods: Iterable[Object], crowding: Callable[[Object], int] = lambda pod: 0) -> list[Object]:
    """Pods, those to be deleted first in front: unassigned, pending, not ready, cheap (pod-deletion-cost), on crowded
    nodes, ready for a short time, restarted often, young. Times are compared by their order of magnitude."""

    def rank(pod: Object) -> tuple[Any, ...]:
        since = ready_since(pod)
        cost = pod["metadata"].get("annotations", {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
        return (
            bool(pod["spec"].get("nodeName")),
            _PHASE_RANK.get(pod.get("status", {}).get("phase", "Pending"), 2),
            since is not None,
            int(cost) if cost.lstrip("-").isdigit() else 0,
            -crowding(pod),
            -since.timestamp() if since is not None else -_NEVER,
            -restarts(pod),
            -parse_time(pod["metadata"]["creationTimestamp"]).timestamp(),
        )

    return sorted(pods, key=rank)


class PodControl:
    """Creates and deletes the pods of one controller, with the events that go with it."""

    def __init__(self, registry: Registry, recorder: EventRecorder) -> None:
        self.registry = registry
        self.recorder = recorder

    def create(self, owner: Object, template: Object, generate_name: str = "") -> None:
        pod = from_template(owner, template, generate_name or f"{owner['metadata']['name']}-")
        try:
            created = self.registry.create("Pod", pod)
        except ApiError as error:
            if not namespace_terminating(error):
                self.recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {error.message}")
            raise
        self.recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {created['metadata']['name']}")

    def create_many(self, count: int, create: Callable[[int], None]) -> tuple[int, ApiError | None]:
        """Create in batches of 1, 2, 4, …, stopping after the first batch that had a failure (slow start).

        Returns how many were created and the first error."""
        created, batch, first_error = 0, SLOW_START_BATCH, None
        done = 0
        while done < count and first_error is None:
            for number in range(done, min(done + batch, count)):
                try:
                    create(number)
                    created += 1
                except ApiError as error:
                    first_error = first_error or error
            done, batch = done + batch, batch * 2
        return created, first_error

    def delete(self, owner: Object, pod: Object) -> None:
        metadata = pod["metadata"]
        if is_deleted(pod):
            return
        try:
            self.registry.delete("Pod", metadata["namespace"], metadata["name"])
        except ApiError as error:
            if error.status == 404:
                return
            self.recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error.message}")
            raise
        self.recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {metadata['name']}")


def from_template(owner: Object, template: Object, generate_name: str) -> Object:
    meta = template.get("metadata") or {}
    metadata: Object = {
        "generateName": generate_name,
        "namespace": owner["metadata"]["namespace"],
        "ownerReferences": [controller_reference(owner)],
    }
    for field in ("labels", "annotations", "finalizers"):
        if meta.get(field):
            metadata[field] = copy.deepcopy(meta[field])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(template["spec"])}


def namespace_terminating(error: ApiError) -> bool:
    causes = (error.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def scaled(value: int | str, total: int, round_up: bool) -> int:
    """intstr.GetScaledValueFromIntOrPercent."""
    if isinstance(value, int):
        return value
    share = total * int(value.rstrip("%")) / 100
    return math.ceil(share) if round_up else math.floor(share)
