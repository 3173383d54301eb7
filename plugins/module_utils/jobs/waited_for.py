# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Wait for what a task asks for, and say of each job that did not get there why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from ..cluster.live import JobId, in_time
from ..cluster.read import reasons_of
from ..cluster.status import STUCK, status_of
from ..engine.execute import Outcome
from ..engine.goals import COMPLETE, GONE, PAUSED, READY, SCHEDULED, Goal, renewed
from ..engine.plan import WORKLOAD_KINDS, Action
from ..engine.progress import Announcer, Late, errors, problem
from ..engine.remedies import describe
from ..engine.report import why
from ..engine.wait import Awaited, Standing, Wait
from ..kube.client import Client
from ..kube.errors import KubeError
from ..logs.lines import View, last_lines, lines_of
from ..logs.query import log_query
from ..manifest.secrets import live_secret_values
from ..task import Task
from .waited import Waited

_LOG_LINES = 20
_LOG_BYTES = 16_384
_LOGS = 5  # of more jobs than that nobody reads the logs in a message

_WAIT_FOR = {goal.word: goal for goal in (SCHEDULED, READY, COMPLETE)}


def wait_for(task: Task, outcomes: Sequence[Outcome]) -> Waited:
    """Wait for what the task asks for. The outcomes get the last workload seen, and the error. Raises KubeError."""
    goal = _goal(task)
    by_id = {(outcome.plan.namespace, outcome.plan.name): outcome for outcome in outcomes}
    # A training that has run and is gone has nothing to be waited for.
    jobs = [_awaited(outcome) for outcome in outcomes if goal is GONE or outcome.workload]
    client, timeout, keep_going = task.client(), float(task.params["wait_timeout"]), task.params["continue_on_error"]
    standings = Wait(
        client,
        goal,
        timeout,
        task.warn,
        keep_going=keep_going,
        new_nodes=task.params["wait_for_nodes"],
        tell=Announcer(goal, timeout, task.progress),
    ).wait(jobs)
    for job, standing in standings.items():
        if standing.workload and goal is not GONE:
            workload = standing.workload
            by_id[job].objects[workload["kind"], workload["metadata"]["name"]] = workload
    reasons = _reasons(client, standings)
    logs = _logs(task, standings)
    late = {
        job: Late(describe(by_id[job].plan), standing, why(by_id[job].plan, reasons.get(job)), logs.get(job, ()))
        for job, standing in standings.items()
        if not standing.arrived
    }
    for job, error in errors(goal, late, timeout, keep_going=keep_going).items():
        by_id[job].error = error
    told = problem(goal, list(late.values()), len(jobs), timeout, keep_going=keep_going) if late else None
    return Waited(standings.keys(), reasons, logs, told)


def _goal(task: Task) -> Goal:
    state = task.params["state"]
    if state == "absent":
        return GONE
    if state == "paused":
        return PAUSED
    goal = _WAIT_FOR[task.params["wait_for"]]
    return renewed(goal) if state == "restarted" else goal


def _awaited(outcome: Outcome) -> Awaited:
    plan = outcome.plan
    steps = [step for step in plan.steps if step.kind in WORKLOAD_KINDS]
    kind = outcome.workload["kind"] if outcome.workload else next((step.kind for step in steps), None)
    fresh = any(step.action is Action.CREATE or step.replaces for step in steps)
    return Awaited((plan.namespace, plan.name), kind, fresh)


def _reasons(client: Client, standings: Mapping[JobId, Standing]) -> dict[JobId, str]:
    """Why jobs do not run, with a look at what is free on the nodes, which waiting has done without."""
    told = {job: standing.hopeless or standing.obstacle for job, standing in standings.items()}
    reasons = {job: obstacle.sentence for job, obstacle in told.items() if obstacle}
    stuck = {
        job: standing
        for job, standing in standings.items()
        if standing.workload and not standing.hopeless
        if not standing.arrived or status_of(standing.workload) in STUCK
    }
    with suppress(KubeError):  # What was seen while waiting is told in any case.
        reasons |= reasons_of(
            client,
            {job: standing.workload for job, standing in stuck.items() if standing.workload},
            {job: standing.pods for job, standing in stuck.items()},
            in_time([event for standing in stuck.values() for event in standing.events]),
        )
    return reasons


def _logs(task: Task, standings: Mapping[JobId, Standing]) -> dict[JobId, list[str]]:
    """The last lines of the containers whose end has ended hopes, secrets masked."""
    found: dict[JobId, list[str]] = {}
    for job, standing in standings.items():
        if standing.hopeless and standing.hopeless.log and standing.workload and len(found) < _LOGS:
            task.hide(live_secret_values(standing.workload))  # A job that was named has not shown them yet.
            found[job] = _end_of_log(task, job[0], *standing.hopeless.log)
    return found


def _end_of_log(task: Task, namespace: str, pod: str, container: str) -> list[str]:
    query = log_query(container, tail=_LOG_LINES, since=None, previous=False, whole=False)
    view = View(longest=_LOG_BYTES, secrets=task.hidden)
    try:
        return (
            task.client()
            .read_log(namespace, pod, query, lambda pieces: last_lines(lines_of(pieces, view), _LOG_LINES, _LOG_BYTES))
            .lines
        )
    except KubeError:  # The pod has gone, or logs are not ours to read: the reason must do.
        return []
