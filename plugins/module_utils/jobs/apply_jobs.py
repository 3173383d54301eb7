# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Apply the plans of a task, wait for what it asks for, and report what became of each job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..engine.apply import ApplyResult, Executor
from ..engine.hints import describe
from ..engine.plan import Plan
from ..kube.errors import KubeError
from ..task import Task, TaskFailed
from ..wait.wait_result import WaitResult
from .job_results import report
from .ledger_store import LedgerStore

if TYPE_CHECKING:
    from .job import JobOptions
    from .states import State


def apply_jobs(task: Task[JobOptions], state: State, plans: list[Plan], ledger: LedgerStore) -> dict[str, Any]:
    options = task.options
    executor = Executor(
        client=task.client(),
        check_mode=task.check_mode,
        gone_timeout=options.wait_timeout,
        warn=task.warn,
        force_conflicts=options.force_conflicts,
        grace_seconds=0 if options.force else None,
    )
    results = [result for result in executor.apply_plans(plans, keep_going=options.continue_on_error) if result]
    failed = [result for result in results if result.error is not None]
    applied = [result for result in results if result.error is None]
    problems = [_failure_summary(failed, len(applied), len(plans))] if failed else []
    state.update_ledger(ledger, results)  # before a long wait, which may be interrupted
    wait_result = WaitResult()
    if options.wait and not task.check_mode and applied and (options.continue_on_error or not failed):
        from ..wait.job_wait import wait_for
        from .states import GOALS

        try:
            wait_result = wait_for(task, applied, state.goal(GOALS[options.wait_for]))
            state.update_ledger(ledger, applied)
        except KubeError as error:
            problems.append(f"everything was applied, but waiting failed: {error}")
    if wait_result.problem:
        problems.append(wait_result.problem)
    if options.wait:
        for result in applied:
            ended = result.plan.ended
            if ended and ended.status == "Failed" and result.workload is None:  # Kubernetes has removed it.
                result.error = ended.reason
                problems.append(f"{describe(result.plan)}: {ended.reason}")
    reported = report(task, results, wait_result)
    if problems:
        raise TaskFailed("\n".join(problems), **{name: reported[name] for name in ("changed", "results", "diff")})
    return reported


def _failure_summary(failed: list[ApplyResult], applied: int, number: int) -> str:
    """The error of each failed job, one a line, and how many others were applied or not tried."""
    lines = [f"{describe(result.plan)}: {result.error}" for result in failed]
    if number > 1:
        untried = number - applied - len(failed)
        lines.append(f"Of {number} jobs {applied} were applied and {len(failed)} failed; {untried} were not tried.")
    return "\n".join(lines)
