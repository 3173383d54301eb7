# SPDX-License-Identifier: BSD-2-Clause
"""How a wait is reported: line by line while it lasts, and in one message when it fails. Pure, but for the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..cluster.read import JobId
from ..cluster.status import is_terminating, pods_ready, pods_wanted, status_of
from .goals import Goal
from .loop import JobStatus

_MIN_INTERVAL = 2.0  # seconds between two lines, and before the first: a quick start needs none
_MAX_INTERVAL = 30.0
_NAMED = 3  # jobs that a line of progress names
_LISTED = 10  # jobs that a message lists; the results have all of them
_LONGEST_REASON = 160
_LOG_LINES = 5  # of a failed container, in the message


class ProgressReporter:
    """Shows a line when a status has changed, and now and then when none has."""

    def __init__(
        self, goal: Goal, timeout: float, show: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._goal = goal
        self._timeout = timeout
        self._show = show
        self._clock = clock
        self._started = self._shown_at = clock()
        self._shown: object = None

    def __call__(self, job_statuses: Mapping[JobId, JobStatus]) -> float:
        """Returns the number of seconds after which to call it again, even if nothing changes."""
        now = self._clock()
        current = {job: (job_status.reached_goal, _state(job_status)) for job, job_status in job_statuses.items()}
        due = self._shown_at + (_MAX_INTERVAL if current == self._shown else _MIN_INTERVAL)
        if now >= due:
            self._show(progress_line(self._goal, job_statuses, now - self._started, self._timeout))
            self._shown, self._shown_at = current, now
            due = now + _MAX_INTERVAL
        return due - now


def progress_line(goal: Goal, job_statuses: Mapping[JobId, JobStatus], elapsed: float, timeout: float) -> str:
    """``3 of 5 jobs ready after 40 s (timeout: 600 s); waiting for web (Pending: …)``."""
    waiting = {job: job_status for job, job_status in job_statuses.items() if not job_status.reached_goal}
    several = len({namespace for namespace, name in job_statuses}) > 1
    named = [
        f"{f'{namespace}/' if several else ''}{name} ({_state(job_status)})"
        for (namespace, name), job_status in list(waiting.items())[:_NAMED]
    ]
    if len(waiting) > _NAMED:
        named.append(f"{len(waiting) - _NAMED} more")
    jobs = "1 job" if len(job_statuses) == 1 else f"{len(job_statuses)} jobs"
    line = f"{len(job_statuses) - len(waiting)} of {jobs} {goal.word} after {elapsed:.0f} s (timeout: {timeout:.0f} s)"
    return f"{line}; waiting for {', '.join(named)}" if named else line


@dataclass(frozen=True)
class UnreachedGoal:
    """A job that did not reach the goal. ``title`` names it in messages; ``log`` has the last lines of a container."""

    title: str
    job_status: JobStatus
    reason: str | None = None
    log: Sequence[str] = ()


def wait_problem(goal: Goal, unreached: Sequence[UnreachedGoal], jobs: int, timeout: float, *, keep_going: bool) -> str:
    """The message of a wait for a number of jobs that failed: first the fatal jobs, then those that timed out."""
    fatal = [job for job in unreached if job.job_status.fatal]
    timed_out = [job for job in unreached if not job.job_status.fatal]
    lines: list[str] = []
    for job in fatal[:_LISTED]:
        log = (f"  {line}" for line in job.log[-_LOG_LINES:])
        lines += [f"{job.title} {_fatal_error(goal, job)}", *(("The log ends with:", *log) if job.log else ())]
    if len(fatal) > _LISTED:
        lines.append(f"{len(fatal) - _LISTED} more jobs failed as well; see results.")
    if fatal and not keep_going:
        if jobs > len(fatal):
            lines.append(f"Other jobs: {jobs - len(unreached)} {goal.word}, {len(timed_out)} not {goal.word} yet.")
        return "\n".join(lines)
    if len(timed_out) == 1:
        lines.append(f"{timed_out[0].title} is {_timeout_error(goal, timed_out[0], timeout)}")
    elif timed_out:
        lines.append(f"{len(timed_out)} of {jobs} jobs are not {goal.word} after {timeout:.0f} s:")
        lines += [f"{job.title}: {_last_state(job)}" for job in timed_out[:_LISTED]]
        if len(timed_out) > _LISTED:
            lines.append(f"{len(timed_out) - _LISTED} more jobs are not {goal.word}; see results.")
    return "\n".join(lines)


def wait_errors(
    goal: Goal, unreached: Mapping[JobId, UnreachedGoal], timeout: float, *, keep_going: bool
) -> dict[JobId, str]:
    """The error of each job that failed. In a wait that a fatal job has cut short, the others have not timed out."""
    errors = {id: _fatal_error(goal, job) for id, job in unreached.items() if job.job_status.fatal}
    if keep_going or not errors:
        errors |= {id: _timeout_error(goal, job, timeout) for id, job in unreached.items() if id not in errors}
    return errors


def _fatal_error(goal: Goal, job: UnreachedGoal) -> str:
    return f"will not become {goal.word}: {job.reason}"


def _timeout_error(goal: Goal, job: UnreachedGoal, timeout: float) -> str:
    return f"not {goal.word} after {timeout:.0f} s: {_last_state(job)}"


def _state(job_status: JobStatus) -> str:
    """Status and reason, or the number of pods left of a deleted job."""
    if job_status.workload is None:
        return f"{len(job_status.pods)} pod{'' if len(job_status.pods) == 1 else 's'} left"
    blocker = job_status.fatal or job_status.blocker
    if blocker is None:
        return _status_and_pods(job_status.workload)
    reason = blocker.sentence.rstrip(".")
    short = reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"
    return f"{status_of(job_status.workload)}: {short}"


def _last_state(job: UnreachedGoal) -> str:
    workload, pods = job.job_status.workload, job.job_status.pods
    if workload is None or is_terminating(workload):
        left = ", ".join(f"{obj['kind']} {obj['metadata']['name']}" for obj in (workload, *pods) if obj)
        return f"{left} still terminating"
    return f"{_status_and_pods(workload)}{f'. Reason: {job.reason}' if job.reason else ''}"


def _status_and_pods(workload: Mapping[str, Any]) -> str:
    return f"{status_of(workload)}, {pods_ready(workload)} of {pods_wanted(workload)} pods ready"
