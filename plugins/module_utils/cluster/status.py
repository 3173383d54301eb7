# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The status of a job, from its workload, and the predicates that waiting needs. Pure.

The status never comes from the pods: counting them cannot tell a finished training from one whose pods were removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STUCK = ("Pending", "Partially Running", "Paused", "Failed")
"""The statuses that call for a reason."""

# FailureTarget (since 1.31) is set while the last pods still terminate, Failed once they have.
_FAILED = frozenset({"Failed", "FailureTarget"})


def status_of(workload: Mapping[str, Any]) -> str:
    """``Pending``, ``Running``, ``Partially Running``, ``Paused``, ``Succeeded`` or ``Failed``."""
    if workload["kind"] == "Job":
        return _job_status(workload)
    wanted = workload["spec"].get("replicas", 1)
    ready = workload.get("status", {}).get("readyReplicas", 0)
    if wanted == 0:
        return "Paused"
    if ready >= wanted:
        return "Running"
    return "Partially Running" if ready else "Pending"


def is_ready(workload: Mapping[str, Any]) -> bool:
    """Every pod of the current generation is ready; a training may also have succeeded."""
    status, spec = workload.get("status", {}), workload["spec"]
    if workload["kind"] == "Job":
        if _job_status(workload) == "Succeeded":
            return True
        return bool(status.get("ready", 0) >= spec.get("parallelism", 1) - status.get("succeeded", 0) > 0)
    wanted = spec.get("replicas", 1)
    if _is_outdated(workload):
        return False
    if workload["kind"] == "StatefulSet":
        rolls = spec.get("updateStrategy", {}).get("type") != "OnDelete"
        current = not rolls or status.get("updateRevision") == status.get("currentRevision")
        return bool(current and status.get("readyReplicas", 0) == wanted)
    # ``replicas`` counts old pods until the rollout has removed them.
    return all(status.get(count, 0) == wanted for count in ("updatedReplicas", "replicas", "availableReplicas"))


def is_terminating(obj: Mapping[str, Any]) -> bool:
    """Whether an object was deleted and only waits for its finalizers, dependents or grace period."""
    return "deletionTimestamp" in obj["metadata"]


def is_rolled_out(workload: Mapping[str, Any]) -> bool:
    """All wanted pods were created from the current template, ready or not; always true for a Job."""
    if workload["kind"] == "Job":
        return True
    updated = workload.get("status", {}).get("updatedReplicas", 0)
    return not _is_outdated(workload) and bool(updated >= pods_wanted(workload))


def is_complete(workload: Mapping[str, Any]) -> bool:
    """A training has succeeded. Other kinds never finish: they are complete when they are ready."""
    return _job_status(workload) == "Succeeded" if workload["kind"] == "Job" else is_ready(workload)


def failure_of(workload: Mapping[str, Any]) -> str | None:
    """The server's message why the workload will not become ready; None while it still may."""
    if _is_outdated(workload):
        return None
    for condition in workload.get("status", {}).get("conditions") or ():
        failed = condition["type"] in _FAILED and condition["status"] == "True"
        timed_out = condition["type"] == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded"
        if failed or (timed_out and condition["status"] == "False"):
            return str(condition.get("message") or condition.get("reason"))
    return None


def pods_ready(workload: Mapping[str, Any]) -> int:
    return int(workload.get("status", {}).get("ready" if workload["kind"] == "Job" else "readyReplicas", 0))


def pods_wanted(workload: Mapping[str, Any]) -> int:
    """The number of pods that should exist now."""
    spec = workload["spec"]
    return int(spec.get("parallelism", 1) if workload["kind"] == "Job" else spec.get("replicas", 1))


def _is_outdated(workload: Mapping[str, Any]) -> bool:
    """Whether the status is older than the last change of the spec. Jobs have no observedGeneration."""
    if workload["kind"] == "Job":
        return False
    observed = workload.get("status", {}).get("observedGeneration", 0)
    return bool(observed < workload["metadata"].get("generation", 0))


def _job_status(job: Mapping[str, Any]) -> str:
    status = job.get("status", {})
    true = {condition["type"] for condition in status.get("conditions") or () if condition["status"] == "True"}
    completions = job["spec"].get("completions")
    if "Complete" in true or (completions and status.get("succeeded", 0) >= completions):
        return "Succeeded"
    if true & _FAILED:
        return "Failed"
    # The spec, as the condition Suspended follows only when the controller has seen it.
    if job["spec"].get("suspend"):
        return "Paused"
    # ``active`` also counts pods without a node; ``ready`` does not (absent from old servers).
    return "Running" if status.get("active") and status.get("ready") != 0 else "Pending"
