# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""How a wait is told: line by line while it lasts, and in one message when it was in vain. Pure, but for the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..cluster.live_jobs import JobId
from ..cluster.status import pods_ready, pods_wanted, status_of
from .goals import Goal
from .loop import JobStatus

_BETWEEN = 2.0  # seconds at least between two lines, and before the first: a quick start needs none
_HEARTBEAT = 30.0  # seconds at most
_NAMED = 3  # jobs that a line of progress names
_LISTED = 10  # jobs that a message lists; the results have all of them
_LONGEST_REASON = 160
_LOG_LINES = 5  # of a failed container, in the message


class ProgressReporter:
    """Tells a line when something has changed, and now and then when nothing has."""

    def __init__(
        self, goal: Goal, timeout: float, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._goal = goal
        self._timeout = timeout
        self._tell = tell
        self._clock = clock
        self._started = self._told_at = clock()
        self._told: object = None

    def __call__(self, job_statuses: Mapping[JobId, JobStatus]) -> float:
        """Seconds after which it wants to be called again, even if nothing changes."""
        now = self._clock()
        seen = {job: (job_status.reached_goal, _state(job_status)) for job, job_status in job_statuses.items()}
        due = self._told_at + (_HEARTBEAT if seen == self._told else _BETWEEN)
        if now >= due:
            self._tell(progress_line(self._goal, job_statuses, now - self._started, self._timeout))
            self._told, self._told_at = seen, now
            due = now + _HEARTBEAT
        return due - now


def progress_line(goal: Goal, job_statuses: Mapping[JobId, JobStatus], elapsed: float, timeout: float) -> str:
    """``3 of 5 ready after 40 s of at most 600 s; waiting for web (Pending: …)``."""
    waiting = {job: job_status for job, job_status in job_statuses.items() if not job_status.reached_goal}
    reached_goal = len(job_statuses) - len(waiting)
    several = len({namespace for namespace, name in job_statuses}) > 1
    named = [
        f"{f'{namespace}/' if several else ''}{name} ({_state(job_status)})"
        for (namespace, name), job_status in list(waiting.items())[:_NAMED]
    ]
    if len(waiting) > _NAMED:
        named.append(f"{len(waiting) - _NAMED} more")
    line = f"{reached_goal} of {len(job_statuses)} {goal.word} after {elapsed:.0f} s of at most {timeout:.0f} s"
    return f"{line}; waiting for {', '.join(named)}" if named else line


@dataclass(frozen=True)
class TimedOut:
    """A job that did not arrive. ``job`` is how messages name it, ``log`` the end of the log that may tell why."""

    job: str
    job_status: JobStatus
    reason: str | None = None
    log: Sequence[str] = ()


def problem(goal: Goal, late: Sequence[TimedOut], number: int, timeout: float, *, keep_going: bool) -> str:
    """Why a wait for ``number`` jobs was in vain, for a person: first what is hopeless, then what took too long."""
    lost = [one for one in late if one.job_status.fatal]
    slow = [one for one in late if not one.job_status.fatal]
    lines = [f"{one.job} {_fatal_message(goal, one)}{_end_of(one)}" for one in lost[:_LISTED]]
    if len(lost) > _LISTED:
        lines.append(f"The same is true of {len(lost) - _LISTED} more; see results.")
    if lost and not keep_going:
        if number > len(lost):
            reached_goal = number - len(late)
            lines.append(f"Of the other jobs {reached_goal} were {goal.word} by then, {len(slow)} not yet.")
        return "\n".join(lines)
    if len(slow) == 1:
        lines.append(f"not {goal.word} after {timeout:.0f} s: {slow[0].job} {_last_seen(slow[0])}")
    elif slow:
        lines.append(f"{len(slow)} of {number} jobs are not {goal.word} after {timeout:.0f} s:")
        lines += [f"{one.job} {_last_seen(one)}" for one in slow[:_LISTED]]
        if len(slow) > _LISTED:
            lines.append(f"and {len(slow) - _LISTED} more; see results.")
    return "\n".join(lines)


def errors(goal: Goal, late: Mapping[JobId, TimedOut], timeout: float, *, keep_going: bool) -> dict[JobId, str]:
    """The same for each of the jobs that failed. A wait that one of them has cut short says nothing about the slow."""
    found = {job: _fatal_message(goal, one) for job, one in late.items() if one.job_status.fatal}
    if keep_going or not found:
        slow = {job: one for job, one in late.items() if not one.job_status.fatal}
        found |= {job: f"not {goal.word} after {timeout:.0f} s: it {_last_seen(one)}" for job, one in slow.items()}
    return found


def _fatal_message(goal: Goal, late: TimedOut) -> str:
    return f"will not become {goal.word}: {late.reason}"


def _state(job_status: JobStatus) -> str:
    """Status and reason, or what is still there of a job that is to go."""
    if job_status.workload is None:
        return "1 pod left" if len(job_status.pods) == 1 else f"{len(job_status.pods)} pods left"
    blocker = job_status.fatal or job_status.blocker
    if blocker is None:
        return f"{status_of(job_status.workload)}, {_counted(job_status)}"
    reason = blocker.text.rstrip(".")
    short = reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"
    return f"{status_of(job_status.workload)}: {short}"


def _last_seen(late: TimedOut) -> str:
    job_status = late.job_status
    if job_status.workload is None or "deletionTimestamp" in job_status.workload["metadata"]:
        left = [obj for obj in (job_status.workload, *job_status.pods) if obj]
        names = ", ".join(f"{obj['kind']} {obj['metadata']['name']}" for obj in left)
        return f"still has {names}"
    why = f": {late.reason}" if late.reason else ""
    return f"is {status_of(job_status.workload)}, {_counted(job_status)}{why}"


def _counted(job_status: JobStatus) -> str:
    if job_status.workload is None:
        return ""
    return f"{pods_ready(job_status.workload)} of {pods_wanted(job_status.workload)} pods ready"


def _end_of(late: TimedOut) -> str:
    if not late.log:
        return ""
    return "\n".join(["", "The log ends with:", *(f"  {line}" for line in late.log[-_LOG_LINES:])])
