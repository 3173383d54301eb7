# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_job_info: which jobs there are, where they stand, and why some do not run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from .job import JOB_KINDS
from .task import Task

if TYPE_CHECKING:
    from .kube.resources import Resource

STATUS_WORDS = ("Pending", "Running", "Partially Running", "Paused", "Succeeded", "Failed")

Objects = list[dict[str, Any]]


def job_info_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of gpuctl_job_info beside those of the connection."""
    return {
        "name": {"type": "str"},
        "kind": {"type": "str", "choices": list(JOB_KINDS)},
        "pool": {"type": "str"},
        "status": {"type": "str"},
        "namespaces": {"type": "list", "elements": "str", "aliases": ["namespace"]},
        "label_selectors": {"type": "list", "elements": "str"},
        "pods": {"type": "bool", "default": False},
        "details": {"type": "bool", "default": False},
        "full": {"type": "bool", "default": False},
    }


def run(task: Task) -> dict[str, Any]:
    """One list of requests per kind of object and scope (all namespaces at once, or each of those named)."""
    from .cluster.jobs import event_rows, job_row, pod_row
    from .cluster.live import WORKLOADS
    from .cluster.status import STUCK, status_of
    from .kube.resources import POD

    params = task.params
    wanted_status = _status_word(params["status"])
    workloads = [
        obj for resource in WORKLOADS for obj in _select(task, resource) if wanted_status in (None, status_of(obj))
    ]
    stuck = [obj for obj in workloads if status_of(obj) in STUCK]
    pods = _by_job(_select(task, POD)) if params["pods"] or params["details"] or stuck else {}
    events = _events(task, stuck, workloads)
    reasons = _reasons(task, stuck, pods, events)
    urls = _access_urls(task, workloads)
    now = datetime.now(timezone.utc)
    results, pod_rows = [], []
    for workload in sorted(workloads, key=_job_id):
        job = _job_id(workload)
        own = [pod_row(pod, now) for pod in pods.get(job, ())]
        row = {**job_row(workload, now), "reason": reasons.get(job), "access_urls": urls.get(job, [])}
        if params["details"]:
            row |= {"pods": own, "events": event_rows(workload, pods.get(job, ()), events, now)}
        if params["full"]:
            row["object"] = workload
        results.append(row)
        pod_rows += own
    return {"changed": False, "results": results, **({"pods": pod_rows} if params["pods"] else {})}


def _status_word(status: str | None) -> str | None:
    """Surveys and people write ``running`` too."""
    from .task import TaskFailed

    if not status:
        return None
    for word in STATUS_WORDS:
        if word.lower() == status.strip().lower():
            return word
    raise TaskFailed(f"status is {status!r}; it must be one of {', '.join(STATUS_WORDS)}")


def _select(task: Task, resource: Resource) -> Objects:
    """The objects of our jobs that the filters choose; the server filters by label."""
    from .labels import APP, JOB_TYPE, OURS, POOL

    filters = {APP: task.params["name"], JOB_TYPE: task.params["kind"], POOL: task.params["pool"]}
    chosen = [OURS, JOB_TYPE, *(f"{key}={value}" for key, value in filters.items() if value)]
    labels = ",".join([*chosen, *(task.params["label_selectors"] or ())])
    return _everywhere(task, resource, labels=labels)


def _everywhere(task: Task, resource: Resource, labels: str = "", fields: str = "") -> Objects:
    namespaces: list[str | None] = list(task.params["namespaces"] or ()) or [None]
    return [
        obj
        for namespace in namespaces
        for obj in task.client().select(resource, namespace, labels=labels, fields=fields)
    ]


def _events(task: Task, stuck: Objects, workloads: Objects) -> Objects:
    """The warnings, where something is to be explained or details are asked for; none for who may not read them."""
    from .cluster.live import in_time
    from .kube.errors import ApiError
    from .kube.resources import EVENT

    if not stuck and not (task.params["details"] and workloads):
        return []
    try:
        return in_time(_everywhere(task, EVENT, fields="type=Warning"))
    except ApiError as error:
        if error.is_forbidden:
            return []
        raise


def _reasons(task: Task, stuck: Objects, pods: dict[tuple[str, str], Objects], events: Objects) -> dict[Any, str]:
    from .cluster.read import reasons_of

    return reasons_of(task.client(), {_job_id(obj): obj for obj in stuck}, pods, events)


def _access_urls(task: Task, workloads: Objects) -> dict[tuple[str, str], list[str]]:
    from .cluster.read import node_address
    from .engine.report import access_urls
    from .kube.resources import SERVICE

    if all(obj["kind"] == "Job" for obj in workloads):
        return {}
    services = _by_job(_select(task, SERVICE))
    exposed = any(port.get("nodePort") for own in services.values() for obj in own for port in obj["spec"]["ports"])
    address = node_address(task.client()) if exposed else None
    return {job: access_urls(own, address) for job, own in services.items()}


def _job_id(obj: dict[str, Any]) -> tuple[str, str]:
    from .labels import job_name_of

    return obj["metadata"]["namespace"], job_name_of(obj) or obj["metadata"]["name"]


def _by_job(objects: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Objects]:
    found: dict[tuple[str, str], Objects] = defaultdict(list)
    for obj in objects:
        found[_job_id(obj)].append(obj)
    return found
