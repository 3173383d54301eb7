# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Carry the plans of a task out, wait for what it asks for, and tell what became of each job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..engine.apply import ApplyResult, Executor
from ..engine.hints import describe
from ..engine.plan import WORKLOAD_KINDS, Action, Completion, Plan
from ..engine.results import why
from ..kube.errors import KubeError
from ..task import Task, TaskFailed
from ..wait.wait_result import WaitResult
from .job_results import report
from .ledger_store import LedgerStore

if TYPE_CHECKING:
    from ..wait.loop import WaitTarget
    from .job import JobOptions


def apply_jobs(task: Task[JobOptions], plans: list[Plan], ledger: LedgerStore) -> dict[str, Any]:
    executor = Executor(
        client=task.client(),
        check_mode=task.check_mode,
        gone_timeout=task.options.wait_timeout,
        warn=task.warn,
        force_conflicts=task.options.force_conflicts,
        grace_seconds=0 if task.options.force else None,
    )
    keep_going = task.options.continue_on_error
    begun = [outcome for outcome in executor.apply_plans(plans, keep_going=keep_going) if outcome]
    failed = [outcome for outcome in begun if outcome.error is not None]
    done = [outcome for outcome in begun if outcome.error is None]
    problems = [_told(failed, len(done), len(plans))] if failed else []
    if task.options.state == "absent":
        ledger.forget(done)
    else:
        ledger.record(begun)  # before a long wait, which somebody may break off
    wait_result = WaitResult()
    if task.options.wait and not task.check_mode and done and (keep_going or not failed):
        try:
            wait_result = _wait_for(task, done)
            ledger.record(done)
        except KubeError as error:
            problems.append(f"all else was done, but waiting for it failed: {error}")
    if wait_result.problem:
        problems.append(wait_result.problem)
    if task.options.wait:
        for outcome, ended in _failed_long_ago(done):
            outcome.error = ended.reason
            problems.append(f"{describe(outcome.plan)}: {ended.reason}")
    result = report(task, begun, wait_result)
    if problems:
        raise TaskFailed("\n".join(problems), **{name: result[name] for name in ("changed", "results", "diff")})
    return result


def _wait_for(task: Task[JobOptions], results: list[ApplyResult]) -> WaitResult:
    """Wait for the goal of the task. The results get the last workload seen, and the error. Raises KubeError."""
    from ..wait.goals import DELETED, goal_of
    from ..wait.job_wait import wait_for_jobs

    goal = goal_of(task.options.state, task.options.wait_for)
    # A training that has ended and was removed has nothing to wait for.
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
    from ..wait.loop import WaitTarget

    plan = result.plan
    steps = [step for step in plan.steps if step.kind in WORKLOAD_KINDS]
    kind = result.workload["kind"] if result.workload else next((step.kind for step in steps), None)
    fresh = any(step.action is Action.CREATE or step.replaces for step in steps)
    return WaitTarget((plan.namespace, plan.name), kind, fresh, describe(plan), why(plan, None) or "")


def _failed_long_ago(outcomes: list[ApplyResult]) -> Iterator[tuple[ApplyResult, Completion]]:
    """Trainings that waiting cannot find any more, because Kubernetes has removed them."""
    for outcome in outcomes:
        ended = outcome.plan.ended
        if ended and ended.status == "Failed" and outcome.workload is None:
            yield outcome, ended


def _told(failed: list[ApplyResult], done: int, number: int) -> str:
    """Which jobs failed and why, one a line, and how many others were done or not begun."""
    lines = [f"{describe(outcome.plan)}: {outcome.error}" for outcome in failed]
    if number > 1:
        untried = number - done - len(failed)
        lines.append(f"Of {number} jobs {done} were done and {len(failed)} failed; {untried} were not tried.")
    return "\n".join(lines)
