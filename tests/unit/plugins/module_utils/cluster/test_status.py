# SPDX-License-Identifier: BSD-2-Clause
"""Statuses, and the predicates that waiting needs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.status import (
    failure_of,
    is_complete,
    is_ready,
    is_rolled_out,
    is_suspended,
    pods_ready,
    pods_wanted,
    status_of,
)

from .live_objects import workload


def true(kind: str, **more: str) -> dict[str, str]:
    return {"type": kind, "status": "True", **more}


# kind, spec, status, the word, is it ready, is it complete
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], str, bool, bool]] = {
    "a Job just made": ("Job", {}, {}, "Pending", False, False),
    "a Job whose pod has no node": ("Job", {}, {"active": 1, "ready": 0}, "Pending", False, False),
    "a Job whose pod runs": ("Job", {}, {"active": 1, "ready": 1}, "Running", True, False),
    "a Job of a server that counts no ready pods": ("Job", {}, {"active": 1}, "Running", False, False),
    "a Job of which half runs": (
        "Job",
        {"parallelism": 2, "completions": 2},
        {"active": 2, "ready": 1},
        "Partially Running",
        False,
        False,
    ),
    "a Job of which a pod was refused": (
        "Job",
        {"parallelism": 2, "completions": 2},
        {"active": 1, "ready": 1},
        "Partially Running",
        False,
        False,
    ),
    "a Job of which all runs": (
        "Job",
        {"parallelism": 2, "completions": 2},
        {"active": 2, "ready": 2},
        "Running",
        True,
        False,
    ),
    "a Job with one pod that succeeded and is not counted yet": (
        "Job",
        {"parallelism": 2, "completions": 2},
        {"active": 1, "ready": 1, "uncountedTerminatedPods": {"succeeded": ["uid"]}},
        "Running",
        False,
        False,
    ),
    "a Job that works off a queue": ("Job", {"parallelism": 2}, {"active": 2, "ready": 2}, "Running", True, False),
    "a Job with more completions than pods": (
        "Job",
        {"parallelism": 2, "completions": 10},
        {"active": 2, "ready": 2, "succeeded": 3},
        "Running",
        False,
        False,
    ),
    "a Job with the condition Complete": ("Job", {}, {"conditions": [true("Complete")]}, "Succeeded", True, True),
    "a Job with all completions": ("Job", {}, {"succeeded": 1}, "Succeeded", True, True),
    "a Job with one of two completions": (
        "Job",
        {"completions": 2, "parallelism": 2},
        {"succeeded": 1, "active": 1, "ready": 1},
        "Running",
        True,
        False,
    ),
    "a Job that failed a pod and tries again": (
        "Job",
        {},
        {"failed": 1, "active": 1, "ready": 1},
        "Running",
        True,
        False,
    ),
    "a Job that failed": ("Job", {}, {"failed": 1, "conditions": [true("Failed")]}, "Failed", False, False),
    "a Job whose last pods still end": (
        "Job",
        {},
        {"failed": 1, "terminating": 1, "conditions": [true("FailureTarget")]},
        "Failed",
        False,
        False,
    ),
    "a Job that reached its deadline": (
        "Job",
        {"activeDeadlineSeconds": 60},
        {"conditions": [true("FailureTarget", reason="DeadlineExceeded"), true("Failed", reason="DeadlineExceeded")]},
        "TimedOut",
        False,
        False,
    ),
    "a Job at its deadline whose last pods still end": (
        "Job",
        {"activeDeadlineSeconds": 60},
        {"terminating": 1, "conditions": [true("FailureTarget", reason="DeadlineExceeded")]},
        "TimedOut",
        False,
        False,
    ),
    "a Job that failed before its deadline": (
        "Job",
        {"activeDeadlineSeconds": 60},
        {"conditions": [true("Failed", reason="BackoffLimitExceeded")]},
        "Failed",
        False,
        False,
    ),
    "a Job that was paused": ("Job", {"suspend": True}, {"conditions": [true("Suspended")]}, "Paused", False, False),
    "a Job that is to be paused": ("Job", {"suspend": True}, {"active": 1, "ready": 1}, "Paused", True, False),
    "a Job to be resumed": ("Job", {"suspend": False}, {"conditions": [true("Suspended")]}, "Pending", False, False),
    "a Job that was resumed": (
        "Job",
        {"suspend": False},
        {"active": 1, "ready": 1, "conditions": [{"type": "Suspended", "status": "False"}]},
        "Running",
        True,
        False,
    ),
    "a Deployment just made": ("Deployment", {}, {}, "Pending", False, False),
    "a Deployment with one of two": (
        "Deployment",
        {},
        {"readyReplicas": 1, "observedGeneration": 1},
        "Partially Running",
        False,
        False,
    ),
    "a Deployment with all": (
        "Deployment",
        {},
        {"readyReplicas": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2, "observedGeneration": 1},
        "Running",
        True,
        True,
    ),
    "a Deployment that still rolls out": (
        "Deployment",
        {},
        {"readyReplicas": 2, "updatedReplicas": 1, "replicas": 3, "availableReplicas": 2, "observedGeneration": 1},
        "Running",
        False,
        False,
    ),
    "a Deployment whose change was not seen yet": (
        "Deployment",
        {},
        {"readyReplicas": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2, "observedGeneration": 0},
        "Running",
        False,
        False,
    ),
    "a Deployment scaled to nothing": ("Deployment", {"replicas": 0}, {"observedGeneration": 1}, "Paused", True, True),
    "a StatefulSet that runs": (
        "StatefulSet",
        {"replicas": 1},
        {"readyReplicas": 1, "observedGeneration": 1, "updateRevision": "a", "currentRevision": "a"},
        "Running",
        True,
        True,
    ),
    "a StatefulSet between two revisions": (
        "StatefulSet",
        {"replicas": 1},
        {"readyReplicas": 1, "observedGeneration": 1, "updateRevision": "b", "currentRevision": "a"},
        "Running",
        False,
        False,
    ),
    "a StatefulSet whose pods are replaced by hand": (
        "StatefulSet",
        {"replicas": 1, "updateStrategy": {"type": "OnDelete"}},
        {"readyReplicas": 1, "observedGeneration": 1, "updateRevision": "b", "currentRevision": "a"},
        "Running",
        True,
        True,
    ),
}


@pytest.mark.parametrize(("kind", "spec", "status", "word", "ready", "complete"), CASES.values(), ids=CASES)
def test_the_status_of_a_workload(
    kind: str, spec: dict[str, Any], status: dict[str, Any], word: str, ready: bool, complete: bool
) -> None:
    obj = workload(kind, status=status, **spec)
    assert (status_of(obj), is_ready(obj), is_complete(obj)) == (word, ready, complete)


FAILURES: dict[str, tuple[str, list[dict[str, str]], str | None]] = {
    "none": ("Job", [], None),
    "a failed Job": ("Job", [true("Failed", message="Job has reached the limit")], "Job has reached the limit"),
    "a Job whose last pods still end": ("Job", [true("FailureTarget", message="the limit")], "the limit"),
    "without a message": ("Job", [true("Failed", reason="BackoffLimitExceeded")], "BackoffLimitExceeded"),
    "a rollout that took too long": (
        "Deployment",
        [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}],
        "timed out",
    ),
    "a rollout that goes on": (
        "Deployment",
        [true("Progressing", reason="ReplicaSetUpdated", message="going on")],
        None,
    ),
    "a rollout that is paused": (
        "Deployment",
        [{"type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused"}],
        None,
    ),
}


@pytest.mark.parametrize(("kind", "conditions", "failure"), FAILURES.values(), ids=FAILURES)
def test_which_workloads_have_failed(kind: str, conditions: list[dict[str, str]], failure: str | None) -> None:
    assert failure_of(workload(kind, status={"conditions": conditions, "observedGeneration": 1})) == failure


def test_the_failure_of_an_outdated_rollout_does_not_count() -> None:
    timed_out = [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "old"}]
    changed = workload("Deployment", status={"conditions": timed_out, "observedGeneration": 1})
    changed["metadata"]["generation"] = 2
    assert failure_of(changed) is None
    changed["status"]["observedGeneration"] = 2
    assert failure_of(changed) == "old"


@pytest.mark.parametrize(
    ("kind", "updated", "observed", "rolled_out"),
    [
        ("Job", 0, 1, True),
        ("Deployment", 1, 1, False),
        ("Deployment", 2, 1, True),
        ("Deployment", 2, 0, False),
        ("StatefulSet", 2, 1, True),
    ],
)
def test_whether_all_pods_match_the_current_template(kind: str, updated: int, observed: int, rolled_out: bool) -> None:
    status = {"updatedReplicas": updated, "observedGeneration": observed}
    assert is_rolled_out(workload(kind, status=status)) == rolled_out


def test_how_many_pods_are_ready() -> None:
    assert pods_ready(workload("Job", status={"ready": 1})) == 1
    assert pods_ready(workload("Deployment", status={"readyReplicas": 2})) == 2
    assert pods_ready(workload("StatefulSet")) == 0


def test_how_many_pods_are_wanted() -> None:
    assert pods_wanted(workload("Job", parallelism=3, completions=5)) == 3
    assert pods_wanted(workload("StatefulSet", replicas=1)) == 1


@pytest.mark.parametrize(
    ("annotations", "suspended", "status"),
    [({}, True, "Pending"), ({"runwhere.ai/paused-replicas": "2"}, True, "Paused"), ({}, False, "Pending")],
    ids=["waits", "was paused", "is admitted"],
)
def test_a_job_that_waits_for_kueue_is_pending(annotations: dict[str, str], suspended: bool, status: str):
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    job = {"kind": "Job", "metadata": {"labels": labels, "annotations": annotations}, "spec": {"suspend": suspended}}
    assert status_of(job) == status
    assert is_suspended(job) is suspended
