# SPDX-License-Identifier: BSD-2-Clause
"""What a job in a queue of Kueue waits for, by Kueue's Workloads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..labels import KUEUE_JOB_UID
from .reason import PendingReason

Object = Mapping[str, Any]


def waiting_in_queue(job: Object, queue: str, workloads: Iterable[Object]) -> PendingReason | None:
    """Why Kueue has not admitted a suspended Job; None if it has made no Workload for it (yet).

    ``workloads`` are all of its namespace. Kueue looks at those of a queue by priority, then by age (kueue
    pkg/cache/queue/cluster_queue.go, queueOrderingFunc).
    """
    workloads = list(workloads)
    own = next((one for one in workloads if _job_of(one) == job["metadata"]["uid"]), None)
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
    message = _message(own)
    return PendingReason(f"the job is waiting in queue {queue} for Kueue to admit it{place}{message and ': '}{message}")


def _job_of(workload: Object) -> str | None:
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


def _message(workload: Object) -> str:
    """What Kueue says of its quota, else of an admission check, or of the eviction of a job that has been running."""
    conditions = _conditions(workload)
    for name in ("QuotaReserved", "Admitted", "Evicted"):
        found = conditions.get(name, {})
        if found.get("message") and (found.get("status") == "False" or name == "Evicted"):
            return str(found["message"])
    return ""


def _conditions(workload: Object) -> dict[str, Object]:
    return {one["type"]: one for one in (workload.get("status") or {}).get("conditions") or ()}
