# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Carry the plans of a task out, wait for what it asks for, and tell what became of each job."""

from __future__ import annotations

from typing import Any

from ..engine.execute import Executor, Failed, Outcome
from ..engine.plan import Plan
from ..kube.errors import KubeError
from ..task import Task, TaskFailed
from .reported import report
from .waited_for import too_late, wait_for


def carry_out(task: Task, plans: list[Plan]) -> dict[str, Any]:
    executor = Executor(
        client=task.client(),
        check_mode=task.check_mode,
        gone_timeout=task.params["wait_timeout"],
        warn=task.warn,
        force_conflicts=task.params["force_conflicts"],
        grace_seconds=0 if task.params["force"] else None,
    )
    outcomes: list[Outcome] = []
    problem: str | None = None
    for plan in plans:
        try:
            outcomes.append(executor.carry_out(plan))
        except Failed as failure:
            untried = len(plans) - len(outcomes) - 1
            counts = f" Jobs done before it: {len(outcomes)}; not tried after it: {untried}."
            problem = f"{failure}{counts if len(plans) > 1 else ''}"
            if failure.outcome.plan.changed:
                outcomes.append(failure.outcome)
            break
    late: dict[tuple[str, str], str] = {}
    if task.params["wait"] and not task.check_mode and problem is None:
        try:
            late = wait_for(task, outcomes)
        except KubeError as error:
            problem = f"all was done, but waiting for it failed: {error}"
    result = report(task, outcomes)
    done = {name: result[name] for name in ("changed", "results", "diff")}
    if problem is not None:
        raise TaskFailed(problem, **done)
    if late:
        raise TaskFailed(too_late(task, late, result["results"]), **done)
    return result
