# SPDX-License-Identifier: BSD-2-Clause
"""The PriorityClasses of jobs: what counts as wrong, and who corrects it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.priority import (
    PRIORITIES,
    priority_class,
    priority_class_problem,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.priority_classes import (
    priority_class_problems,
    priority_class_steps,
)


class Cluster:
    """A client that lists PriorityClasses."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.objects = objects

    def list_objects(self, resource: Any) -> list[dict[str, Any]]:
        return list(self.objects)


@pytest.mark.parametrize("priority", PRIORITIES)
def test_what_we_apply_is_right_with_and_without_the_defaults_of_the_server(priority: str):
    desired = priority_class(priority)
    assert priority_class_problem(desired) is None
    policy = desired.get("preemptionPolicy", "PreemptLowerPriority")
    assert priority_class_problem({**desired, "globalDefault": False, "preemptionPolicy": policy}) is None


@pytest.mark.parametrize(
    ("priority", "fields", "words"),
    [
        ("low", {"value": 1_000_000_000}, "value 1000000000 instead of 100"),
        ("high", {"globalDefault": True}, "globalDefault True instead of False"),
        ("high", {"preemptionPolicy": "Never"}, "preemptionPolicy Never instead of PreemptLowerPriority"),
        ("low", {"preemptionPolicy": None}, "preemptionPolicy PreemptLowerPriority instead of Never"),
    ],
)
def test_what_is_wrong_is_named_with_a_hint(priority: str, fields: dict[str, Any], words: str):
    live = {**priority_class(priority), **fields}
    (problem,) = priority_class_problems({live["metadata"]["name"]: live})
    assert words in problem
    assert "run gpuctl_rbac with level submit" in problem
    assert "kubectl delete" not in problem

    unmanaged = {**live, "metadata": {"name": live["metadata"]["name"]}}
    assert f"kubectl delete priorityclass gpuctl-{priority}" in str(priority_class_problem(unmanaged))


def test_classes_of_others_are_not_ours_to_judge():
    assert (
        priority_class_problem({"metadata": {"name": "system-node-critical"}, "value": 1, "globalDefault": True})
        is None
    )


def test_administrators_create_what_is_missing_and_recreate_what_is_wrong_and_ours():
    warnings: list[str] = []
    wrong = {**priority_class("low"), "value": 7}
    theirs = {"metadata": {"name": "gpuctl-high"}, "value": 7}
    steps = priority_class_steps(Cluster(wrong, theirs), warnings.append)  # type: ignore[arg-type]
    assert [(str(step.action), step.name) for step in steps] == [
        ("create", "gpuctl-medium"),
        ("recreate", "gpuctl-low"),
        ("create", "gpuctl-opportunistic"),
    ]
    assert len(warnings) == 1
    assert "kubectl delete priorityclass gpuctl-high" in warnings[0]
