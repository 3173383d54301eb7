# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The result of a task: per job its action, its status, why it is not running, and its URLs."""

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


def report(task: Task[JobOptions], applied: list[ApplyResult], wait_result: WaitResult) -> dict[str, Any]:
    try:
        reasons, address = _reasons(task, applied, wait_result), _node_address(task, applied)
    except KubeError as error:  # The jobs were applied: report that.
        task.warn(f"reasons and access_urls are incomplete: {error}")
        reasons, address = dict(wait_result.reasons), None
    results = [
        result_of(
            result,
            reason=reasons.get((result.plan.namespace, result.plan.name)),
            log=wait_result.logs.get((result.plan.namespace, result.plan.name), ()),
            node_address=address,
            check_mode=task.check_mode,
        )
        for result in applied
    ]
    counts = Counter(row["action"] for row in results)
    summary = ", ".join(f"{number} {action}" for action, number in sorted(counts.items()))
    return {
        "changed": any(result.plan.changed for result in applied),
        "results": results,
        "diff": task.diff(lambda: (diff for result in applied for diff in diffs_of(result.plan, task.masked))),
        "msg": f"{len(results)} {'job' if len(results) == 1 else 'jobs'}: {summary or 'nothing done'}"
        + _released(sum(result.plan.released_gpus for result in applied), task.check_mode),
    }


def _released(gpus: int, check_mode: bool) -> str:
    if gpus == 0:
        return ""
    return f"; {gpus} {'GPU' if gpus == 1 else 'GPUs'} {'would be released' if check_mode else 'released'}"


def _reasons(task: Task[JobOptions], applied: list[ApplyResult], wait_result: WaitResult) -> dict[JobId, str]:
    """Why jobs are not running. It is too early to say for new jobs that were not waited for."""
    stuck = {}
    for result in applied:
        job = result.plan.namespace, result.plan.name
        settled = task.options.wait or result.plan.action is Action.UNCHANGED
        if result.workload and settled and job not in wait_result.jobs and status_of(result.workload) in STUCK:
            stuck[job] = result.workload
    if not stuck:
        return dict(wait_result.reasons)
    from ..cluster.read import read_reasons  # Most tasks do not need it.

    return {**wait_result.reasons, **read_reasons(task.client(), stuck)}


def _node_address(task: Task[JobOptions], applied: list[ApplyResult]) -> str | None:
    """The address of node ports, if a job has one."""
    services = [obj for result in applied for obj in result.objects.values() if obj["kind"] == "Service"]
    if not any(port.get("nodePort") for service in services for port in service["spec"]["ports"]):
        return None
    from ..cluster.read import node_address

    return node_address(task.client())
