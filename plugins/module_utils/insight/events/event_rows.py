# SPDX-License-Identifier: BSD-2-Clause
"""The events of a source as the dictionaries that rules see. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from ...kube.errors import cut
from ...kube.resources import Object
from ...kube.times import read_time
from ...printable import printable_data
from ...redaction import mask_forms
from ...wording import worded
from ..jobs.job_rows import job_row
from .cluster_transitions import KnownNode, QuotaUse
from .inert_text import inert
from .job_transitions import Transition

EVENT_TYPES = (
    "job.submitted",
    "job.started",
    "job.pending_too_long",
    "job.failed",
    "job.succeeded",
    "job.preempted",
    "job.paused",
    "job.resumed",
    "job.deleted",
    "gpu.idle",
    "node.lost",
    "quota.nearly_used",
)

# What is older than this when it is seen was missed when it happened.
LATE = timedelta(seconds=60)

_LONGEST = 2_000  # characters of a reason or message
_LONGEST_LINE = 500

_JOB_FIELDS = {
    "job": "name",
    "namespace": "namespace",
    "job_type": "kind",
    "pool": "pool",
    "priority": "priority",
    "gpu": "gpu",
    "user": "submitted_by",
    "workload": "workload",
    "description": "description",
    "sweep": "sweep",
    "managed": "managed",
}

_WORDS = {
    "job.submitted": "was submitted",
    "job.started": "is running",
    "job.pending_too_long": "has been pending for {waited}",
    "job.failed": "failed",
    "job.succeeded": "succeeded",
    "job.preempted": "was preempted",
    "job.paused": "was paused",
    "job.resumed": "was resumed",
    "job.deleted": "was deleted before its end",
    "gpu.idle": "does not use its GPUs",
}


def job_fields(workload: Object) -> dict[str, Any]:
    """What every event about a job says of it."""
    row = job_row(workload, datetime.now(timezone.utc))
    found = {field: row[name] for field, name in _JOB_FIELDS.items()}
    return {**found, "gpu": (found["gpu"] or 0) * max(1, row["pods_wanted"])}


def job_event(
    uid: str, step: Transition, fields: Mapping[str, Any], seen_at: str, reason: str | None, **details: Any
) -> dict[str, Any]:
    """The event of a transition of a job."""
    waited = _whole_minutes(step.facts["pending_seconds"]) if "pending_seconds" in step.facts else ""
    what = _WORDS[step.type].format(waited=waited)
    subject = f"{fields.get('job_type') or 'job'} {step.after.name} in namespace {step.after.namespace}"
    return _event_row(
        step.type,
        f"{uid}/{step.key}",
        step.time,
        seen_at,
        f"{subject} {what}",
        reason,
        **{name: fields.get(name) for name in _JOB_FIELDS}
        | {"job": step.after.name, "namespace": step.after.namespace, "uid": uid},
        old_status=step.old_status,
        status=step.status,
        **step.facts,
        **details,
    )


def node_event(
    uid: str, known: KnownNode, jobs: list[dict[str, Any]], seen_at: str, time: str | None, reason: str
) -> dict[str, Any]:
    """The loss of a node, with the jobs that have pods on it."""
    names = ", ".join(f"{row['namespace']}/{row['job']}" for row in jobs[:10])
    more = f" and {len(jobs) - 10} more" if len(jobs) > 10 else ""
    held = f"{'job' if len(jobs) == 1 else 'jobs'} {names}{more}" if jobs else "no jobs"
    message = f"node {known.name} of pool {known.pool} was lost with {held}"
    return _event_row(
        "node.lost",
        f"{uid}/lost/{known.since or seen_at}",
        time,
        seen_at,
        message,
        reason or None,
        node=known.name,
        pool=known.pool,
        uid=uid,
        jobs=jobs,
        old_status="Ready",
        status="Lost",
    )


def quota_event(quota: Object, title: str, use: QuotaUse, seen_at: str) -> dict[str, Any]:
    """A limit of a quota of which little is left."""
    metadata = quota["metadata"]
    message = (
        f"quota {title} in namespace {metadata['namespace']} has used {use.used} of {use.hard} {use.resource} "
        f"({use.percent:g} %)"
    )
    return _event_row(
        "quota.nearly_used",
        f"{metadata['uid']}/nearly_used/{use.resource}/{metadata.get('resourceVersion')}",
        seen_at,
        seen_at,
        message,
        None,
        quota=title,
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        resource=use.resource,
        used=use.used,
        hard=use.hard,
        percent=use.percent,
    )


def shown_lines(lines: list[str]) -> list[str]:
    """The lines of a log as an event may have them."""
    return [cut(mask_forms(line), _LONGEST_LINE) for line in lines]


def _event_row(
    type: str, id: str, time: str | None, seen_at: str, message: str, reason: str | None, **fields: Any
) -> dict[str, Any]:
    """``seen`` is ``late`` if it happened longer ago, or at an unknown time."""
    is_late = time is None or read_time(seen_at) - read_time(time) > LATE
    # Before it is made inert: naming an option takes brackets away, which may stand in an opening of a template.
    reason = cut(mask_forms(worded(reason)), _LONGEST) if reason else None
    ending = f": {reason.rstrip('.')}." if reason else "."
    row: dict[str, Any] = inert(
        printable_data(
            {
                "type": type,
                "id": id,
                "time": time,
                "seen": "late" if is_late else "live",
                "seen_at": seen_at,
                **fields,
                "reason": reason,
                "message": cut(mask_forms(worded(f"{message[0].upper()}{message[1:]}{ending}")), _LONGEST),
            }
        )
    )
    return row


def _whole_minutes(seconds: int) -> str:
    """``45 s``, ``30 min``, ``2 h 5 min``."""
    if seconds < 120:
        return f"{seconds} s"
    hours, minutes = divmod(seconds // 60, 60)
    return " ".join(filter(None, (f"{hours} h" if hours else "", f"{minutes} min" if minutes else "")))
