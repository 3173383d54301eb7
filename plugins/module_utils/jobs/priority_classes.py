# SPDX-License-Identifier: BSD-2-Clause
"""The PriorityClasses of all jobs: the modules of administrators create and correct them, gpuctl_job verifies them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..engine.apply import ApplyFailed, Executor
from ..engine.changes import diffs_of
from ..engine.plan import Action, Plan, Step
from ..engine.planning import step_for
from ..kube.client import Client
from ..kube.errors import KubeError, if_allowed
from ..kube.resources import PRIORITY_CLASS
from ..labels import is_managed
from ..task import Task
from .objects.priority import PRIORITIES, priority_class, priority_class_problem

Object = dict[str, Any]


def read_priority_classes(client: Client) -> dict[str, Object] | None:
    """All PriorityClasses by name; None if listing them is forbidden."""
    found = if_allowed(lambda: client.list_objects(PRIORITY_CLASS), None)
    return None if found is None else {obj["metadata"]["name"]: obj for obj in found}


def priority_class_problems(live: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What is wrong with the PriorityClasses of jobs, and who can correct it."""
    return [problem for obj in live.values() if (problem := priority_class_problem(obj))]


def priority_class_steps(client: Client, warn: Callable[[str], None]) -> tuple[Step, ...]:
    """The steps that make the PriorityClasses what jobs need: their values cannot change, so they are recreated.

    A pod has the value from its creation, so those that exist keep theirs.
    """
    live = read_priority_classes(client)
    if live is None:
        return ()
    steps = []
    for desired in map(priority_class, PRIORITIES):
        present = live.get(desired["metadata"]["name"])
        problem = present and priority_class_problem(present)
        if present is None:
            steps.append(step_for(desired, None))
        # pkg/apis/scheduling/validation, ValidatePriorityClassUpdate: "may not be changed in an update".
        elif problem and is_managed(present):
            steps.append(Step(Action.RECREATE, desired, present))
        elif problem:
            warn(problem)
    return tuple(steps)


def provide_priority_classes(task: Task[Any]) -> list[dict[str, str]]:
    """Create those that are missing if the account may; the entries of ``diff`` for them.

    The task has done what it was for, so nothing here fails it: gpuctl_job says what is missing.
    """
    client = task.client()
    plan = Plan("", "", "PriorityClasses")
    executor = Executor(client, check_mode=task.check_mode, gone_timeout=0, warn=lambda text: None)
    try:
        steps = priority_class_steps(client, task.warn)
        plan = plan.with_steps(step for step in steps if step.action is Action.CREATE)
        executor.apply_plan(plan)
    except ApplyFailed as failure:
        plan = failure.result.plan
    except KubeError:
        return []
    return task.diff(lambda: diffs_of(plan))
