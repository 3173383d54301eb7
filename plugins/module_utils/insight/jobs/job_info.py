# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job_info: list jobs with their status, and why some are not running."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, TypeVar

from ...accelerators.catalog import catalog
from ...cluster.alike_pods import AlikePods
from ...cluster.autoscaler import autoscaler_problem, autoscaler_row
from ...cluster.declared import know_accelerators
from ...cluster.endpoints import SecretKey, access_urls, has_node_port, notebook_token
from ...cluster.events_by_object import EventsByObject
from ...cluster.lookup import job_names, job_of_pod, jobs_of_sweep, namespaces_not_found, not_found, pool_not_found
from ...cluster.nodes import PodUse as AcceleratorUse
from ...cluster.nodes import devices_of, slim_pod
from ...cluster.read_jobs import WORKLOADS, without_managed_fields
from ...cluster.read_nodes import node_address
from ...cluster.read_reasons import by_time, reasons_of
from ...cluster.related import is_unfinished
from ...cluster.status import ENDED, needs_reason, status_of
from ...jobs.job_options import JOB_KINDS
from ...kube.errors import ApiError, KubeError, if_allowed
from ...kube.resources import EVENT, HORIZONTAL_POD_AUTOSCALER, POD, SERVICE, Resource
from ...kube.shapes import MalformedObject
from ...labels import APP, JOB_TYPE, POOL, SWEEP, job_name_of, owner_of_reserved, service_name
from ...listed_namespaces import ListedNamespacesOptions, in_requested_namespaces, read_permitted, whole_cluster_unless
from ...namespaces import allowed_namespaces, listed_namespaces
from ...options import option
from ...redaction import live_secret_values, masked_object, redact_messages
from ...task import ModuleSpec, Task, TaskFailed
from ..fitting_lists import list_fitting, namespaces_left_out
from ..history.gone_run import gone_run_message
from ..prometheus.current_use import PodUse, read_current_use, use_of_job
from ..prometheus.prometheus_client import open_prometheus
from ..prometheus.prometheus_options import PrometheusOptions, prometheus_settings
from ..read_secret import secret_value
from .job_rows import UNKNOWN, event_row, job_row, malformed_job_row, malformed_pod_row, pod_row

STATUS_WORDS = ("Pending", "Running", "Partially Running", "Paused", *ENDED, UNKNOWN)

Object = dict[str, Any]
Objects = list[Object]
Job = tuple[str, str, str]  # namespace, name, kind: while a job changes its kind, it exists twice
T = TypeVar("T")
_SEARCHED = "Namespace {} has no such job now. A finished training is removed after a day."


@dataclass(frozen=True, kw_only=True)
class JobInfoOptions(ListedNamespacesOptions, PrometheusOptions):
    name: str | None = option("str")
    kind: str | None = option("str", choices=list(JOB_KINDS))
    pool: str | None = option("str")
    status: str | None = option("str")
    sweep: str | None = option("str")
    label_selectors: list[str] | None = option("list", elements="str")
    pods: bool = option("bool", default=False)
    details: bool = option("bool", default=False)
    full: bool = option("bool", default=False)
    show_token: bool = option("bool", default=False)
    unmanaged: bool = option("bool", default=False)
    must_exist: bool = option("bool", default=False)


InfoTask = Task[JobInfoOptions]


def run(task: InfoTask) -> dict[str, Any]:
    """Warns of what the options name and the cluster does not have: an empty list alone may be a misspelling."""
    task, own = in_requested_namespaces(task)
    task, (found, _uses) = read_permitted(task, read_jobs_info)
    problems = list(names_not_found(task, found["results"]))
    if problems and task.options.must_exist:
        raise TaskFailed("\n".join(problems), not_found=problems)
    for problem in problems:
        task.warn(problem)
    return {**found, "namespace": own}


def read_jobs_info(task: InfoTask) -> tuple[dict[str, Any], list[AcceleratorUse] | None]:
    """The jobs; those of the job whose pod is named if no job is, or of the sweep.

    And what the unfinished pods of jobs use, if those of the whole cluster were read, so that they are read once.
    """
    found, uses = _read_rows(task)
    options = task.options
    if not options.name or found["results"]:
        return found, uses
    places = listed_namespaces(task, options.namespaces or None)
    if job := job_of_pod(task.client(), options.name, places):
        return _read_rows(task.with_options(replace(options, namespaces=[job[0]], name=job[1])))
    if options.sweep is None and jobs_of_sweep(task.client(), options.name, places):
        return _read_rows(task.with_options(replace(options, name=None, sweep=options.name)))
    return found, uses


def names_not_found(
    task: InfoTask, results: Collection[Mapping[str, Any]], namespaces: Collection[str] = ()
) -> Iterator[str]:
    """A sentence for each namespace without a result that does not exist, and for a pool and a job that do not.

    ``namespaces`` are some that exist.
    """
    client, options = task.client(), task.options
    found = {*namespaces, *(row["namespace"] for row in results)}
    empty = [name for name in options.namespaces or () if name not in found]
    yield from namespaces_not_found(client, empty, allowed_namespaces(task))
    if results:
        return
    if options.pool and (problem := pool_not_found(client, options.pool)):
        yield problem
    if options.name:
        places = listed_namespaces(task, options.namespaces or None)
        names = job_names(client, places)
        if options.name not in names:  # Else another filter has left it out.
            gone = gone_run_message(client, options.name, places)
            searched = f" {_SEARCHED.format(*places)}" if places and len(places) == 1 else ""
            advice = f"Check its name.{searched}"
            yield f"job not found: {options.name}. {gone}" if gone else not_found("job", options.name, names, advice)


def _read_rows(task: InfoTask) -> tuple[dict[str, Any], list[AcceleratorUse] | None]:
    """Lists each kind of object in all namespaces at once, or in each of those named.

    Only workloads are indispensable, and pods if they are requested: without the permission to read events, services
    or nodes, everything else is returned.
    """
    now = datetime.now(timezone.utc)
    workloads = {_job_of(obj): obj for obj in sorted(_list_workloads(task), key=_job_of)}
    specs = (obj["spec"]["template"]["spec"] for obj in workloads.values())
    know_accelerators(task.client(), task.warn, specs)
    tokens = _notebook_tokens(task, workloads)
    stuck = {job: obj for job, obj in workloads.items() if needs_reason(obj)}
    rows, pods, uses = _read_pods(task, workloads, stuck, now)
    events = _read_warnings(task, stuck, workloads)
    scalers = _read_autoscalers(task, workloads)
    problems = {job: problem for job, obj in scalers.items() if (problem := autoscaler_problem(obj))}
    reasons = {**problems, **reasons_of(task.client(), stuck, pods, events)}
    urls = _access_urls(task, workloads, tokens)
    use = _gpu_use(task) if any(rows.values()) else None
    utilization = _utilization_metrics() if scalers else frozenset()
    by_object = EventsByObject(events)
    results = []
    for job, workload in workloads.items():
        row = {**job_row(workload, now), "reason": reasons.get(job)}
        if job in scalers:
            row["autoscaler"] = autoscaler_row(scalers[job], utilization)
        if task.options.details:
            pod_names = {pod["job_id"] for pod in rows[job]}
            found = [event_row(event, now) for event in by_object.of(workload, pod_names)]
            row |= {"pods": rows[job], "events": redact_messages(found, live_secret_values(workload))}
            row["metrics"] = None if use is None else use_of_job(use, job[0], pod_names)
        if task.options.full:
            row["object"] = masked_object(workload)
        # Requested tokens are shown in the URLs and nowhere else.
        results.append({**row, "access_urls": urls.get(job, [])})
    if _status_word(task.options.status) in (None, UNKNOWN):
        results += [malformed_job_row(malformed) for malformed in _malformed_of_kinds(task, *WORKLOADS)]
    pods_of_jobs = [pod for job in workloads for pod in rows[job]]
    pods_of_jobs += [malformed_pod_row(malformed) for malformed in _malformed_of_kinds(task, POD)]
    result = {
        "changed": False,
        "results": results,
        **({"pods": pods_of_jobs} if task.options.pods else {}),
        **({"unmanaged": _unmanaged(task)} if task.options.unmanaged else {}),
    }
    return result, uses


MODULE = ModuleSpec(JobInfoOptions, run)


def _utilization_metrics() -> frozenset[str]:
    """What exporters call what manifests call gpu_utilization (jobs/objects/deployments.py)."""
    exporters = (exporter for profile in catalog().profiles.values() for exporter in profile.exporters)
    return frozenset(series.name for exporter in exporters for series in exporter.series("utilization"))


def _list_workloads(task: InfoTask) -> Objects:
    wanted = _status_word(task.options.status)
    of_sweep = f"{SWEEP}={task.options.sweep}" if task.options.sweep else ""  # Pods do not have this label.
    by_name = f"metadata.name={task.options.name}" if task.options.name else ""  # A workload is named as its job.
    with whole_cluster_unless(task.options.namespaces or None):
        return [
            obj
            for resource in WORKLOADS
            for obj in _select(task, resource, without_managed_fields, fields=by_name, labels=of_sweep)
            if wanted in (None, status_of(obj))
        ]


def _unmanaged(task: InfoTask) -> Objects:
    """The workloads that are no jobs, which an account can create past the collection; none of the system's."""

    def slim(obj: Object) -> Object:
        metadata = obj["metadata"]
        place = {"namespace": metadata["namespace"], "name": metadata["name"]}
        return {"kind": obj["kind"], **place, "status": status_of(obj)}

    found = [row for resource in WORKLOADS for row in _list_namespaces(task, resource, slim, labels=f"!{JOB_TYPE}")]
    return [row for row in found if owner_of_reserved(row["namespace"]) is None]


def _gpu_use(task: InfoTask) -> PodUse | None:
    """What Prometheus knows, if its address is given; looking for it would make every task slower."""
    try:
        if not task.options.details or not prometheus_settings(task.options, task.environ).is_set:
            return None
        return read_current_use(open_prometheus(task, task.options))
    except KubeError as problem:
        task.warn(f"metrics are missing: {problem}")
        return None


def _malformed_of_kinds(task: InfoTask, *resources: Resource) -> list[MalformedObject]:
    """What the lists of these kinds have left out."""
    kinds = {resource.kind for resource in resources}
    return [malformed for malformed in task.malformed_objects() if malformed.kind in kinds]


def _notebook_tokens(task: InfoTask, workloads: dict[Job, Object]) -> dict[Job, str]:
    """The tokens of notebooks if ``show_token`` asks for them."""
    tokens, references = {}, {}
    if task.options.show_token:
        for job, workload in workloads.items():
            token = notebook_token(workload) if job[2] == "notebook" else None
            if isinstance(token, SecretKey):
                references[job] = token
            elif token:
                tokens[job] = token
    for job, key in references.items():
        namespace, name, _kind = job
        value, problem = secret_value(task.client(), namespace, key)
        if value:
            tokens[job] = value
        else:
            task.warn(f"access_urls of notebook {name} in namespace {namespace} lack its token: {problem}")
    return tokens


def _status_word(status: str | None) -> str | None:
    """The status in its spelling: surveys and users write ``running`` too. Raises TaskFailed."""
    if not status:
        return None
    for word in STATUS_WORDS:
        if word.lower() == status.strip().lower():
            return word
    raise TaskFailed(f"O(status): {status!r} is unknown. Use one of {', '.join(STATUS_WORDS)}.")


def _select(
    task: InfoTask,
    resource: Resource,
    slim: Callable[[Object], T],
    *,
    fields: str = "",
    labels: str = "",
    size_of: Callable[[T], int] | None = None,
) -> list[T]:
    """``slim`` of each object of the jobs that the filters select; the server filters by label.

    Jobs of the former gpuctl command line have the label of their kind, but not that of the collection. They use GPUs
    too, so they are listed, with ``managed`` false.
    """
    filters = {JOB_TYPE: task.options.kind, POOL: task.options.pool}
    chosen = [JOB_TYPE, *(f"{key}={value}" for key, value in filters.items() if value)]
    selector = ",".join(filter(None, [*chosen, *(task.options.label_selectors or ()), labels]))
    return _list_namespaces(task, resource, slim, labels=selector, fields=fields, size_of=size_of)


def _list_namespaces(
    task: InfoTask,
    resource: Resource,
    slim: Callable[[Object], T],
    *,
    labels: str = "",
    fields: str = "",
    size_of: Callable[[T], int] | None = None,
) -> list[T]:
    namespaces, client = listed_namespaces(task, task.options.namespaces or None), task.client()
    return [
        found
        for namespace in ([None] if namespaces is None else namespaces)
        for found in list_fitting(client, resource, slim, namespace, labels=labels, fields=fields, size_of=size_of)
    ]


def _read_pods(
    task: InfoTask, workloads: dict[Job, Object], stuck: dict[Job, Object], now: datetime
) -> tuple[dict[Job, Objects], dict[Job, Objects], list[AcceleratorUse] | None]:
    """Rows of the pods if requested, the whole pods of stuck jobs, and what all use if these are those of the whole
    cluster. Nothing else: there may be tens of thousands."""
    wants_rows = task.options.pods or task.options.details
    rows: dict[Job, Objects] = defaultdict(list)
    whole: dict[Job, Objects] = defaultdict(list)
    if not (stuck or (wants_rows and workloads)):
        return rows, whole, None
    reads_all, alike = _reads_all(task), AlikePods(devices_of)

    def slim(pod: Object) -> tuple[Job, Object | None, Object | None, AcceleratorUse | None]:
        pod = alike.shared(pod)
        job = _job_of(pod)
        row = None
        if wants_rows and job in workloads:
            row = alike.with_texts(pod_row(pod, now), "ready", "started_at", "image", "age")
        use = slim_pod(pod, alike.amounts(pod)) if reads_all and is_unfinished(pod) else None
        return job, row, without_managed_fields(pod) if job in stuck else None, use

    try:
        found = [
            pod
            for own in _pod_selectors(task, workloads)
            for pod in _select(task, POD, slim, labels=own, size_of=lambda each: len(str(each[2] or "")))
        ]
    except ApiError as error:
        if error.is_forbidden and not wants_rows:
            return rows, whole, None
        raise
    uses = []
    for job, row, pod, use in found:
        if row:
            rows[job].append(row)
        if pod:
            whole[job].append(pod)
        if use:
            uses.append(use)
    return rows, whole, uses if reads_all and not namespaces_left_out(task.client()) else None


def _reads_all(task: InfoTask) -> bool:
    """Whether the pods of all jobs of the cluster are listed, so that what they use is known."""
    options = task.options
    filters = (options.name, options.kind, options.pool, options.sweep, options.label_selectors)
    return not any(filters) and listed_namespaces(task, options.namespaces or None) is None


def _pod_selectors(task: InfoTask, workloads: dict[Job, Object]) -> set[str]:
    """Label selectors for the pods of the job that ``name`` names (see ``job_name_of``)."""
    name = task.options.name
    if not name:
        return {""}
    labels = (obj["metadata"].get("labels") or {} for obj in workloads.values())
    return {f"{APP}={name}" if APP in own else f"job-name={name}" for own in labels}


def _read_warnings(task: InfoTask, stuck: dict[Job, Any], workloads: dict[Job, Any]) -> Objects:
    """Warnings, to explain stuck jobs and for ``details``; none without the permission to read them."""
    if not stuck and not (task.options.details and workloads):
        return []
    return by_time(
        if_allowed(lambda: _list_namespaces(task, EVENT, without_managed_fields, fields="type=Warning"), Objects())
    )


def _read_autoscalers(task: InfoTask, workloads: dict[Job, Object]) -> dict[Job, Object]:
    """What scales services, also of others, as KEDA's is; none without the permission to read autoscalers."""
    services = {
        (obj["metadata"]["namespace"], obj["kind"], obj["metadata"]["name"]): job
        for job, obj in workloads.items()
        if obj["kind"] == "Deployment"
    }

    def slim(obj: Object) -> tuple[Job, Object] | None:
        target = (obj.get("spec") or {}).get("scaleTargetRef") or {}
        job = services.get((obj["metadata"]["namespace"], target.get("kind"), target.get("name")))
        return (job, without_managed_fields(obj)) if job else None

    if not services:
        return {}
    none: list[tuple[Job, Object] | None] = []
    found = if_allowed(lambda: _list_namespaces(task, HORIZONTAL_POD_AUTOSCALER, slim), none)
    return dict(filter(None, found))


def _access_urls(task: InfoTask, workloads: dict[Job, Object], tokens: dict[Job, str]) -> dict[Job, list[str]]:
    if all(obj["kind"] == "Job" for obj in workloads.values()):
        return {}
    services: dict[Job, Objects] = defaultdict(list)
    for obj in if_allowed(lambda: _select(task, SERVICE, without_managed_fields), Objects()):
        job = _job_of(obj)
        if obj["metadata"]["name"] == service_name(job[1]):  # Another one with the job's labels may lead anywhere.
            services[job].append(obj)
    exposed = has_node_port(obj for own in services.values() for obj in own)
    address = node_address(task.client()) if exposed else None
    return {job: access_urls(own, address, tokens.get(job)) for job, own in services.items()}


def _job_of(obj: Object) -> Job:
    metadata = obj["metadata"]
    kind = (metadata.get("labels") or {}).get(JOB_TYPE, "")
    return metadata["namespace"], job_name_of(obj) or metadata["name"], kind
