# SPDX-License-Identifier: BSD-2-Clause
"""What has happened to a job since it was last looked at, from its workload and what was known then. Pure.

Two looks are compared, not the events of a watch: whatever was missed in between, a broken connection or the restart of
a rulebook, leaves traces in the conditions of the workload. What leaves none is marked as seen late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ...cluster.status import ENDED, TIMED_OUT, failure_of, is_admitted_by_kueue, is_terminating, status_of
from ...kube.resources import Object
from ...kube.times import read_time, time_as_text
from ...labels import job_name_of

PENDING, RUNNING, PAUSED, SUCCEEDED, FAILED = "Pending", "Running", "Paused", "Succeeded", "Failed"

# The controller of Jobs sees the end of a pod some seconds later.
_AT_ONCE = timedelta(seconds=5)
# The pods of one job are preempted one after the other.
_TOGETHER = timedelta(seconds=60)


class Known(NamedTuple):
    """What has been reported of a workload. ``status`` is one of the five above, since ``since``.

    ``flipped``: when Kubernetes last changed the condition Suspended. ``run`` tells one run of a job from the next one:
    the first word is since when, if Kubernetes says so. ``started``, ``overdue``: reported for this run, and this
    status. ``row`` is what events say of the job, for the one that says that it is gone.
    """

    namespace: str
    name: str
    status: str
    since: str
    flipped: str = ""
    run: str = ""
    started: bool = False
    overdue: bool = False
    preempted: str = ""
    row: Mapping[str, Any] = {}


@dataclass(frozen=True)
class PodsOfJob:
    """What the pods of a job say. ``started_at``: when its last container started. ``ran``: whether any has.

    ``preempted``: victims with the time and Kubernetes' reason, the first one first.
    """

    started_at: str | None = None
    ran: bool = False
    preempted: tuple[tuple[str, str, str], ...] = ()  # time, reason, name of the pod


@dataclass(frozen=True)
class Transition:
    """One thing that happened. ``time`` is None if it is not known; ``after`` is what is known with it.

    ``key`` makes it different from all others of the same workload.
    """

    type: str
    key: str
    time: str | None
    old_status: str | None
    status: str
    after: Known
    facts: Mapping[str, Any] = field(default_factory=dict)


def known_at_first(workload: Object, row: Mapping[str, Any]) -> Known:
    """A workload of which nothing has been reported."""
    metadata = workload["metadata"]
    name = job_name_of(workload) or metadata["name"]
    return Known(metadata["namespace"], name, "", metadata["creationTimestamp"], row=row)


def job_transitions(
    workload: Object, known: Known, pods: PodsOfJob, now: datetime, pending_after: timedelta
) -> Iterator[Transition]:
    """What has happened, in its order."""
    phase = _job_phase(workload)
    if phase is None or (is_terminating(workload) and phase not in (SUCCEEDED, FAILED)):
        return
    moment = time_as_text(now)
    if not known.status:
        known = known._replace(status=PAUSED if _is_created_paused(workload) else PENDING)
        if known.status == PAUSED:
            known = known._replace(flipped=_suspension(workload)[1])
        yield Transition("job.submitted", "submitted", known.since, None, known.status, known)
    if known.status in (SUCCEEDED, FAILED) and workload["kind"] == "Job":
        return
    for each in _pauses(workload, known, phase, moment):
        yield each
        known = each.after
    for each in _preemption_transitions(workload, known, pods, phase):
        yield each
        known = each.after
    ended = phase in (SUCCEEDED, FAILED)
    if not known.started and (phase in (RUNNING, SUCCEEDED) or (phase == FAILED and pods.ran)):
        time = pods.started_at or (None if ended else moment)
        after = known._replace(
            started=True, status=RUNNING, since=time or known.since, flipped=_suspension(workload)[1], overdue=False
        )
        yield Transition("job.started", _keyed("started", known.run), time, known.status, RUNNING, after)
        known = after
    if ended and known.status != phase:
        time = _ended_at(workload) or moment
        services_may_recover = workload["kind"] != "Job"
        after = known._replace(
            status=phase, since=time, run=time if services_may_recover else known.run, started=not services_may_recover
        )
        key = _keyed(phase.lower(), time if services_may_recover else "")
        # Pods that end are not ready before the Job counts them as ended.
        is_ending = known.started and now - read_time(known.since) <= _AT_ONCE
        old_status = RUNNING if is_ending else known.status
        yield Transition(f"job.{phase.lower()}", key, time, old_status, phase, after)
        return
    if phase == PENDING and known.status == PENDING and not known.overdue:
        waited = now - read_time(known.since)
        if waited >= pending_after:
            after = known._replace(overdue=True)
            facts = {"pending_seconds": int(waited.total_seconds())}
            yield Transition(
                "job.pending_too_long", f"pending_too_long/{known.since}", moment, PENDING, PENDING, after, facts
            )


def settled(workload: Object, known: Known, now: datetime) -> Known:
    """What is known after the transitions, with the changes that are none: from running to waiting, and back."""
    phase = _job_phase(workload)
    if phase in (PENDING, RUNNING) and known.status in (PENDING, RUNNING) and known.status != phase and known.started:
        return known._replace(status=phase, since=time_as_text(now), overdue=False)
    return known


def pending_deadline(known: Known, pending_after: timedelta) -> datetime | None:
    """When a job becomes one that waits too long."""
    if known.status != PENDING or known.overdue:
        return None
    return read_time(known.since) + pending_after


def deletion(known: Known, now: datetime) -> Transition | None:
    """A workload that is gone; None if that is no news, since it has ended."""
    if known.status in (SUCCEEDED, FAILED):
        return None
    return Transition("job.deleted", "deleted", time_as_text(now), known.status, "Deleted", known)


def recorded_end(known: Known, result: str, finished_at: str | None) -> Iterator[Transition]:
    """The end of a workload that is gone, as the ledger has it."""
    if not known.started and result == SUCCEEDED:
        after = known._replace(started=True, status=RUNNING)
        yield Transition("job.started", _keyed("started", known.run), None, known.status, RUNNING, after)
        known = after
    result = FAILED if result == TIMED_OUT else result
    after = known._replace(status=result)
    yield Transition(f"job.{result.lower()}", result.lower(), finished_at, known.status, result, after)


def _job_phase(workload: Object) -> str | None:
    """The status, of which there are five for events; None while Kubernetes has not followed the last change."""
    status = status_of(workload)
    if workload["kind"] == "Job":
        suspended = bool(workload["spec"].get("suspend"))
        if status not in ENDED and suspended != _suspension(workload)[0]:
            return None
        if status == PAUSED and is_admitted_by_kueue(workload):
            return PENDING
    elif status not in (PAUSED, RUNNING) and failure_of(workload):
        return FAILED
    return {"Partially Running": PENDING, TIMED_OUT: FAILED}.get(status, status)


def _suspension(workload: Object) -> tuple[bool, str]:
    """Whether a Job is suspended by its condition, and since when that is so."""
    for condition in workload.get("status", {}).get("conditions") or ():
        if condition["type"] == "Suspended":
            return condition["status"] == "True", str(condition.get("lastTransitionTime") or "")
    return False, ""


def _is_created_paused(workload: Object) -> bool:
    if is_admitted_by_kueue(workload) or _job_phase(workload) != PAUSED:
        return False
    return bool(workload["metadata"].get("generation", 1) == 1)  # A pause changes the spec.


def _pauses(workload: Object, known: Known, phase: str, moment: str) -> Iterator[Transition]:
    """Pauses and resumptions since the last look: the condition of a Job tells how many it must have been at least."""
    flipped = _suspension(workload)[1]
    time = flipped or moment
    if is_admitted_by_kueue(workload):
        yield from _evictions(workload, known, flipped)
        return
    key = f"{flipped} generation {workload['metadata'].get('generation', 0)}".strip()
    is_paused, was_paused = phase == PAUSED, known.status == PAUSED
    if is_paused == was_paused and flipped != known.flipped and (known.flipped or not is_paused):
        # It changed there and back. When it did the first time is not known.
        step = _resumed if was_paused else _paused_transition
        first = step(known, None, f"before {key}")
        yield first
        known, was_paused = first.after, not was_paused
    if is_paused != was_paused:
        step = _paused_transition if is_paused else _resumed
        yield step(known._replace(flipped=flipped), time, key)


def _paused_transition(known: Known, time: str | None, key: str) -> Transition:
    after = known._replace(status=PAUSED, since=time or known.since, overdue=False)
    return Transition("job.paused", f"paused/{key}", time, known.status, PAUSED, after)


def _resumed(known: Known, time: str | None, key: str) -> Transition:
    after = known._replace(status=PENDING, since=time or known.since, run=key, started=False, overdue=False)
    return Transition("job.resumed", f"resumed/{key}", time, known.status, PENDING, after)


def _evictions(workload: Object, known: Known, flipped: str) -> Iterator[Transition]:
    """Kueue suspends the Job of a workload that it evicts, and starts it when it is admitted again."""
    if known.started and flipped != known.flipped:
        time = flipped if _suspension(workload)[0] else None
        after = known._replace(
            status=PENDING, since=flipped, flipped=flipped, run=flipped, started=False, overdue=False
        )
        yield Transition(
            "job.preempted", f"preempted/{flipped}", time, known.status, PENDING, after, {"cause": "Kueue"}
        )


def _preemption_transitions(workload: Object, known: Known, pods: PodsOfJob, phase: str) -> Iterator[Transition]:
    """One for all pods that are preempted together."""
    for time, cause, pod in pods.preempted:
        if known.preempted and read_time(time) - read_time(known.preempted) <= _TOGETHER:
            continue
        status = known.status if phase in (SUCCEEDED, FAILED) else PENDING
        after = known._replace(preempted=time)
        yield Transition(
            "job.preempted", f"preempted/{time}", time, known.status, status, after, {"cause": cause, "pod": pod}
        )
        known = after


def _ended_at(workload: Object) -> str | None:
    status = workload.get("status", {})
    moment: str | None = status.get("completionTime")
    for condition in status.get("conditions") or ():
        ended = condition["type"] in ("Failed", "FailureTarget", "Complete") and condition["status"] == "True"
        gave_up = condition["type"] == "Progressing" and condition["status"] == "False"
        if moment is None and (ended or gave_up):
            moment = condition.get("lastTransitionTime")
    return moment


def _keyed(name: str, run: str) -> str:
    return f"{name}/{run}" if run else name
