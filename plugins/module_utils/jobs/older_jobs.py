# SPDX-License-Identifier: BSD-2-Clause
"""Jobs on a server that lacks a feature: by its version before they are applied, by its answer afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..engine.apply import ApplyResult
from ..engine.plan import Action, Plan, describe
from ..engine.planning import starts_pods
from ..kube.client import Client
from ..kube.server_version import lacks
from ..task import Task
from .objects.older_servers import needed_feature, without_feature
from .select import SelectedJob


def for_server(client: Client, jobs: Sequence[SelectedJob], plans: Sequence[Plan]) -> list[SelectedJob]:
    """The jobs, those that start pods built for the server's version, which is read where one of them depends on it."""
    built = []
    for job, plan in zip(jobs, plans, strict=True):
        feature = needed_feature(job.objects[0]) if starts_pods(plan) else None
        older = without_feature(job.objects) if feature and lacks(client, feature) else None
        built.append(replace(job, objects=older) if older else job)
    return built


def warn_of_dropped_fields(task: Task[Any], results: Iterable[ApplyResult]) -> None:
    """Say what the server has left out of Jobs: its version has the field, but its feature gate is off."""
    for result in results:
        step = next((step for step in result.plan.steps if step.kind == "Job" and step.desired), None)
        if step is None or step.action is Action.UNCHANGED or not (answer := result.workload):
            continue
        feature = needed_feature(step.desired)
        if feature and needed_feature(answer) is None:
            task.warn(
                f"{describe(result.plan)}: the API server has dropped {'.'.join(feature.path)} of its Job: the feature "
                f"gate {feature.gate} is off. The training does not end when its first node has succeeded. Switch the "
                f"gate on, or delete the training once it is done."
            )
