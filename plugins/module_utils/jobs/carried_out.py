# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Carry the plans of a task out, wait for what it asks for, and tell what became of each job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..engine.execute import Executor, Outcome
from ..engine.plan import Ended, Plan
from ..engine.remedies import describe
from ..kube.errors import KubeError
from ..task import Task, TaskFailed
from .remembered import Memory
from .reported import report
from .waited import Waited


def carry_out(task: Task, plans: list[Plan], memory: Memory) -> dict[str, Any]:
    executor = Executor(
        client=task.client(),
        check_mode=task.check_mode,
        gone_timeout=task.params["wait_timeout"],
        warn=task.warn,
        force_conflicts=task.params["force_conflicts"],
        grace_seconds=0 if task.params["force"] else None,
    )
    keep_going = task.params["continue_on_error"]
    begun = [outcome for outcome in executor.carry_out_all(plans, keep_going=keep_going) if outcome]
    failed = [outcome for outcome in begun if outcome.error is not None]
    done = [outcome for outcome in begun if outcome.error is None]
    problems = [_told(failed, len(done), len(plans))] if failed else []
    if task.params["state"] == "absent":
        memory.forget(done)
    else:
        memory.record(begun)  # before a long wait, which somebody may break off
    waited = Waited()
    if task.params["wait"] and not task.check_mode and done and (keep_going or not failed):
        from .waited_for import wait_for

        try:
            waited = wait_for(task, done)
            memory.record(done)
        except KubeError as error:
            problems.append(f"all else was done, but waiting for it failed: {error}")
    if waited.problem:
        problems.append(waited.problem)
    if task.params["wait"]:
        for outcome, ended in _failed_long_ago(done):
            outcome.error = ended.reason
            problems.append(f"{describe(outcome.plan)}: {ended.reason}")
    result = report(task, begun, waited)
    if problems:
        raise TaskFailed("\n".join(problems), **{name: result[name] for name in ("changed", "results", "diff")})
    return result


def _failed_long_ago(outcomes: list[Outcome]) -> Iterator[tuple[Outcome, Ended]]:
    """Trainings that waiting cannot find any more, because Kubernetes has removed them."""
    for outcome in outcomes:
        ended = outcome.plan.ended
        if ended and ended.status == "Failed" and outcome.workload is None:
            yield outcome, ended


def _told(failed: list[Outcome], done: int, number: int) -> str:
    """Which jobs failed and why, one a line, and how many others were done or not begun."""
    lines = [f"{describe(outcome.plan)}: {outcome.error}" for outcome in failed]
    if number > 1:
        untried = number - done - len(failed)
        lines.append(f"Of {number} jobs {done} were done and {len(failed)} failed; {untried} were not tried.")
    return "\n".join(lines)
