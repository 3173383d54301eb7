# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Carry the plans of a task out, wait for what it asks for, and tell what became of each job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..engine.apply import ApplyResult, Executor
from ..engine.hints import describe
from ..engine.plan import Completion, Plan
from ..kube.errors import KubeError
from ..task import Task, TaskFailed
from ..wait.wait_result import WaitResult
from .job_results import report
from .ledger_store import LedgerStore

if TYPE_CHECKING:
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
        from ..wait.job_wait import wait_for

        try:
            wait_result = wait_for(task, done)
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
