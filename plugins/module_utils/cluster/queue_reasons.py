# SPDX-License-Identifier: BSD-2-Clause
"""What jobs in queues wait for, by Kueue's Workloads, or by Volcano's PodGroups. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from ..kube.resources import Object
from ..labels import KUEUE_JOB_UID
from .pending_reason import PendingReason

# -- Kueue -------------------------------------------------------------------------------------------------------------


class Admissions:
    """Kueue's Workloads of a namespace, and their places in its queues.

    Kueue looks at those of a queue by priority, then by age (kueue pkg/cache/queue/cluster_queue.go,
    queueOrderingFunc).
    """

    def __init__(self, workloads: Iterable[Object]) -> None:
        self._by_job: dict[str | None, Object] = {}
        self._waiting: dict[Any, dict[str, int]] = defaultdict(dict)  # the place of each in its queue, by names
        for one in sorted(workloads, key=_order):
            self._by_job.setdefault(_job_uid(one), one)
            if _is_pending(one):
                queue = self._waiting[(one.get("spec") or {}).get("queueName")]
                queue[one["metadata"]["name"]] = len(queue) + 1

    def reason(self, job: Object, queue: str) -> PendingReason | None:
        """Why Kueue has not admitted a suspended Job; None if it has made no Workload for it (yet)."""
        own = self._by_job.get(job["metadata"]["uid"])
        if own is None:
            return None
        if (own.get("spec") or {}).get("active") is False:
            return PendingReason(
                f"the job is paused in queue {queue} (spec.active of its Kueue Workload)",
                "Resume it with O(state=resumed)",
            )
        places, name = self._waiting.get(queue, {}), own["metadata"]["name"]
        place = f", number {places[name]} of {len(places)} that wait there" if name in places else ""
        message = _admission_message(own)
        return PendingReason(
            f"the job is waiting in queue {queue} for Kueue to admit it since {_waits_since(own)}{place}"
            f"{message and ': '}{message}"
        )


def _job_uid(workload: Object) -> str | None:
    found: str | None = (workload["metadata"].get("labels") or {}).get(KUEUE_JOB_UID)
    return found


def _is_pending(workload: Object) -> bool:
    conditions = _conditions(workload)
    settled = any(conditions.get(name, {}).get("status") == "True" for name in ("QuotaReserved", "Finished"))
    return (workload.get("spec") or {}).get("active") is not False and not settled


def _order(workload: Object) -> tuple[int, str, str]:
    metadata = workload["metadata"]
    evicted = _conditions(workload).get("Evicted", {})
    # One that was evicted because its pods did not become ready goes to the end (pkg/workload, GetQueueOrderTimestamp).
    again = evicted.get("status") == "True" and evicted.get("reason") == "PodsReadyTimeout"
    since = evicted.get("lastTransitionTime") if again else None
    return (
        -((workload.get("spec") or {}).get("priority") or 0),
        since or metadata.get("creationTimestamp") or "",
        metadata["name"],
    )


def _waits_since(workload: Object) -> str:
    """Since it was submitted; or was stopped to wait again, or resumed."""
    conditions = _conditions(workload)
    moments = (conditions.get(name, {}).get("lastTransitionTime") for name in ("Evicted", "Requeued"))
    return max(filter(None, (workload["metadata"].get("creationTimestamp"), *moments)), default="an unknown time")


def _admission_message(workload: Object) -> str:
    """What Kueue says of its quota, else of an admission check, or of the eviction of a job that has been running."""
    conditions = _conditions(workload)
    for name in ("QuotaReserved", "Admitted", "Evicted"):
        found = conditions.get(name, {})
        if found.get("message") and (found.get("status") == "False" or name == "Evicted"):
            return str(found["message"])
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    return next((str(one["message"]) for one in checks if one.get("state") != "Ready" and one.get("message")), "")


def _conditions(workload: Object) -> dict[str, Object]:
    return {one["type"]: one for one in (workload.get("status") or {}).get("conditions") or ()}


# -- Volcano -----------------------------------------------------------------------------------------------------------


class PodGroups:
    """The PodGroups of a namespace, and what Volcano says of those that it has not let in (events, oldest first)."""

    def __init__(self, groups: Iterable[Object], events: Sequence[Object]) -> None:
        self._groups = {one["metadata"]["name"]: one for one in groups}
        self._waiting = Counter(_queue_of(one) for one in self._groups.values() if _group_phase(one) in _WAITING)
        about = ((one.get("involvedObject") or {}).get("name") for one in events)
        self._said = {name: str(one["message"]) for name, one in zip(about, events, strict=True) if one.get("message")}

    def reason(self, name: str) -> PendingReason | None:
        """Why Volcano has not scheduled the pods of a PodGroup; None if it has, does not say, or there is none."""
        own = self._groups.get(name)
        if own is None or (phase := _group_phase(own)) not in _WAITING:
            return None
        queue, pods = _queue_of(own), (own.get("spec") or {}).get("minMember") or 1
        others = self._waiting[queue] - 1
        also = f", and {others} more of this namespace wait there" if others else ""
        what = "all of its pods" if pods > 1 else "its pod"
        since = own["metadata"].get("creationTimestamp") or "an unknown time"
        # Why the queue does not let it in, only an event says.
        message = (phase == "Pending" and self._said.get(name)) or _unschedulable_message(own)
        return PendingReason(
            f"the job is waiting in queue {queue} for Volcano to schedule {what} since {since}{also} (its place is not "
            f"known, because Volcano orders jobs by its configuration){message and ': '}{message}"
        )


def _queue_of(group: Object) -> str:
    return (group.get("spec") or {}).get("queue") or "default"


# Pending: the queue has no room for it. Inqueue: the queue has, but not the nodes. Unknown: some of its pods run, and
# others were stopped.
_WAITING = ("Pending", "Inqueue", "Unknown")


def _group_phase(group: Object) -> str:
    """Volcano's scheduler writes the phase at the end of its first look."""
    return str((group.get("status") or {}).get("phase") or "Pending")


def _unschedulable_message(group: Object) -> str:
    found = _conditions(group).get("Unschedulable", {})
    return str(found.get("message") or "") if found.get("status") == "True" else ""
