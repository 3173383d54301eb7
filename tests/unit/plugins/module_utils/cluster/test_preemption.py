# SPDX-License-Identifier: BSD-2-Clause
"""Who preempted a job: which events are about its pods, and who they name."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import slim_pod
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.preemption import (
    by_start_of_name,
    last_preemption,
    may_be_preempted,
    preemption_text,
)

from .live_objects import event, pod, workload

MESSAGE = "Preempted by pod uid-big-0 on node n1"


def preempted(name: str, message: str = MESSAGE, **fields: Any) -> dict[str, Any]:
    return event("Preempted", message, name=name, **fields)


@pytest.mark.parametrize(
    ("obj", "name", "ours"),
    [
        (workload(), "x-4bc7z", True),
        (workload(), "x-0-4bc7z", False),
        (workload(), "x-two-4bc7z", False),
        (workload(), "x", False),
        (workload(completionMode="Indexed"), "x-0-4bc7z", True),
        (workload(completionMode="Indexed"), "x-4bc7z", False),
        (workload("Deployment"), "x-6d4b7c-4bc7z", True),
        (workload("Deployment"), "x-y-6d4b7c-4bc7z", False),
        (workload("StatefulSet"), "x-0", True),
        (workload("StatefulSet"), "x-0-4bc7z", False),
    ],
)
def test_whose_pod_it_was(obj: dict[str, Any], name: str, ours: bool) -> None:
    assert (last_preemption(obj, by_start_of_name([preempted(name)])) is not None) is ours


def test_the_last_one_counts() -> None:
    first, last = preempted("x-4bc7z", "first"), preempted("x-7bc4z", "last")
    assert last_preemption(workload(), by_start_of_name([first, last])) is last


def test_a_former_job_of_the_same_name_does_not_count() -> None:
    old = preempted("x-4bc7z")
    old["metadata"]["creationTimestamp"] = "2025-12-31T00:00:00Z"
    assert last_preemption(workload(), by_start_of_name([old])) is None


def test_a_job_of_another_namespace_does_not_count() -> None:
    elsewhere = preempted("x-4bc7z")
    elsewhere["metadata"]["namespace"] = "other"
    assert last_preemption(workload(), by_start_of_name([elsewhere])) is None


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (MESSAGE, "the job was preempted by job big of namespace ml on node n1"),
        ("Preempted by pod uid-gone on node n1", "the job was preempted by a pod of a higher priority on node n1"),
        ("Preempted by pod uid-alien on node n1", "the job was preempted by a pod of a higher priority on node n1"),
        ("Preempted by a pod", "the job was preempted by one of a higher priority"),
    ],
)
def test_who_it_was(message: str, text: str) -> None:
    uses = [slim_pod(pod("big-0", labels={"app": "big"})), slim_pod(pod("alien", labels={}))]
    assert preemption_text(preempted("x-4bc7z", message), {use.uid: use for use in uses}) == text


@pytest.mark.parametrize(
    ("pods", "possible"),
    [
        ([], True),
        ([pod()], True),
        ([pod(nodeName="n1", deleted=True)], True),
        ([pod(nodeName="n1")], False),
    ],
)
def test_where_a_preemption_is_looked_for(pods: list[dict[str, Any]], possible: bool) -> None:
    assert may_be_preempted(workload(status={"startTime": "2026-01-01T00:00:00Z"}), pods) is possible


@pytest.mark.parametrize(
    "obj",
    [
        workload(),
        workload(suspend=True, status={"startTime": "2026-01-01T00:00:00Z"}),
        workload(status={"conditions": [{"type": "Failed", "status": "True"}]}),
    ],
    ids=["new", "paused", "failed"],
)
def test_a_job_that_has_not_begun_or_has_ended_was_not_preempted(obj: dict[str, Any]) -> None:
    assert not may_be_preempted(obj, [])
