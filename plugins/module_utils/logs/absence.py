# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Why there is no log to read: no job, or no pods, or pods that have not started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..cluster.live_jobs import WORKLOADS, JobId, read_events, read_workloads
from ..cluster.read import read_reasons, reasons_of
from ..cluster.status import status_of
from ..kube.client import Client
from ..kube.errors import ApiError
from ..labels import MANAGED_BY, pods_of


def why_no_pods(client: Client, job: JobId) -> str:
    """One message for a job none of whose pods is there: what became of it, or which job may be meant."""
    namespace, name = job
    try:
        workloads = read_workloads(client, [job])[job]
    except ApiError as error:
        if error.is_forbidden:
            return f"no pod belongs to a job {name} in namespace {namespace}"
        raise
    if not workloads:
        return _why_no_job(client, job)
    status = status_of(workloads[0])
    reason = read_reasons(client, {job: workloads[0]}).get(job)
    because = f": {reason}" if reason else "."
    what = f"the job {name} in namespace {namespace}"
    if status == "Paused":
        return f"{what} is paused, and its pods are gone with their logs{because}"
    if status in ("Succeeded", "Failed"):
        return f"{what} has ended ({status}), and its pods are gone with their logs{because}"
    return f"{what} has no pods yet{because}"


def why_not_started(client: Client, job: JobId, pods: Sequence[dict[str, Any]]) -> dict[str, str]:
    """By the names of the pods, what keeps them from starting, as far as that is known and may be looked at."""
    try:
        workloads = read_workloads(client, [job])[job]
        events = read_events(client, [job[0]])
    except ApiError as error:
        if error.is_forbidden:
            return {}
        raise
    if not workloads:
        return {}
    named = {pod["metadata"]["name"]: [pod] for pod in pods}
    found = reasons_of(client, dict.fromkeys(named, workloads[0]), named, events)
    # What keeps other pods of the job from being made is no reason of this one.
    return {pod: reason for pod, reason in found.items() if f"pod {pod} " in reason}


def _why_no_job(client: Client, job: JobId) -> str:
    namespace, name = job
    for resource in WORKLOADS:
        if client.get(resource, namespace, name):
            return (
                f"the {resource.kind} {name} in namespace {namespace} was not made by this collection "
                f"(it lacks the label {MANAGED_BY}); read its logs with kubectl"
            )
    absent = f"there is no job {name} in namespace {namespace}"
    elsewhere = _namespaces_with(client, name)
    if elsewhere:
        return f"{absent}, but in {' and '.join(elsewhere)}; set namespace"
    return f"{absent}. A training that has finished is removed a day later, and its logs with it."


def _namespaces_with(client: Client, name: str) -> list[str]:
    """Where else there is a job of that name, for who may look everywhere."""
    try:
        return sorted(
            {
                obj["metadata"]["namespace"]
                for resource in WORKLOADS
                for obj in client.list_objects(resource, labels=pods_of(name), metadata_only=True)
            }
        )
    except ApiError as error:
        if error.is_forbidden:
            return []
        raise
