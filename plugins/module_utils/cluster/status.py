# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What state a job is in: one status word from its workload, and the questions that waiting asks. Pure.

The status always comes from the owner object, never from pods: counting pods cannot tell a finished training from one
whose pods were removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STUCK = ("Pending", "Partially Running", "Paused", "Failed")
"""The words that ask for a reason."""

# FailureTarget (since 1.31) says it while the last pods still end, Failed when they have.
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
    """Every pod of the present generation runs and is ready; a training may also have finished."""
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
    # Old pods still count in ``replicas`` until the rollout has removed them.
    return all(status.get(count, 0) == wanted for count in ("updatedReplicas", "replicas", "availableReplicas"))


def is_rolled_out(workload: Mapping[str, Any]) -> bool:
    """As many pods as wanted were made from the present template, ready or not. Of a Job all are."""
    if workload["kind"] == "Job":
        return True
    updated = workload.get("status", {}).get("updatedReplicas", 0)
    return not _is_outdated(workload) and bool(updated >= pods_wanted(workload))


def is_complete(workload: Mapping[str, Any]) -> bool:
    """A training has finished well. Other kinds never finish: they count as complete when they are ready."""
    return _job_status(workload) == "Succeeded" if workload["kind"] == "Job" else is_ready(workload)


def failure_of(workload: Mapping[str, Any]) -> str | None:
    """Why the workload can never become ready any more, in the server's words; None while it still can."""
    if _is_outdated(workload):
        return None
    for condition in workload.get("status", {}).get("conditions") or ():
        failed = condition["type"] in _FAILED and condition["status"] == "True"
        late = condition["type"] == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded"
        if failed or (late and condition["status"] == "False"):
            return str(condition.get("message") or condition.get("reason"))
    return None


def pods_ready(workload: Mapping[str, Any]) -> int:
    """The number of pods that are ready, as the workload counts them."""
    return int(workload.get("status", {}).get("ready" if workload["kind"] == "Job" else "readyReplicas", 0))


def pods_wanted(workload: Mapping[str, Any]) -> int:
    """The number of pods that should exist now."""
    spec = workload["spec"]
    return int(spec.get("parallelism", 1) if workload["kind"] == "Job" else spec.get("replicas", 1))


def _is_outdated(workload: Mapping[str, Any]) -> bool:
    """Whether the status still speaks of what a change has replaced; Jobs, which hardly change, do not tell."""
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
    # What is asked for: the condition Suspended follows when the controller has seen it.
    if job["spec"].get("suspend"):
        return "Paused"
    # ``active`` counts pods that wait for a node as well; ``ready`` tells them apart (absent from old servers).
    return "Running" if status.get("active") and status.get("ready") != 0 else "Pending"
