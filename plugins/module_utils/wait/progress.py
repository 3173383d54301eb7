# SPDX-License-Identifier: BSD-2-Clause
"""How a wait is reported: in a line while it lasts, and in one message when it fails. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..cluster.pending_reason import PendingReason
from ..cluster.read_jobs import JobId
from ..cluster.related import has_succeeded, is_pod_ready, own_pods, rank_of
from ..cluster.status import is_rolled_out, is_terminating, pods_ready, pods_wanted, status_of
from ..kube.errors import as_sentence
from ..manifest.problems import abridged, enumerated, number_of
from .goals import SCHEDULED, Goal, unfinished_pods
from .loop import JobStatus

_NAMED = 3  # jobs that a line of progress names
_LISTED = 10  # jobs that a message lists; the results have all of them
_NAMED_LEFT = 5  # objects or ranks of a job that a message names
_LONGEST_REASON = 300
_LOG_LINES = 5  # of a failed container, in the message


def progress_line(goal: Goal, job_statuses: Mapping[JobId, JobStatus], elapsed: float, timeout: float) -> str:
    """``3 of 5 jobs ready after 40 s (timeout: 600 s); waiting for web (Pending: …)``."""
    waiting = {job: job_status for job, job_status in job_statuses.items() if not job_status.reached_goal}
    several = len({namespace for namespace, name in job_statuses}) > 1
    named = [
        f"{f'{namespace}/' if several else ''}{name} ({_state_text(goal, job_status)})"
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
    if any(job.job_status.unreadable for job in unreached):
        return _unreadable_problem(goal, unreached, jobs)
    fatal = [job for job in unreached if job.job_status.fatal]
    timed_out = [job for job in unreached if not job.job_status.fatal]
    lines: list[str] = []
    for job in fatal[:_LISTED]:
        lines += [f"{job.title} {_fatal_error(goal, job)}", *_end_of_log(job)]
    if len(fatal) > _LISTED:
        lines.append(f"{len(fatal) - _LISTED} more jobs failed as well; see results.")
    if fatal and not keep_going:
        if jobs > len(fatal):
            lines.append(f"Other jobs: {jobs - len(unreached)} {goal.word}, {len(timed_out)} not {goal.word} yet.")
        return "\n".join(lines)
    if len(timed_out) == 1:
        lines += [f"{timed_out[0].title} is {_timeout_error(goal, timed_out[0], timeout)}", *_end_of_log(timed_out[0])]
    elif timed_out:
        lines.append(f"{len(timed_out)} of {jobs} jobs are not {goal.word} after {timeout:.0f} s:")
        lines += [f"{job.title}: {_last_state(goal, job)}" for job in timed_out[:_LISTED]]
        if len(timed_out) > _LISTED:
            lines.append(f"{len(timed_out) - _LISTED} more jobs are not {goal.word}; see results.")
    return "\n".join(lines)


def _end_of_log(job: UnreachedGoal) -> list[str]:
    return ["The log ends with:", *(f"  {line}" for line in job.log[-_LOG_LINES:])] if job.log else []


def wait_errors(
    goal: Goal, unreached: Mapping[JobId, UnreachedGoal], timeout: float, *, keep_going: bool
) -> dict[JobId, str]:
    """The error of each job that failed. In a wait that a fatal job has cut short, the others have not timed out."""
    errors = {id: _fatal_error(goal, job) for id, job in unreached.items() if job.job_status.fatal}
    errors |= {
        id: f"not known whether it is {goal.word}: {as_sentence(error)}"
        for id, job in unreached.items()
        if (error := job.job_status.unreadable)
    }
    if keep_going or not errors:
        errors |= {id: _timeout_error(goal, job, timeout) for id, job in unreached.items() if id not in errors}
    return errors


def _fatal_error(goal: Goal, job: UnreachedGoal) -> str:
    return f"will not become {goal.word}: {job.reason}"


def _timeout_error(goal: Goal, job: UnreachedGoal, timeout: float) -> str:
    return f"not {goal.word} after {timeout:.0f} s: {_last_state(goal, job)}"


def _unreadable_problem(goal: Goal, unreached: Sequence[UnreachedGoal], jobs: int) -> str:
    """The message of a wait that could not read the cluster at its end."""
    error = as_sentence(unreached[0].job_status.unreadable)
    seen = [job for job in unreached if job.job_status.workload or job.job_status.pods]
    if len(unreached) == 1:
        last = f" Last seen: {as_sentence(_last_state(goal, seen[0]))}" if seen else ""
        return f"It is not known whether {unreached[0].title} is {goal.word}: {error}{last}"
    lines = [f"It is not known whether {len(unreached)} of {jobs} jobs are {goal.word}: {error}"]
    lines += [f"{job.title}: last seen {_last_state(goal, job)}" for job in seen[:_LISTED]]
    if len(seen) > _LISTED:
        lines.append(f"{len(seen) - _LISTED} more jobs; see results.")
    return "\n".join(lines)


# -- the state of a job ------------------------------------------------------------------------------------------------


def _state_text(goal: Goal, job_status: JobStatus) -> str:
    """What is left until the goal, and the reason if one is known."""
    workload, blocker = job_status.workload, job_status.fatal or job_status.blocker
    if workload is None or not goal.requires_running:
        return _short_reason(blocker) if blocker else _remaining_text(job_status)
    if blocker is None:
        return _pods_of_goal(goal, workload, job_status.pods)
    if pods_ready(workload):
        return f"{_pods_of_goal(goal, workload, job_status.pods)}: {_short_reason(blocker)}"
    return f"{status_of(workload)}: {_short_reason(blocker)}"


def _last_state(goal: Goal, job: UnreachedGoal) -> str:
    workload = job.job_status.workload
    if workload is None or is_terminating(workload) or not goal.requires_running:
        names = [f"{obj['kind']} {obj['metadata']['name']}" for obj in _remaining(job.job_status)]
        return f"{abridged(names, _NAMED_LEFT)} still terminating"
    return f"{_pods_of_goal(goal, workload, job.job_status.pods)}{f'. Reason: {job.reason}' if job.reason else ''}"


def _short_reason(blocker: PendingReason) -> str:
    reason = blocker.sentence.rstrip(".")
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"


def _remaining(job_status: JobStatus) -> list[Mapping[str, Any]]:
    """What is left of a job that is deleted, or of the pods of one that is paused."""
    workload, pods = job_status.workload, job_status.pods
    if workload and not is_terminating(workload):
        return list(unfinished_pods(pods))
    return [workload, *pods] if workload else list(pods)


def _remaining_text(job_status: JobStatus) -> str:
    """``Job and 2 pods left, until 2026-01-01T00:02:00Z at the latest``."""
    left = _remaining(job_status)
    owners = [obj["kind"] for obj in left if obj["kind"] != "Pod"]
    pods = [number_of(len(left) - len(owners), "pod")] if len(left) > len(owners) or not owners else []
    # Of a pod, it is the end of its grace period, not the time of the request (meta/v1/types.go, DeletionTimestamp).
    ends = [obj["metadata"]["deletionTimestamp"] for obj in left if obj["kind"] == "Pod" and is_terminating(obj)]
    until = f", until {max(ends)} at the latest" if ends else ""
    return f"{' and '.join([*owners, *pods])} left{until}"


def _pods_of_goal(goal: Goal, workload: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
    """The status, and how many pods are where they should be: ``Pending, 0 of 2 pods ready``."""
    own = own_pods(workload, pods)
    wanted = pods_wanted(workload)
    if goal.word == SCHEDULED.word:
        placed = sum(bool(pod["spec"].get("nodeName")) for pod in unfinished_pods(own) if not is_terminating(pod))
        return f"{status_of(workload)}, {placed} of {wanted} pods placed on nodes"
    if workload["kind"] == "Job":
        return _pods_of_training(workload, own)
    # Until a rollout ends, the pods that are ready may be old ones.
    updated = workload.get("status", {}).get("updatedReplicas", 0)
    old = workload.get("status", {}).get("replicas", 0) - updated
    unseen = updated >= wanted and not is_rolled_out(workload)  # The status is older than the change.
    if pods_ready(workload) and (old > 0 or unseen):
        left = f", {old} old left" if old > 0 else ""
        return f"{status_of(workload)}, {0 if unseen else updated} of {wanted} pods updated{left}"
    return f"{status_of(workload)}, {pods_ready(workload)} of {wanted} pods ready"


def _pods_of_training(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
    status, wanted = job.get("status", {}), pods_wanted(job)
    # The Job counts a pod that has ended a second or two later.
    succeeded = max(sum(map(has_succeeded, pods)), status.get("succeeded", 0))
    failed = status.get("failed", 0)
    if succeeded >= wanted:
        return f"{wanted} of {wanted} pods succeeded"
    ready = min(pods_ready(job), wanted - succeeded)
    others = (f", {number} {what}" for number, what in ((succeeded, "succeeded"), (failed, "failed")) if number)
    return f"{status_of(job)}, {ready} of {wanted} pods ready{''.join(others)}{_missing_ranks(job, pods)}"


def _missing_ranks(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
    """Which nodes of a training that runs partially are missing."""
    # Other Jobs give their pods no index, and replace any of them.
    if job["spec"].get("completionMode") != "Indexed" or status_of(job) != "Partially Running":
        return ""
    there = {rank_of(pod) for pod in pods if is_pod_ready(pod) or has_succeeded(pod)}
    missing = [str(rank) for rank in range(pods_wanted(job)) if rank not in there]
    if len(missing) > _NAMED_LEFT:
        missing = [*missing[:_NAMED_LEFT], f"{len(missing) - _NAMED_LEFT} others"]
    return f", rank{'' if len(missing) == 1 else 's'} {enumerated(missing, 'and')} not ready" if missing else ""
