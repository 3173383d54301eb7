# SPDX-License-Identifier: BSD-2-Clause
"""From when to when a pod held its accelerators, and how long it waited for them, by its status. Pure.

A pod holds what it requests from the moment that the scheduler binds it to a node until it has ended or is gone, also
while its containers restart: no other pod gets the devices meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from ..accelerators.catalog import catalog
from ..kube.resources import Object
from ..kube.times import read_time
from .nodes import devices_of
from .related import is_unfinished

_PREEMPTED = "PreemptionByScheduler"  # a reason of DisruptionTarget (pkg/apis/core, PodReasonPreemptionByScheduler)


class Hold(NamedTuple):
    """What a pod has held. Times are seconds since 1970; without ``start`` it has no node yet, without ``end`` it
    still holds. ``exact``: its status says when it ended; else ``end`` is when it was seen last, so it held as long as
    that at least."""

    uid: str
    name: str
    created: float
    start: float | None
    end: float | None
    amounts: Mapping[str, int]  # resource -> amount, of accelerators
    node: str | None = None
    preempted: bool = False
    exact: bool = True

    @property
    def goes_on(self) -> bool:
        return self.start is not None and self.end is None

    def seconds(self, since: float, until: float) -> float:
        """How long it held within a range."""
        if self.start is None:
            return 0.0
        return max(0.0, min(until if self.end is None else self.end, until) - max(self.start, since))

    def queued_seconds(self, since: float, until: float) -> float:
        """How long it waited for a node within a range."""
        waited_until = self.start if self.start is not None else self.end
        return max(0.0, min(until if waited_until is None else waited_until, until) - max(self.created, since))


def hold_of(pod: Object) -> Hold:
    """What the status of a pod says."""
    metadata, status = pod["metadata"], pod.get("status", {})
    created = _unix_time(metadata["creationTimestamp"])
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    node = pod["spec"].get("nodeName")
    scheduled = conditions.get("PodScheduled", {})
    start: float | None = None
    if node:
        text = scheduled.get("lastTransitionTime") if scheduled.get("status") == "True" else None
        start = _unix_time(text or status.get("startTime") or metadata["creationTimestamp"])
    end, exact = _pod_end(pod, conditions)
    if end is not None and start is not None:
        end = max(end, start)
    disruption = conditions.get("DisruptionTarget", {})
    known = catalog()
    return Hold(
        metadata.get("uid", ""),
        metadata["name"],
        min(created, start) if start is not None else created,
        start,
        end,
        {name: amount for name, amount in devices_of(pod).items() if amount and known.row(name)},
        node,
        disruption.get("status") == "True" and disruption.get("reason") == _PREEMPTED,
        exact,
    )


def _pod_end(pod: Object, conditions: Mapping[str, Object]) -> tuple[float | None, bool]:
    """When the pod ended, and whether that is what its containers say; None while it holds."""
    metadata, status = pod["metadata"], pod.get("status", {})
    if is_unfinished(pod):
        return None, True
    # A container that could not start says that it ended in 1970.
    finished = [moment for moment in _finished(status) if moment.year > 1970]
    if finished:
        return max(finished).timestamp(), True
    for kind in ("DisruptionTarget", "Ready", "ContainersReady"):
        text = conditions.get(kind, {}).get("lastTransitionTime")
        if text:
            return _unix_time(text), kind == "DisruptionTarget"
    return _unix_time(metadata.get("deletionTimestamp") or metadata["creationTimestamp"]), False


def _finished(status: Object) -> Iterator[datetime]:
    for part in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(part) or ():
            if text := ((container.get("state") or {}).get("terminated") or {}).get("finishedAt"):
                yield read_time(text)


def _unix_time(text: str) -> float:
    return read_time(text).timestamp()
