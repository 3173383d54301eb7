# SPDX-License-Identifier: BSD-2-Clause
"""Why a job failed, or does not run: what is read for the events that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...cluster.read_reasons import by_time, reasons_of
from ...cluster.reason import pending_reasons
from ...cluster.status import failure_of
from ...kube.client import Client
from ...kube.errors import KubeError, if_allowed
from ...kube.resources import EVENT, POD
from ...labels import APP, JOB_TYPE, job_name_of
from ...redaction import live_secret_values, redact
from ...task import Task
from ...wait.job_wait import end_of_log, is_container_running
from .event_rows import shown_lines

Object = dict[str, Any]


def failure_details(task: Task[Any], workload: Object, log_lines: int) -> tuple[str | None, dict[str, Any]]:
    """The reason, and ``exit_code``, ``failed_pod`` and ``last_lines``, which are None and empty if they are not known.

    Reads the pods of the job, the warnings of its namespace, and the log of one container.
    """
    client = task.client()
    secrets = live_secret_values(workload)
    fallback = redact(failure_of(workload), secrets)
    details: dict[str, Any] = {"exit_code": None, "failed_pod": None, "last_lines": []}
    try:
        pods, events = _surroundings(client, workload)
    except KubeError:
        return fallback, details
    reasons = list(pending_reasons(workload, pods, events))
    reason = reasons[0].sentence if reasons else fallback
    place = next((each.log for each in reasons if each.log), None) or _first_failure(pods)
    if place is None:
        return reason, details
    pod, container = place
    details |= {"exit_code": _exit_code(pods, pod, container), "failed_pod": pod}
    if log_lines:
        namespace = workload["metadata"]["namespace"]
        is_running = is_container_running(pods, pod, container)
        lines = end_of_log(task, workload, pods, namespace, pod, container, previous=is_running)
        details["last_lines"] = shown_lines(lines[-log_lines:])
    return reason, details


def pending_reason(client: Client, workload: Object) -> str | None:
    """Why a job is not running; None if that is not known."""
    try:
        pods, events = _surroundings(client, workload)
        return reasons_of(client, {"": workload}, {"": pods}, events).get("")
    except KubeError:
        return None


def _surroundings(client: Client, workload: Object) -> tuple[list[Object], list[Object]]:
    """The pods of a workload and the warnings of its namespace, as far as they may be read. Raises KubeError."""
    namespace = workload["metadata"]["namespace"]
    own = APP if APP in (workload["metadata"].get("labels") or {}) else "job-name"
    labels = f"{JOB_TYPE},{own}={job_name_of(workload) or workload['metadata']['name']}"
    none: list[Object] = []
    pods = if_allowed(lambda: client.list_objects(POD, namespace, labels=labels), none)
    events = if_allowed(lambda: client.list_objects(EVENT, namespace, fields="type=Warning"), none)
    return pods, by_time(events)


def _first_failure(pods: Sequence[Object]) -> tuple[str, str] | None:
    """The pod and container that ended first with an error: the others ended because of it."""
    ends = [
        (str(ended.get("finishedAt") or ""), pod["metadata"]["name"], container["name"])
        for pod in pods
        for container in pod.get("status", {}).get("containerStatuses") or ()
        if (ended := _end_state(container)) and ended.get("exitCode")
    ]
    return min(ends)[1:] if ends else None


def _exit_code(pods: Sequence[Object], pod: str, name: str) -> int | None:
    """Init containers included: they fail a pod, too."""
    for each in pods:
        status = each.get("status", {})
        for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
            if each["metadata"]["name"] == pod and container["name"] == name and (ended := _end_state(container)):
                code: int | None = ended.get("exitCode")
                return code
    return None


def _end_state(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """How a container ended; of one that the kubelet has restarted since, the end before that."""
    ended: Mapping[str, Any] | None = (container.get("state") or {}).get("terminated") or (
        container.get("lastState") or {}
    ).get("terminated")
    return ended
