# SPDX-License-Identifier: BSD-2-Clause
"""Apply the plans of a task, wait if requested, and report the result of each job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..cluster.declared import read_declared
from ..cluster.endpoints import has_node_port
from ..cluster.read import JobId, node_address, read_reasons
from ..cluster.status import STUCK, status_of
from ..engine.apply import ApplyResult, Executor
from ..engine.plan import WORKLOAD_KINDS, Action, adds_replicas, describe, starts_pods
from ..engine.results import action_summary, diffs_of, full_reason, result_of
from ..kube.errors import KubeError
from ..task import Task, TaskFailed
from ..wait.goals import DELETED, WaitResult
from ..wait.job_wait import wait_for_jobs
from ..wait.loop import WaitTarget
from .history_writer import HistoryWriter
from .job_fit import judge_jobs
from .job_plans import suggest_namespace
from .ledger_store import LedgerStore
from .replan import plan_and_apply
from .select import SelectedJob
from .states import GOALS, State

if TYPE_CHECKING:
    from .job import JobOptions


def apply_jobs(task: Task[JobOptions], state: State, jobs: list[SelectedJob], ledger: LedgerStore) -> dict[str, Any]:
    options = task.options
    executor = Executor(
        client=task.client(),
        check_mode=task.check_mode,
        gone_timeout=options.wait_timeout,
        warn=task.warn,
        force_conflicts=options.force_conflicts,
        grace_seconds=0 if options.force else None,
        progress=task.progress,
        namespace_meant=suggest_namespace(task),
    )
    history = HistoryWriter(task, jobs)
    results = [result for result in plan_and_apply(task, state, jobs, ledger, executor, history.look) if result]
    failed = [result for result in results if result.error is not None]
    applied = [result for result in results if result.error is None]
    problems = [_failure_summary(failed, len(applied), len(jobs))] if failed else []
    state.update_ledger(ledger, results)  # before a long wait, which may be interrupted
    history.record(results, ledger.new_ends)
    wait_result = WaitResult()
    if options.wait and not task.check_mode and applied and (options.continue_on_error or not failed):
        wait_result = _wait_for(task, state, applied)
        state.update_ledger(ledger, applied)
        history.record(applied, ledger.new_ends, wait_result.logs)
    if wait_result.problem:
        problems.append(wait_result.problem)
    if not options.missing_ok and results and all(result.plan.missing for result in results):
        raise TaskFailed(_nothing_to_delete(results))
    if options.wait:
        for result in applied:
            ended = result.plan.ended
            if ended and ended.status == "Failed" and result.workload is None:  # Kubernetes has removed it.
                result.error = ended.reason
                problems.append(f"{describe(result.plan)}: {ended.reason}")
    report = _report(task, results, wait_result, fits_of(task, state, jobs, applied))
    if problems:
        raise TaskFailed("\n".join(problems), **{name: report[name] for name in ("changed", "results", "diff")})
    return report


def _nothing_to_delete(results: Iterable[ApplyResult]) -> str:
    lines = [f"{describe(result.plan)}: {result.plan.missing}" for result in results]
    return (" " if len(lines) == 1 else "\n").join(
        [*lines, "Nothing was deleted. If that is right, set O(missing_ok=true)."]
    )


def _failure_summary(failed: list[ApplyResult], applied: int, number: int) -> str:
    """The error of each failed job, one a line, and how many others were applied or not attempted."""
    lines = [f"{describe(result.plan)}: {result.error}" for result in failed]
    if number > 1:
        untried = number - applied - len(failed)
        lines.append(f"Jobs: {applied} of {number} applied, {len(failed)} failed, {untried} not attempted.")
    if not applied and not any(result.plan.changed for result in failed):
        lines.append("Nothing was changed.")
    return "\n".join(lines)


def _wait_for(task: Task[JobOptions], state: State, results: list[ApplyResult]) -> WaitResult:
    """Wait for the goal of the state. The results get the last workload seen, and the error."""
    goal = state.goal(GOALS[task.options.wait_for])
    # Nothing is left to wait for if a training has ended and was removed.
    waiting = {
        (result.plan.namespace, result.plan.name): result for result in results if goal is DELETED or result.workload
    }
    wait_result = wait_for_jobs(
        task,
        goal,
        [_wait_target(result) for result in waiting.values()],
        timeout=float(task.options.wait_timeout),
        keep_going=task.options.continue_on_error,
        new_nodes=task.options.wait_for_nodes,
    )
    for job, workload in wait_result.workloads.items():
        waiting[job].objects[workload["kind"], workload["metadata"]["name"]] = workload
    for job, error in wait_result.errors.items():
        waiting[job].error = error
    return wait_result


def _wait_target(result: ApplyResult) -> WaitTarget:
    plan = result.plan
    steps = [step for step in plan.steps if step.kind in WORKLOAD_KINDS]
    kind = result.workload["kind"] if result.workload else next((step.kind for step in steps), None)
    fresh = any(step.action is Action.CREATE or step.replaces for step in steps)
    return WaitTarget((plan.namespace, plan.name), kind, fresh, describe(plan), full_reason(plan, None) or "")


def fits_of(
    task: Task[JobOptions], state: State, jobs: Sequence[SelectedJob], applied: Iterable[ApplyResult]
) -> dict[JobId, dict[str, Any]]:
    """In check mode, whether the jobs that would start pods would run, and what they would wait for."""
    if not task.check_mode or not state.builds_objects or task.options.wait_for_nodes:
        return {}
    models = {job.id: job for job in jobs}
    starting = []
    for plan in (result.plan for result in applied):
        objects = tuple(step.desired for step in plan.steps if step.desired)
        if (starts_pods(plan) or adds_replicas(plan)) and objects:
            needed = next((step.desired for step in plan.prerequisites if step.kind == "PriorityClass"), None)
            starting.append(replace(models[plan.namespace, plan.name], objects=objects, priority_class=needed))
    if not starting:
        return {}
    try:
        rows = judge_jobs(task.client(), starting, read_declared(task.client(), task.warn))
    except KubeError as error:
        task.warn(f"whether the jobs would run is not known: {error}")
        return {}
    return {(row["namespace"], row["name"]): row for row in rows}


def _report(
    task: Task[JobOptions], applied: list[ApplyResult], wait_result: WaitResult, fits: dict[JobId, dict[str, Any]]
) -> dict[str, Any]:
    try:
        reasons, address = _stuck_reasons(task, applied, wait_result), _node_address(task, applied)
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
            fit=fits.get((result.plan.namespace, result.plan.name)),
        )
        for result in applied
    ]
    message = action_summary(results, "job")
    gpus = sum(result.plan.released_gpus for result in applied)
    if gpus:
        released = "would be released" if task.check_mode else "released"
        message += f"; {gpus} {'GPU' if gpus == 1 else 'GPUs'} {released}"
    return {
        "changed": any(result.plan.changed for result in applied),
        "results": results,
        "diff": task.diff(lambda: (diff for result in applied for diff in diffs_of(result.plan))),
        "msg": message,
    }


def _stuck_reasons(task: Task[JobOptions], applied: list[ApplyResult], wait_result: WaitResult) -> dict[JobId, str]:
    """Why jobs are not running. Without a wait, new jobs are left out: their pods may only just have been created."""
    stuck = {}
    for result in applied:
        job = result.plan.namespace, result.plan.name
        settled = task.options.wait or result.plan.action is Action.UNCHANGED
        if result.workload and settled and job not in wait_result.jobs and status_of(result.workload) in STUCK:
            stuck[job] = result.workload
    if not stuck:
        return dict(wait_result.reasons)
    return {**wait_result.reasons, **read_reasons(task.client(), stuck)}


def _node_address(task: Task[JobOptions], applied: list[ApplyResult]) -> str | None:
    """The address of node ports, if a job has one."""
    services = [obj for result in applied for obj in result.objects.values() if obj["kind"] == "Service"]
    if not has_node_port(services):
        return None
    return node_address(task.client())
