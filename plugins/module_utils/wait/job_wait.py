# SPDX-License-Identifier: BSD-2-Clause
"""Wait until the jobs of a task reach a goal, and explain why some do not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..cluster.read_jobs import JobId
from ..cluster.read_reasons import by_time, reasons_of
from ..cluster.secret_references import log_secrets
from ..cluster.status import STUCK, status_of
from ..kube.client import Client
from ..kube.container_log import read_log
from ..kube.errors import KubeError
from ..logs.log_lines import Excerpt, View, last_lines, split_log
from ..logs.log_query import log_query
from ..task import Task
from .goals import DELETED, Goal, WaitResult, WaitTarget
from .loop import JobStatus, Wait
from .progress import UnreachedGoal, progress_line, wait_errors, wait_problem

_LOG_LINES = 20
_LOG_BYTES = 16_384
_LOGS = 5  # the logs of more jobs make a message unreadable
_LOG_REQUESTS = 20  # Some containers have none.


def wait_for_jobs(
    task: Task[Any], goal: Goal, targets: Sequence[WaitTarget], *, timeout: float, keep_going: bool, new_nodes: bool
) -> WaitResult:
    """Wait for the goal; the options are those of ``Wait``."""
    client = task.client()
    began = time.monotonic()

    def report(job_statuses: Mapping[JobId, JobStatus]) -> float:
        return task.progress(lambda: progress_line(goal, job_statuses, time.monotonic() - began, timeout))

    wait = Wait(client, goal, timeout, task.warn, keep_going=keep_going, new_nodes=new_nodes, report=report)
    job_statuses = wait.wait(targets)
    reasons = _read_reasons(client, job_statuses)
    logs = _read_log_ends(task, job_statuses)
    unreached = {
        target.id: UnreachedGoal(
            target.title,
            job_statuses[target.id],
            " ".join(filter(None, (reasons.get(target.id), target.note))) or None,
            logs.get(target.id, ()),
        )
        for target in targets
        if not job_statuses[target.id].reached_goal
    }
    return WaitResult(
        job_statuses.keys(),
        reasons,
        logs,
        {job: status.workload for job, status in job_statuses.items() if status.workload and goal is not DELETED},
        wait_errors(goal, unreached, timeout, keep_going=keep_going),
        wait_problem(goal, list(unreached.values()), len(targets), timeout, keep_going=keep_going) or None,
    )


def _read_reasons(client: Client, job_statuses: Mapping[JobId, JobStatus]) -> dict[JobId, str]:
    """Why jobs are not running, also by what is free on the nodes, which the wait itself does not read."""
    reasons = {job: seen.sentence for job, status in job_statuses.items() if (seen := status.fatal or status.blocker)}
    stuck = {
        job: status
        for job, status in job_statuses.items()
        if status.workload and not status.fatal and not status.unreadable
        if not status.reached_goal or status_of(status.workload) in STUCK
    }
    with suppress(KubeError):  # The reasons seen during the wait have to do.
        reasons |= reasons_of(
            client,
            {job: status.workload for job, status in stuck.items() if status.workload},
            {job: status.pods for job, status in stuck.items()},
            by_time(event for status in stuck.values() for event in status.events),
        )
    return reasons


def _read_log_ends(task: Task[Any], job_statuses: Mapping[JobId, JobStatus]) -> dict[JobId, list[str]]:
    """The last lines of the containers that have ended and keep their jobs from the goal, with secrets masked."""
    found: dict[JobId, list[str]] = {}
    ended = [
        (job, status, reason.log)
        for job, status in job_statuses.items()
        if (reason := status.fatal or status.blocker) and reason.log and not status.reached_goal
    ]
    ended.sort(key=lambda each: each[1].fatal is None)
    for job, status, (pod, container) in ended[:_LOG_REQUESTS]:
        # The kubelet keeps the log of one run before the current one (PodLogOptions, previous).
        is_running = is_container_running(status.pods, pod, container)
        lines = end_of_log(task, status.workload or {}, status.pods, job[0], pod, container, previous=is_running)
        if lines:
            found[job] = lines
        if len(found) == _LOGS:
            break
    return found


def is_container_running(pods: Sequence[Mapping[str, Any]], pod: str, container: str) -> bool:
    """Whether the container of a crash loop runs once more, so that its own log does not show how it ended."""
    of_pod = (each.get("status", {}).get("containerStatuses") or () for each in pods if each["metadata"]["name"] == pod)
    return any("running" in (one.get("state") or {}) for found in of_pod for one in found if one["name"] == container)


def end_of_log(
    task: Task[Any],
    workload: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    namespace: str,
    pod: str,
    container: str,
    *,
    previous: bool,
) -> list[str]:
    """The last lines of a container of a workload, with its secrets masked; none where they cannot be read."""
    client, query = task.client(), log_query(container, tail=_LOG_LINES, since=None, previous=previous)
    try:
        logged = [each for each in pods if each["metadata"]["name"] == pod]
        secrets = log_secrets(client, namespace, workload, logged)
        view = View(max_line=_LOG_BYTES, secrets=task.masked | secrets)

        def last(pieces: Iterator[bytes]) -> Excerpt:
            return last_lines(split_log(pieces, view), _LOG_LINES, _LOG_BYTES)

        return read_log(client, namespace, pod, query, last).lines
    except KubeError:  # The pod is gone, or reading logs is forbidden: the reason has to do.
        return []
