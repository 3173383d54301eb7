# SPDX-License-Identifier: BSD-2-Clause
"""What jobs in queues wait for, by Kueue's Workloads, or by Volcano's PodGroups. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..kube.resources import Object
from ..labels import KUEUE_JOB_UID
from .pending_reason import PendingReason

# -- Kueue -------------------------------------------------------------------------------------------------------------


def waiting_in_queue(job: Object, queue: str, workloads: Iterable[Object]) -> PendingReason | None:
    """Why Kueue has not admitted a suspended Job; None if it has made no Workload for it (yet).

    ``workloads`` are all of its namespace. Kueue looks at those of a queue by priority, then by age (kueue
    pkg/cache/queue/cluster_queue.go, queueOrderingFunc).
    """
    workloads = list(workloads)
    own = next((one for one in workloads if _job_uid(one) == job["metadata"]["uid"]), None)
    if own is None:
        return None
    if (own.get("spec") or {}).get("active") is False:
        return PendingReason(
            f"the job is paused in queue {queue} (spec.active of its Kueue Workload)",
            "Resume it with O(state=resumed)",
        )
    pending = sorted((one for one in workloads if _is_pending(one, queue)), key=_order)
    names = [one["metadata"]["name"] for one in pending]
    name = own["metadata"]["name"]
    place = f", number {names.index(name) + 1} of {len(names)} that wait there" if name in names else ""
    message = _admission_message(own)
    return PendingReason(
        f"the job is waiting in queue {queue} for Kueue to admit it since {_waits_since(own)}{place}"
        f"{message and ': '}{message}"
    )


def _job_uid(workload: Object) -> str | None:
    found: str | None = (workload["metadata"].get("labels") or {}).get(KUEUE_JOB_UID)
    return found


def _is_pending(workload: Object, queue: str) -> bool:
    spec, conditions = workload.get("spec") or {}, _conditions(workload)
    settled = any(conditions.get(name, {}).get("status") == "True" for name in ("QuotaReserved", "Finished"))
    return spec.get("queueName") == queue and spec.get("active") is not False and not settled


def _order(workload: Object) -> tuple[int, str, str]:
    metadata = workload["metadata"]
    evicted = _conditions(workload).get("Evicted", {})
    # One that was evicted because its pods did not become ready goes to the end (pkg/workload, GetQueueOrderTimestamp).
    again = evicted.get("status") == "True" and evicted.get("reason") == "PodsReadyTimeout"
    since = evicted.get("lastTransitionTime") if again else None
    return (
        -((workload.get("spec") or {}).get("priority") or 0),
        since or metadata["creationTimestamp"],
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


def waiting_in_volcano(own: Object, groups: Iterable[Object], events: Sequence[Object]) -> PendingReason | None:
    """Why Volcano has not scheduled the pods of a PodGroup; None if it has, or does not say.

    ``groups`` are all PodGroups of its namespace, ``events`` what Volcano says of those that it has not let in, oldest
    first.
    """
    phase = _group_phase(own)
    if phase not in _WAITING:
        return None
    spec = own.get("spec") or {}
    queue, pods = spec.get("queue") or "default", spec.get("minMember") or 1
    others = sum(
        one is not own
        and _group_phase(one) in _WAITING
        and ((one.get("spec") or {}).get("queue") or "default") == queue
        for one in groups
    )
    also = f", and {others} more of this namespace wait there" if others else ""
    what = "all of its pods" if pods > 1 else "its pod"
    since = own["metadata"].get("creationTimestamp") or "an unknown time"
    message = _volcano_message(own, phase, events)
    return PendingReason(
        f"the job is waiting in queue {queue} for Volcano to schedule {what} since {since}{also} (its place is not "
        f"known, because Volcano orders jobs by its configuration){message and ': '}{message}"
    )


# Pending: the queue has no room for it. Inqueue: the queue has, but not the nodes. Unknown: some of its pods run, and
# others were stopped.
_WAITING = ("Pending", "Inqueue", "Unknown")


def _group_phase(group: Object) -> str:
    """Volcano's scheduler writes the phase at the end of its first look."""
    return str((group.get("status") or {}).get("phase") or "Pending")


def _volcano_message(group: Object, phase: str, events: Sequence[Object]) -> str:
    """Why the queue does not let it in, which only an event says; else the latest condition."""
    name = group["metadata"]["name"]
    if phase == "Pending":
        about = [one for one in events if (one.get("involvedObject") or {}).get("name") == name and one.get("message")]
        if about:
            return str(about[-1]["message"])
    found = _conditions(group).get("Unschedulable", {})
    return str(found.get("message") or "") if found.get("status") == "True" else ""
