# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Why a job does not run, in one sentence, from its workload, its pods and the warnings around them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..labels import job_name_of
from .status import failure_of


def reason_for(
    workload: Mapping[str, Any], pods: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]
) -> str | None:
    """The most telling obstacle, or None when nothing stands in the way (yet).

    What ended the workload counts most, then what keeps a pod's container from running, then what keeps a pod from
    being placed, and last what kept pods from being made at all (a quota: there is no pod to look at then).
    """
    pods = list(pods)
    found = (
        failure_of(workload)
        or _first(_container_problem(pod) for pod in pods)
        or _first(_unschedulable(pod) for pod in pods)
        or _replica_failure(workload)
        or _first(_failed_create(event, workload) for event in reversed(list(events)))
    )
    return found.rstrip(".") + "." if found else None


def _first(candidates: Iterable[str | None]) -> str | None:
    return next((candidate for candidate in candidates if candidate), None)


_HARMLESS = frozenset({"ContainerCreating", "PodInitializing", "Completed"})


def _container_problem(pod: Mapping[str, Any]) -> str | None:
    status = pod.get("status", {})
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = container.get("state", {}).get("waiting") or {}
        ended = container.get("state", {}).get("terminated") or container.get("lastState", {}).get("terminated") or {}
        reason = waiting.get("reason")
        if reason and reason not in _HARMLESS:
            detail = f": {waiting['message']}" if waiting.get("message") else ""
            if reason == "CrashLoopBackOff" and ended:
                detail = f": the container ended with exit code {ended.get('exitCode')} ({ended.get('reason')})"
            return f"pod {pod['metadata']['name']} is in {reason}{detail}"
        if ended.get("exitCode"):
            name = pod["metadata"]["name"]
            return f"pod {name} ended with exit code {ended['exitCode']} ({ended.get('reason', 'Error')})"
    if status.get("phase") == "Failed":
        return f"pod {pod['metadata']['name']} failed: {status.get('reason', '')} {status.get('message', '')}".rstrip()
    return None


def _unschedulable(pod: Mapping[str, Any]) -> str | None:
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False" and condition.get("message"):
            return f"pod {pod['metadata']['name']} cannot be placed: {condition['message']}"
    return None


def _replica_failure(workload: Mapping[str, Any]) -> str | None:
    for condition in workload.get("status", {}).get("conditions") or ():
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            return f"pods cannot be created: {condition.get('message')}"
    return None


def _failed_create(event: Mapping[str, Any], workload: Mapping[str, Any]) -> str | None:
    """A refusal to create pods, told by the workload's own controller."""
    if event.get("reason") != "FailedCreate":
        return None
    involved = event.get("involvedObject") or {}
    ours = involved.get("uid") == workload["metadata"]["uid"] or (
        involved.get("kind") == "ReplicaSet"
        and str(involved.get("name", "")).rpartition("-")[0] == job_name_of(workload)
    )
    return f"pods cannot be created: {event.get('message')}" if ours else None
