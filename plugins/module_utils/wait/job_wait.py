# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Wait for what a task asks for, and say of each job that did not get there why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ..cluster.live_jobs import JobId, by_time
from ..cluster.read import reasons_of
from ..cluster.status import STUCK, status_of
from ..engine.apply import ApplyResult
from ..engine.hints import describe
from ..engine.plan import WORKLOAD_KINDS, Action
from ..engine.results import why
from ..kube.client import Client
from ..kube.errors import KubeError
from ..logs.log_lines import View, last_lines, split_log
from ..logs.log_query import log_query
from ..manifest.secrets import live_secret_values
from ..task import Task
from .goals import DELETED, Goal
from .loop import JobStatus, Wait, WaitTarget
from .progress import ProgressReporter, TimedOut, errors, problem
from .wait_result import WaitResult

if TYPE_CHECKING:
    from ..jobs.job import JobOptions

_LOG_LINES = 20
_LOG_BYTES = 16_384
_LOGS = 5  # of more jobs than that nobody reads the logs in a message


def wait_for(task: Task[JobOptions], outcomes: Sequence[ApplyResult], goal: Goal) -> WaitResult:
    """Wait for the goal. The outcomes get the last workload seen, and the error. Raises KubeError."""
    by_id = {(outcome.plan.namespace, outcome.plan.name): outcome for outcome in outcomes}
    # A training that has run and is gone has nothing to be waited for.
    jobs = [_wait_target(outcome) for outcome in outcomes if goal is DELETED or outcome.workload]
    client, timeout, keep_going = task.client(), float(task.options.wait_timeout), task.options.continue_on_error
    job_statuses = Wait(
        client,
        goal,
        timeout,
        task.warn,
        keep_going=keep_going,
        new_nodes=task.options.wait_for_nodes,
        tell=ProgressReporter(goal, timeout, task.progress),
    ).wait(jobs)
    for job, job_status in job_statuses.items():
        if job_status.workload and goal is not DELETED:
            workload = job_status.workload
            by_id[job].objects[workload["kind"], workload["metadata"]["name"]] = workload
    reasons = _reasons(client, job_statuses)
    logs = _logs(task, job_statuses)
    late = {
        job: TimedOut(describe(by_id[job].plan), job_status, why(by_id[job].plan, reasons.get(job)), logs.get(job, ()))
        for job, job_status in job_statuses.items()
        if not job_status.reached_goal
    }
    for job, error in errors(goal, late, timeout, keep_going=keep_going).items():
        by_id[job].error = error
    told = problem(goal, list(late.values()), len(jobs), timeout, keep_going=keep_going) if late else None
    return WaitResult(job_statuses.keys(), reasons, logs, told)


def _wait_target(outcome: ApplyResult) -> WaitTarget:
    plan = outcome.plan
    steps = [step for step in plan.steps if step.kind in WORKLOAD_KINDS]
    kind = outcome.workload["kind"] if outcome.workload else next((step.kind for step in steps), None)
    fresh = any(step.action is Action.CREATE or step.replaces for step in steps)
    return WaitTarget((plan.namespace, plan.name), kind, fresh)


def _reasons(client: Client, job_statuses: Mapping[JobId, JobStatus]) -> dict[JobId, str]:
    """Why jobs do not run, with a look at what is free on the nodes, which waiting has done without."""
    told = {job: job_status.fatal or job_status.blocker for job, job_status in job_statuses.items()}
    reasons = {job: blocker.sentence for job, blocker in told.items() if blocker}
    stuck = {
        job: job_status
        for job, job_status in job_statuses.items()
        if job_status.workload and not job_status.fatal
        if not job_status.reached_goal or status_of(job_status.workload) in STUCK
    }
    with suppress(KubeError):  # What was seen while waiting is told in any case.
        reasons |= reasons_of(
            client,
            {job: job_status.workload for job, job_status in stuck.items() if job_status.workload},
            {job: job_status.pods for job, job_status in stuck.items()},
            by_time([event for job_status in stuck.values() for event in job_status.events]),
        )
    return reasons


def _logs(task: Task[JobOptions], job_statuses: Mapping[JobId, JobStatus]) -> dict[JobId, list[str]]:
    """The last lines of the containers whose end has ended hopes, secrets masked."""
    found: dict[JobId, list[str]] = {}
    for job, job_status in job_statuses.items():
        if job_status.fatal and job_status.fatal.log and job_status.workload and len(found) < _LOGS:
            task.mask(live_secret_values(job_status.workload))  # A job that was named has not shown them yet.
            found[job] = _end_of_log(task, job[0], *job_status.fatal.log)
    return found


def _end_of_log(task: Task[JobOptions], namespace: str, pod: str, container: str) -> list[str]:
    query = log_query(container, tail=_LOG_LINES, since=None, previous=False, whole=False)
    view = View(max_line=_LOG_BYTES, secrets=task.masked)
    try:
        return (
            task.client()
            .read_log(namespace, pod, query, lambda pieces: last_lines(split_log(pieces, view), _LOG_LINES, _LOG_BYTES))
            .lines
        )
    except KubeError:  # The pod has gone, or logs are not ours to read: the reason must do.
        return []
