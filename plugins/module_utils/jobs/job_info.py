# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_job_info: which jobs there are, where they stand, and why some do not run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from ..options import Options, option
from ..task import ModuleSpec, Task, TaskFailed
from .select import JOB_KINDS

if TYPE_CHECKING:
    from ..kube.resources import Resource

STATUS_WORDS = ("Pending", "Running", "Partially Running", "Paused", "Succeeded", "Failed")

Objects = list[dict[str, Any]]
Job = tuple[str, str, str]  # namespace, name, kind: while a job becomes another kind, it is there twice
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class JobInfoOptions(Options):
    name: str | None = option("str")
    kind: str | None = option("str", choices=list(JOB_KINDS))
    pool: str | None = option("str")
    status: str | None = option("str")
    namespaces: list[str] | None = option("list", elements="str", aliases=["namespace"])
    label_selectors: list[str] | None = option("list", elements="str")
    pods: bool = option("bool", default=False)
    details: bool = option("bool", default=False)
    full: bool = option("bool", default=False)
    show_token: bool = option("bool", default=False)


def run(task: Task[JobInfoOptions]) -> dict[str, Any]:
    """One list of requests per kind of object and scope (all namespaces at once, or each of those named).

    Only the workloads' answers are indispensable, and the pods' where they were asked for. Who may not look at events,
    services or nodes gets everything else.
    """
    from ..cluster.status import STUCK, status_of
    from ..manifest.secrets import redact
    from .job_rows import event_rows, job_row

    now = datetime.now(timezone.utc)
    workloads = {_job_of(obj): obj for obj in sorted(_workloads(task), key=_job_of)}
    tokens = _tokens(task, workloads)
    stuck = {job: obj for job, obj in workloads.items() if status_of(obj) in STUCK}
    rows, pods = _pods(task, workloads, stuck, now)
    events = _events(task, stuck, workloads)
    reasons = _reasons(task, stuck, pods, events)
    urls = _access_urls(task, workloads, tokens)
    results = []
    for job, workload in workloads.items():
        row = {**job_row(workload, now), "reason": reasons.get(job)}
        if task.options.details:
            pod_names = {pod["job_id"] for pod in rows[job]}
            row |= {"pods": rows[job], "events": event_rows(workload, pod_names, events, now)}
        if task.options.full:
            row["object"] = workload
        # The tokens that were asked for stand in the URLs and nowhere else.
        results.append({**redact(row, tokens.values()), "access_urls": urls.get(job, [])})
    in_order = [redact(pod, tokens.values()) for job in workloads for pod in rows[job]]
    return {"changed": False, "results": results, **({"pods": in_order} if task.options.pods else {})}


MODULE = ModuleSpec(JobInfoOptions, run)


def _workloads(task: Task[JobInfoOptions]) -> Objects:
    from ..cluster.live_jobs import WORKLOADS
    from ..cluster.status import status_of
    from ..kube.errors import ApiError

    wanted = _status_word(task.options.status)
    by_name = f"metadata.name={task.options.name}" if task.options.name else ""  # A workload is named as its job.
    try:
        found = [
            obj
            for resource in WORKLOADS
            for obj in _select(task, resource, _without_bookkeeping, fields=by_name)
            if wanted in (None, status_of(obj))
        ]
    except ApiError as error:
        if error.is_forbidden and not task.options.namespaces:
            raise TaskFailed(f"{error}. Name the namespaces that you may look at in the option namespaces.") from None
        raise
    return found


def _tokens(task: Task[JobInfoOptions], workloads: dict[Job, dict[str, Any]]) -> dict[Job, str]:
    """The tokens of notebooks, where they are asked for. All other secrets of the workloads are hidden from here on."""
    from ..cluster.endpoints import SecretKey, notebook_token
    from ..cluster.read import secret_value
    from ..labels import JOB_TYPE
    from ..manifest.secrets import live_secret_values

    tokens, kept = {}, {}
    if task.options.show_token:
        for job, workload in workloads.items():
            token = notebook_token(workload) if workload["metadata"]["labels"][JOB_TYPE] == "notebook" else None
            if isinstance(token, SecretKey):
                kept[job] = token
            elif token:
                tokens[job] = token
    task.mask({value for obj in workloads.values() for value in live_secret_values(obj)} - set(tokens.values()))
    for job, place in kept.items():
        namespace, name, _kind = job
        value, problem = secret_value(task.client(), namespace, place)
        if value:
            tokens[job] = value
        else:
            task.warn(f"access_urls of notebook {name} in namespace {namespace} are without its token: {problem}")
    return tokens


def _status_word(status: str | None) -> str | None:
    """Surveys and people write ``running`` too."""
    if not status:
        return None
    for word in STATUS_WORDS:
        if word.lower() == status.strip().lower():
            return word
    raise TaskFailed(f"status is {status!r}; it must be one of {', '.join(STATUS_WORDS)}")


def _select(
    task: Task[JobInfoOptions],
    resource: Resource,
    slim: Callable[[dict[str, Any]], T],
    *,
    fields: str = "",
    labels: str = "",
) -> list[T]:
    """What ``shrink`` makes of the objects of the jobs that the filters choose; the server filters by label.

    Jobs that the former gpuctl command line made carry the label of their kind, but not that of their manager: they use
    GPUs too, so they are shown, and only ``managed`` tells them apart.
    """
    from ..labels import JOB_TYPE, POOL

    filters = {JOB_TYPE: task.options.kind, POOL: task.options.pool}
    chosen = [JOB_TYPE, *(f"{key}={value}" for key, value in filters.items() if value)]
    selector = ",".join(filter(None, [*chosen, *(task.options.label_selectors or ()), labels]))
    return _everywhere(task, resource, slim, labels=selector, fields=fields)


def _everywhere(
    task: Task[JobInfoOptions],
    resource: Resource,
    slim: Callable[[dict[str, Any]], T],
    *,
    labels: str = "",
    fields: str = "",
) -> list[T]:
    namespaces: list[str | None] = list(dict.fromkeys(task.options.namespaces or ())) or [None]
    return [
        found
        for namespace in namespaces
        for found in task.client().select_as(resource, slim, namespace, labels=labels, fields=fields)
    ]


def _pods(
    task: Task[JobInfoOptions], workloads: dict[Job, dict[str, Any]], stuck: dict[Job, dict[str, Any]], now: datetime
) -> tuple[dict[Job, Objects], dict[Job, Objects]]:
    """A row for each pod of the jobs where rows were asked for, and the pods themselves of those that are stuck.

    Nothing else is kept of a pod: there may be tens of thousands.
    """
    from ..kube.errors import ApiError
    from ..kube.resources import POD
    from .job_rows import pod_row

    asked_for = task.options.pods or task.options.details
    rows: dict[Job, Objects] = defaultdict(list)
    whole: dict[Job, Objects] = defaultdict(list)
    if not (stuck or (asked_for and workloads)):
        return rows, whole

    def slim(pod: dict[str, Any]) -> tuple[Job, dict[str, Any] | None, dict[str, Any] | None]:
        job = _job_of(pod)
        row = pod_row(pod, now) if asked_for and job in workloads else None
        return job, row, _without_bookkeeping(pod) if job in stuck else None

    try:
        found = [pod for own in _labels_of_pods(task, workloads) for pod in _select(task, POD, slim, labels=own)]
    except ApiError as error:
        if error.is_forbidden and not asked_for:
            return rows, whole
        raise
    for job, row, pod in found:
        if row:
            rows[job].append(row)
        if pod:
            whole[job].append(pod)
    return rows, whole


def _labels_of_pods(task: Task[JobInfoOptions], workloads: dict[Job, dict[str, Any]]) -> set[str]:
    """Selectors that keep other jobs' pods out of the answer, where one name was asked for (see ``job_name_of``)."""
    from ..labels import APP

    name = task.options.name
    if not name:
        return {""}
    return {f"{APP}={name}" if APP in obj["metadata"]["labels"] else f"job-name={name}" for obj in workloads.values()}


def _events(task: Task[JobInfoOptions], stuck: dict[Job, Any], workloads: dict[Job, Any]) -> Objects:
    """The warnings, where something is to be explained or details are asked for; none for who may not read them."""
    from ..cluster.live_jobs import by_time
    from ..kube.errors import ApiError
    from ..kube.resources import EVENT

    if not stuck and not (task.options.details and workloads):
        return []
    try:
        return by_time(_everywhere(task, EVENT, _without_bookkeeping, fields="type=Warning"))
    except ApiError as error:
        if error.is_forbidden:
            return []
        raise


def _reasons(
    task: Task[JobInfoOptions], stuck: dict[Job, dict[str, Any]], pods: dict[Job, Objects], events: Objects
) -> dict[Job, str]:
    from ..cluster.read import reasons_of

    return reasons_of(task.client(), stuck, pods, events)


def _access_urls(
    task: Task[JobInfoOptions], workloads: dict[Job, dict[str, Any]], tokens: dict[Job, str]
) -> dict[Job, list[str]]:
    from ..cluster.endpoints import access_urls
    from ..cluster.read import node_address
    from ..kube.errors import ApiError
    from ..kube.resources import SERVICE

    if all(obj["kind"] == "Job" for obj in workloads.values()):
        return {}
    try:
        services = _by_job(_select(task, SERVICE, _without_bookkeeping))
    except ApiError as error:
        if error.is_forbidden:
            return {}
        raise
    exposed = any(port.get("nodePort") for own in services.values() for obj in own for port in obj["spec"]["ports"])
    address = node_address(task.client()) if exposed else None
    return {job: access_urls(own, address, tokens.get(job)) for job, own in services.items()}


def _without_bookkeeping(obj: dict[str, Any]) -> dict[str, Any]:
    """``managedFields`` are a third of an object, and nobody reads them."""
    obj["metadata"].pop("managedFields", None)
    return obj


def _job_of(obj: dict[str, Any]) -> Job:
    from ..labels import JOB_TYPE, job_name_of

    metadata = obj["metadata"]
    return metadata["namespace"], job_name_of(obj) or metadata["name"], metadata["labels"][JOB_TYPE]


def _by_job(objects: Iterable[dict[str, Any]]) -> dict[Job, Objects]:
    found: dict[Job, Objects] = defaultdict(list)
    for obj in objects:
        found[_job_of(obj)].append(obj)
    return found
