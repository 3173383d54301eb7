# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Wait for what a task asks for, and say what did not come true."""

from __future__ import annotations

from typing import Any

from ..engine.execute import Outcome
from ..engine.wait import wait_for_state, wait_until_gone
from ..task import Task


def wait_for(task: Task, outcomes: list[Outcome]) -> dict[tuple[str, str], str]:
    """Wait for what the task asks for. The jobs for which it did not come true, each with what is left of it when it
    should be gone. The outcomes get the last workload seen.
    """
    jobs = [(outcome.plan.namespace, outcome.plan.name) for outcome in outcomes]
    timeout = float(task.params["wait_timeout"])
    if task.params["state"] == "absent":
        left = wait_until_gone(task.client(), jobs, timeout)
        return {job: ", ".join(what) for job, what in left.items()}
    workloads, missed = wait_for_state(task.client(), jobs, task.params["wait_for"], timeout)
    for outcome in outcomes:
        workload = workloads.get((outcome.plan.namespace, outcome.plan.name))
        if workload:
            outcome.objects[workload["kind"], workload["metadata"]["name"]] = workload
    return dict.fromkeys(missed, "")


def too_late(task: Task, late: dict[tuple[str, str], str], results: list[dict[str, Any]]) -> str:
    if task.params["state"] == "absent":
        left = [f"{name} in namespace {namespace}: {what}" for (namespace, name), what in sorted(late.items())]
        return f"not gone after {task.params['wait_timeout']} s, still there: {'; '.join(left)}"
    lines = []
    for result in results:
        if (result["namespace"], result["name"]) in late:
            why = f": {result['reason']}" if result["reason"] else ""
            place = f"in namespace {result['namespace']}"
            lines.append(f"{result['kind']} {result['name']} {place} is {result['status']}{why}")
    return f"not {task.params['wait_for']} after at most {task.params['wait_timeout']} s: " + "; ".join(lines)
