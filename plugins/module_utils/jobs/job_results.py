# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What a task tells about its jobs: what was done, where they stand, why they do not run, where they answer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ..cluster.live_jobs import JobId
from ..cluster.status import STUCK, status_of
from ..engine.apply import ApplyResult
from ..engine.plan import Action
from ..engine.results import diffs_of, result_of
from ..kube.errors import KubeError
from ..task import Task
from ..wait.wait_result import WaitResult

if TYPE_CHECKING:
    from .job import JobOptions


def report(task: Task[JobOptions], outcomes: list[ApplyResult], wait_result: WaitResult) -> dict[str, Any]:
    try:
        reasons, address = _reasons(task, outcomes, wait_result), _node_address(task, outcomes)
    except KubeError as error:  # What was done is told all the same.
        task.warn(f"reasons and access_urls are incomplete: {error}")
        reasons, address = dict(wait_result.reasons), None
    results = [
        result_of(
            outcome,
            reason=reasons.get((outcome.plan.namespace, outcome.plan.name)),
            log=wait_result.logs.get((outcome.plan.namespace, outcome.plan.name), ()),
            node_address=address,
            check_mode=task.check_mode,
        )
        for outcome in outcomes
    ]
    counts = Counter(result["action"] for result in results)
    summary = ", ".join(f"{number} {action}" for action, number in sorted(counts.items()))
    return {
        "changed": any(outcome.plan.changed for outcome in outcomes),
        "results": results,
        "diff": task.diff(lambda: (diff for outcome in outcomes for diff in diffs_of(outcome.plan, task.masked))),
        "msg": f"{len(results)} {'job' if len(results) == 1 else 'jobs'}: {summary or 'nothing done'}"
        + _released(sum(outcome.plan.released_gpus for outcome in outcomes), task.check_mode),
    }


def _released(gpus: int, check_mode: bool) -> str:
    if gpus == 0:
        return ""
    return f"; {gpus} {'GPU' if gpus == 1 else 'GPUs'} {'would be released' if check_mode else 'released'}"


def _reasons(task: Task[JobOptions], outcomes: list[ApplyResult], wait_result: WaitResult) -> dict[JobId, str]:
    """Why jobs do not run. A job that was created a moment ago has no story to tell yet, unless it was waited for."""
    stuck = {}
    for outcome in outcomes:
        job = outcome.plan.namespace, outcome.plan.name
        settled = task.options.wait or outcome.plan.action is Action.UNCHANGED
        if outcome.workload and settled and job not in wait_result.jobs and status_of(outcome.workload) in STUCK:
            stuck[job] = outcome.workload
    if not stuck:
        return dict(wait_result.reasons)
    from ..cluster.read import read_reasons  # Here, and below: of most tasks nothing is stuck.

    return {**wait_result.reasons, **read_reasons(task.client(), stuck)}


def _node_address(task: Task[JobOptions], outcomes: list[ApplyResult]) -> str | None:
    """Where node ports answer, if any of the jobs has one."""
    services = [obj for outcome in outcomes for obj in outcome.objects.values() if obj["kind"] == "Service"]
    if not any(port.get("nodePort") for service in services for port in service["spec"]["ports"]):
        return None
    from ..cluster.read import node_address

    return node_address(task.client())
