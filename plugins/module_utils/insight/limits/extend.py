# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_extend: a longer time limit for a job that runs, as often as it is repeated the same one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

from ...accelerators.hardware import PoolHardware
from ...cluster.declared import Declared, read_declared
from ...cluster.status import status_of
from ...cluster.time_limits import declared_seconds, end_after, grace_seconds, limit_seconds, period_start, span_text
from ...engine.fields import applied_by
from ...engine.paths import ABSENT, Change, value_at, with_value_at
from ...engine.plan import Action, Plan, Step
from ...given_times import LONGEST_TIME_LIMIT, InvalidTime, duration, moment, seconds_of
from ...jobs.job import State
from ...jobs.job import run as run_jobs
from ...jobs.job_options import JobOptions
from ...jobs.job_plans import plan_transition
from ...jobs.objects.time_limit import pool_limits
from ...jobs.select import SelectedJob
from ...jobs.transitions import LiveJob, TransitionRefused, keep, patch_plan
from ...kube.times import read_time, time_as_text
from ...labels import DEFAULT_POOL, EXTENDED_LIMIT, FIELD_MANAGER, IDLE_EXEMPT_UNTIL, TIME_LIMIT
from ...namespaces import NamespaceOptions, named_job
from ...options import option
from ...task import ModuleSpec, Task, TaskFailed
from .end_rules import limit_of, pool_of

_DEADLINE = ("spec", "activeDeadlineSeconds")
_EXEMPT = ("metadata", "annotations", IDLE_EXEMPT_UNTIL)
_EXTENDED = ("metadata", "annotations", EXTENDED_LIMIT)
_DECLARED = ("metadata", "annotations", TIME_LIMIT)


@dataclass(frozen=True, kw_only=True)
class ExtendOptions(NamespaceOptions):
    name: str = option("str", required=True)
    namespace: str | None = option("str")
    by: str | None = option("str")
    until: str | None = option("str")
    exempt_until: str | None = option("str")
    takeover: bool = option("bool", default=False)


@dataclass(frozen=True)
class JobTime:
    """What a job has: the seconds that were declared and that it may run now, and since when; None if it has not
    started. ``most`` is the maximum of its pool, as it is declared there."""

    declared: int
    seconds: int
    since: datetime | None
    pool: str
    most: str | None


@dataclass(frozen=True)
class Wanted:
    """``by``: seconds beyond the limit that was declared. ``until``: a time. One of them is None."""

    by: int | None
    until: datetime | None

    def seconds(self, time: JobTime) -> int:
        """How long the job should be allowed to run. Raises TransitionRefused."""
        if self.by is not None:
            return time.declared + self.by
        if time.since is None or self.until is None:
            raise TransitionRefused("it has not started, so no time is its end. Use O(by).")
        return math.ceil((self.until - time.since).total_seconds())


def run(task: Task[ExtendOptions]) -> dict[str, Any]:
    """What gpuctl_job returns, with ``ends_at`` of the job."""
    options, now = task.options, datetime.now(timezone.utc)
    exempt = _exempt_until(options, now)
    wanted, job = None if exempt else _wanted(options, now), named_job(task)
    declared = read_declared(task.client(), task.warn)
    found: dict[str, Any] = {}

    def transition(live: LiveJob, _options: JobOptions) -> Plan:
        if wanted is None:
            found["reason"] = (
                f"gpuctl_idle leaves it alone until {exempt}, except while that is further away than its "
                "longest_exemption, by default 14d."
            )
            return patch_plan(live, Action.ANNOTATE, [(_EXEMPT, exempt)])
        time = _time_of(live, declared, now)
        plan = _extension(live, time, wanted)
        found["ends_at"], found["reason"] = _end_text(live, time, plan)
        return plan

    own = task.with_options(
        JobOptions(
            name=options.name,
            namespace=job[0],
            takeover=options.takeover,
            allowed_namespaces=options.allowed_namespaces,
        )
    )
    state = State(partial(plan_transition, transition=transition))
    result = run_jobs(own, state, [SelectedJob(*job, None)])
    (row,) = result["results"]
    return {**result, "results": [{**row, "ends_at": found.get("ends_at"), "reason": found["reason"]}]}


MODULE = ModuleSpec(
    ExtendOptions,
    run,
    {
        "mutually_exclusive": [("by", "until", "exempt_until")],
        "required_one_of": [("by", "until", "exempt_until")],
    },
    level="submit",
)


def _exempt_until(options: ExtendOptions, now: datetime) -> str | None:
    """Raises TaskFailed."""
    if options.exempt_until is None:
        return None
    return time_as_text(_future("exempt_until", options.exempt_until, now))


def _future(name: str, text: str, now: datetime) -> datetime:
    """Raises TaskFailed."""
    try:
        time = datetime.fromtimestamp(moment(name, text, now.timestamp()), timezone.utc)
    except (InvalidTime, OverflowError, ValueError) as problem:
        raise TaskFailed(str(problem)) from None
    if time <= now:
        raise TaskFailed(f"O({name}): {text} is past. Give a time in the future, such as 2026-12-01T18:00:00Z.")
    return time


def _wanted(options: ExtendOptions, now: datetime) -> Wanted:
    """Raises TaskFailed."""
    try:
        if options.by is not None:
            return Wanted(int(duration("by", options.by)), None)
    except InvalidTime as problem:
        raise TaskFailed(str(problem)) from None
    return Wanted(None, _future("until", options.until or "", now))


def _time_of(job: LiveJob, declared: Declared, now: datetime) -> JobTime | None:
    """What the job has; None if it has no limit. Raises TransitionRefused."""
    workload = job.workload
    if job.has_ended:
        raise TransitionRefused("it has ended. To run it for longer, submit it again with a longer job.time_limit.")
    pool, hardware = pool_of(workload, declared)
    if not declared.known and pool != DEFAULT_POOL:
        raise TransitionRefused(f"it is not known how long pool {pool} lets it run: {declared.refusal}")
    most = pool_limits(job.kind, hardware)[1]
    if workload["kind"] == "Job":
        seconds, started = limit_seconds(workload), (workload.get("status") or {}).get("startTime")
        since = read_time(started) if started and status_of(workload) != "Paused" else None
    else:
        limit, since = limit_of(workload, job.kind, pool, hardware), period_start(workload, now)
        seconds = limit.seconds if limit else None
        if status_of(workload) == "Paused":
            raise TransitionRefused("it is paused. Resume it with O(state=resumed): it then has all of its time again.")
    if seconds is None:
        return None
    return JobTime(_declared_of(job, hardware) or seconds, seconds, since, pool, most)


def _declared_of(job: LiveJob, hardware: PoolHardware) -> int | None:
    """What the manifest says, or for a service the pool today."""
    default = pool_limits(job.kind, hardware)[0] if job.workload["kind"] != "Job" else None
    return declared_seconds(job.workload) or (seconds_of(default) if default else None)


def _extension(job: LiveJob, time: JobTime | None, wanted: Wanted) -> Plan:
    """Raises TransitionRefused."""
    if time is None:
        return keep(job)
    seconds = wanted.seconds(time)
    if seconds <= time.seconds:
        return keep(job)
    most = seconds_of(time.most) if time.most else None
    if seconds > (most or LONGEST_TIME_LIMIT):
        raise TransitionRefused(_beyond(job, time, most or LONGEST_TIME_LIMIT))
    if job.workload["kind"] != "Job":
        return patch_plan(job, Action.UPDATE, [(_EXTENDED, str(seconds))])
    # What O(by) is added to, also when it is given again.
    values: dict[tuple[str, ...], Any] = {} if declared_seconds(job.workload) else {_DECLARED: str(time.declared)}
    values |= {_DEADLINE: seconds - grace_seconds(job.workload), _EXTENDED: str(seconds)}
    return _longer_deadline(job, values)


def _beyond(job: LiveJob, time: JobTime, most: int) -> str:
    allowed = f"pool {time.pool} allows each {job.kind} at most {time.most}"
    whose = allowed if time.most else "366d are the longest limit"
    latest = f", which is until {time_as_text(time.since + timedelta(seconds=most))}" if time.since else ""
    return f"{whose}{latest}. Use a shorter time."


def _longer_deadline(job: LiveJob, values: Mapping[tuple[str, ...], Any]) -> Plan:
    """The plan for a training. The deadline of a manifest is applied again, so that it stays ours: what is patched
    would be of another field manager for the next apply. One that others have set is patched."""
    desired = applied_by(FIELD_MANAGER, job.workload)
    if value_at(desired, _DEADLINE) is ABSENT:
        return patch_plan(job, Action.UPDATE, values.items())
    for path, value in values.items():
        desired = with_value_at(desired, path, value)
    changes = tuple(Change(path, value_at(job.workload, path), value) for path, value in values.items())
    plan = keep(job)
    return plan.with_steps([Step(Action.UPDATE, desired, job.workload, changes), *plan.steps[1:]])


def _end_text(job: LiveJob, time: JobTime | None, plan: Plan) -> tuple[str | None, str]:
    """When the job ends with the plan, and a sentence about it."""
    if time is None:
        return None, "It has no time limit, so there is nothing to extend."
    after = {change.path: change.after for change in plan.steps[0].changes}
    seconds = int(after.get(_EXTENDED, time.seconds))
    end = end_after(time_as_text(time.since), seconds) if time.since else None
    when = f"ends at {time_as_text(end)} at the latest" if end else f"may run for {span_text(seconds)} once it starts"
    at = time_as_text(end) if end else None
    if plan.changed:
        return at, f"It {when}."
    more = f" For more, use a time after that, or O(by) of more than {span_text(max(0, seconds - time.declared))}."
    return at, f"It {when}, as before.{more}"
