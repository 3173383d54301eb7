# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_advice_info: what jobs asked for and did not use in a range of time, and what they should ask for.

Kubernetes says which jobs there are, what they ask for and which pods are theirs, and Prometheus what these used. Each
is a fixed number of lists or queries, whatever the number of jobs. Nothing is written.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ...accelerators.catalog import DEVICES, PARTITIONS, SHARES, ShareBackend, bytes_in, catalog
from ...cluster.declared import Declared, read_declared
from ...cluster.nodes import ACTIVE, Node, devices_of, slim_node
from ...cluster.pod_requests import amount_of
from ...cluster.pod_status import container_statuses, start_of
from ...cluster.pod_times import Hold, hold_of
from ...cluster.read_jobs import WORKLOADS, JobId, job_id_of
from ...cluster.related import main_container
from ...cluster.status import is_terminating
from ...engine.fields import owned_fields
from ...engine.paths import ABSENT, value_at
from ...given_times import InvalidTime, duration
from ...kube.concurrency import run_concurrently
from ...kube.errors import ApiError, as_sentence
from ...kube.resources import NODE, POD
from ...kube.times import read_time, time_as_text
from ...labels import DEFAULT_POOL, FIELD_MANAGER, GPU_TYPE, JOB_TYPE, MANAGED, POOL
from ...listed_namespaces import in_requested_namespaces, list_each, or_refusal, read_permitted, whole_cluster_unless
from ...namespaces import listed_namespaces
from ...options import option
from ...quantity import GIB
from ...task import ModuleSpec, Task, TaskFailed
from ..fitting_lists import list_fitting
from ..idle.idle_rules import span
from ..prometheus.prometheus_client import open_prometheus
from ..usage.gpu_usage import price_of
from ..usage.usage_options import AccountOptions, account_range, check_idle_below, given_prices
from .advice_rules import (
    CPU,
    FIELDS,
    GPU,
    MEMORY,
    REPLICAS,
    SHARE,
    Advice,
    AdviceLimits,
    AskedResources,
    ContainerUse,
    JobEvidence,
    NotKnown,
    PodEvidence,
    ShareOffer,
    cpu_text,
    findings_of,
    memory_text,
)
from .job_evidence import MeasuredPods, PodName, read_measured_pods

_RANGE = "7d"
_LONGEST = 31 * 86_400.0  # seconds: of more, Prometheus would load too many samples for one query
_UNITS = {GPU: "GPU", SHARE: "GPU", REPLICAS: "GPU", MEMORY: "GiB", CPU: "core"}


@dataclass(frozen=True, kw_only=True)
class AdviceOptions(AccountOptions):
    name: str | None = option("str")
    min_runtime: str = option("str", default="6h")


def run(task: Task[AdviceOptions]) -> dict[str, Any]:
    """Lists workloads, pods, nodes and what administrators declare once, and asks Prometheus for all pods at once."""
    options = task.options
    since, until = account_range(options, datetime.now(timezone.utc), _RANGE)
    limits = _limits(options, (until - since).total_seconds())
    prices = given_prices(options)
    task, own = in_requested_namespaces(task)
    task, seen = read_permitted(task, _read_jobs)
    measured = MeasuredPods()
    if seen.jobs:
        prometheus = open_prometheus(task, options)
        measured = read_measured_pods(prometheus, since.timestamp(), until.timestamp(), options.idle_below)
    range_of_time = since.timestamp(), until.timestamp()
    jobs = list(_evidence_of_jobs(seen, measured, range_of_time, prices))
    advice, unknown = _findings(jobs, limits)
    rows = [_advice_row(job, each, seen.jobs[job.namespace, job.name].image) for job, each in advice]
    return {
        "changed": False,
        "namespace": own,
        "start": time_as_text(since),
        "end": time_as_text(until),
        "currency": options.currency or "",
        "results": rows,
        "unknown": unknown,
        "unmeasured": [f"{job.namespace}/{job.name}" for job in jobs if job.is_empty],
        "totals": advice_totals(rows, len(jobs)),
        "notes": [*seen.notes, *measured.notes],
    }


MODULE = ModuleSpec(AdviceOptions, run, report="advice")


def advice_totals(rows: Sequence[Mapping[str, Any]], jobs: int) -> dict[str, Any]:
    """What all advice saves together, and how many jobs were looked at."""
    costs = [row["saved_cost"] for row in rows if row["saved_cost"] is not None]
    hours = {unit: sum(row["saved_hours"] for row in rows if row["unit"] == unit) for unit in _UNITS.values()}
    return {
        "jobs": jobs,
        "advised_jobs": len({(row["namespace"], row["name"]) for row in rows}),
        "saved_gpu_hours": round(hours[_UNITS[GPU]], 2),
        "saved_gib_hours": round(hours[_UNITS[MEMORY]], 2),
        "saved_core_hours": round(hours[_UNITS[CPU]], 2),
        "saved_cost": round(sum(costs), 2) if costs else None,
    }


def _limits(options: AdviceOptions, seconds: float) -> AdviceLimits:
    """The options, checked. Raises TaskFailed."""
    check_idle_below(options)
    if seconds > _LONGEST:
        raise TaskFailed(f"the range is too long: {span(seconds)}. Use 31 days or less.")
    try:
        return AdviceLimits(options.idle_below, duration("min_runtime", options.min_runtime), seconds)
    except InvalidTime as problem:
        raise TaskFailed(str(problem)) from None


# -- what Kubernetes knows ---------------------------------------------------------------------------------------------


class _Job(NamedTuple):
    """A workload, as far as advice needs it."""

    id: JobId
    kind: str
    workload: str
    created: str
    asked: AskedResources
    gpu_type: str | None
    replicas: int
    pool: str
    nodes: int
    image: str


class _Pod(NamedTuple):
    """A pod, ``started`` when its program did, where that is known; ``killed``: when it was killed for its memory."""

    job: JobId
    created: str
    hold: Hold
    asked: AskedResources
    started: float | None
    killed: float | None


@dataclass
class _Seen:
    """What was read of a cluster. ``nodes`` are empty without permission to list them."""

    jobs: dict[JobId, _Job] = field(default_factory=dict)
    pods: dict[JobId, list[_Pod]] = field(default_factory=lambda: defaultdict(list))
    nodes: dict[str, Node] = field(default_factory=dict)
    declared: Declared = field(default_factory=Declared)
    notes: list[str] = field(default_factory=list)


def _read_jobs(task: Task[AdviceOptions]) -> _Seen:
    """Lists of workloads, pods and nodes; all at once. Raises KubeError if jobs or pods may not be listed."""
    client, namespaces = task.client(), listed_namespaces(task, task.options.namespaces or None)
    seen = _Seen(declared=read_declared(client, task.warn))

    def workloads() -> list[_Job | None]:
        return list_each(
            lambda kind, place: list_fitting(client, kind, _slim_workload, place, labels=MANAGED), WORKLOADS, namespaces
        )

    def pods() -> list[_Pod]:
        return list_each(
            lambda kind, place: list_fitting(client, kind, _slim_pod, place, labels=MANAGED), [POD], namespaces
        )

    def nodes() -> Any:
        return or_refusal(lambda: client.list_slim(NODE, slim_node))

    with whole_cluster_unless(namespaces):
        jobs, found, there = run_concurrently(lambda read: read(), (workloads, pods, nodes), client.concurrency)
    # Of two workloads, while a job changes its kind, the newer one.
    asked_for = (job for job in jobs if job and task.options.name in (None, job.id[1]))
    seen.jobs = {job.id: job for job in sorted(asked_for, key=lambda job: job.created)}
    for pod in found:
        if pod.job in seen.jobs and pod.created >= seen.jobs[pod.job].created:
            seen.pods[pod.job].append(pod)
    if isinstance(there, ApiError):
        seen.notes.append(f"Types of GPUs, by which they have prices, are not known: {as_sentence(there)}")
    else:
        seen.nodes = {node.name: node for node in there}
    return seen


def _slim_workload(workload: dict[str, Any]) -> _Job | None:
    """None for one that is being deleted."""
    metadata, template = workload["metadata"], workload["spec"]["template"]
    labels = metadata.get("labels") or {}
    if is_terminating(workload):
        return None
    return _Job(
        job_id_of(workload),
        str(labels.get(JOB_TYPE, "")),
        workload["kind"],
        metadata["creationTimestamp"],
        asked_resources(template),
        (template["spec"].get("nodeSelector") or {}).get(GPU_TYPE),
        _declared_replicas(workload),
        labels.get(POOL) or DEFAULT_POOL,
        workload["spec"].get("parallelism", 1) if workload["kind"] == "Job" else 1,
        str(main_container(template["spec"]["containers"]).get("image", "")),
    )


def _declared_replicas(workload: Mapping[str, Any]) -> int:
    """Those of the manifest; 0 if an autoscaler or an account has set others."""
    is_own = value_at(owned_fields(workload, FIELD_MANAGER), ("f:spec", "f:replicas")) is not ABSENT
    return workload["spec"].get("replicas", 0) if is_own else 0


def asked_resources(template: Mapping[str, Any]) -> AskedResources:
    """What the manifest of a template asks for: its pods have as much of each, in one container."""
    spec = template["spec"]
    requests = (main_container(spec["containers"]).get("resources") or {}).get("requests") or {}
    rows = catalog().rows_in(devices_of({"metadata": template.get("metadata") or {}, "spec": spec}))
    counted = [(row, amount) for row, amount in rows if row.kind in (DEVICES, PARTITIONS) and amount]
    # Several would be those of other tools.
    device, gpus = counted[0] if len(counted) == 1 else (None, 0)
    memory = amount_of("memory", requests.get("memory"))
    sizes = ((volume.get("emptyDir") or {}) for volume in spec.get("volumes") or ())
    shm = sum(amount_of("memory", each.get("sizeLimit")) for each in sizes if each.get("medium") == "Memory")
    # The half is rounded up to KiB (jobs/objects/volumes.py).
    return AskedResources(gpus, device, memory, amount_of("cpu", requests.get("cpu")), 0 <= shm - memory / 2 < 1024)


def _slim_pod(pod: dict[str, Any]) -> _Pod:
    statuses = list(container_statuses(pod))
    first = statuses[0] if len(statuses) == 1 and not statuses[0].get("restartCount") else {}
    started = start_of(first.get("state"))
    killed = [time for status in statuses for time in _kills(status)]
    return _Pod(
        job_id_of(pod),
        pod["metadata"]["creationTimestamp"],
        hold_of(pod),
        asked_resources(pod),
        read_time(started).timestamp() if started else None,
        max(killed, default=None),
    )


def _kills(status: Mapping[str, Any]) -> Iterable[float]:
    """When a container was killed for its memory, as far as its status remembers."""
    for kind in ("state", "lastState"):
        ended = (status.get(kind) or {}).get("terminated") or {}
        if ended.get("reason") == "OOMKilled" and ended.get("finishedAt"):
            yield read_time(ended["finishedAt"]).timestamp()


# -- what is known of both ---------------------------------------------------------------------------------------------


def _evidence_of_jobs(
    seen: _Seen, measured: MeasuredPods, range_of_time: tuple[float, float], prices: Mapping[str, float]
) -> Iterable[JobEvidence]:
    """The jobs by name, each with what is known of its pods in the range."""
    former = _former_pods(seen, measured)
    for job in sorted(seen.jobs.values()):
        pods = seen.pods[job.id]
        names = {(job.id[0], pod.hold.name) for pod in pods} | {*former[job.id]}
        evidence = [_pod_evidence(pod, job, seen, measured, range_of_time, prices) for pod in pods]
        yield JobEvidence(
            *job.id,
            job.kind,
            job.asked,
            tuple(each for each in evidence if each.seconds),
            # Another pod of the same name, such as that of a StatefulSet before, counts with what it used at most.
            tuple(_gone_pod(name, measured) for name in sorted(names)),
            not names.isdisjoint(measured.out_of_memory)
            or any(pod.killed is not None and pod.killed >= range_of_time[0] for pod in pods),
            job.replicas,
            _share_offer(job, pods, seen),
        )


def _share_offer(job: _Job, pods: Iterable[_Pod], seen: _Seen) -> ShareOffer | None:
    """None unless nodes of the job's pool offer shares, and the memory of these and of its own devices is known."""
    backend = _share_backend(job, seen)
    if backend is None or job.nodes > 1:
        return None
    nodes = [node for node in seen.nodes.values() if node.pool == job.pool and node.status == ACTIVE]
    offering = [node for node in nodes if job.gpu_type in (None, node.gpu_type) and _offers(node, backend)]
    sizes = [_device_memory(node, backend) for node in offering]
    sizes += [_device_memory(seen.nodes.get(pod.hold.node), backend) for pod in pods if pod.hold.node]
    return ShareOffer(backend, min(sizes)) if offering and all(sizes) else None


def _share_backend(job: _Job, seen: _Seen) -> ShareBackend | None:
    device, pool = job.asked.device, seen.declared.hardware(job.pool)
    if device is None or not device.is_whole_device or pool.device_class or not seen.declared.known:
        return None
    backends = catalog().profiles[device.profile].backends
    return backends.get(pool.share_backend or next(iter(backends), ""))


def _offers(node: Node, backend: ShareBackend) -> bool:
    """What a node does not list is what a scheduler counts by the mark of the node."""
    if backend.memory.listed:
        return bool(node.allocatable.get(backend.memory.resource))
    marked = node.counted_as.get(backend.memory.profile) == SHARES
    return bool(marked and backend.devices and node.allocatable.get(backend.devices.resource))


def _device_memory(node: Node | None, backend: ShareBackend) -> int:
    """In bytes, by the label of the node; 0 if it is not known."""
    block = catalog().profiles[backend.memory.profile].part("labels").get("memory")
    text = (node.labels.get(block["label"]) or "").removesuffix(block.get("suffix", "")) if node and block else ""
    return int(text) * bytes_in(block["unit"]) if block and text.isascii() and text.isdigit() else 0


def _pod_evidence(
    pod: _Pod,
    job: _Job,
    seen: _Seen,
    measured: MeasuredPods,
    range_of_time: tuple[float, float],
    prices: Mapping[str, float],
) -> PodEvidence:
    since, until = range_of_time
    hold, name = pod.hold, (job.id[0], pod.hold.name)
    held, node = hold.seconds(since, until), seen.nodes.get(hold.node or "")
    seconds = hold._replace(start=max(pod.started, hold.start or 0.0)).seconds(since, until) if pod.started else held
    device = job.asked.device
    gpu_type = (node.gpu_type if node else None) or job.gpu_type
    return PodEvidence(
        hold.name,
        seconds,
        held,
        tuple(measured.devices.get(name, ())),
        measured.busy.get(name),
        _own_container(measured.memory.get(name, {}), hold.uid, measured.clusters),
        _own_container(measured.cpu.get(name, {}), hold.uid, measured.clusters),
        price_of(device, gpu_type, prices) if device else None,
        bool(node and device and node.counted_as.get(device.profile) and not _has_device_alone(job, node, seen)),
        measured.clusters > 1,
        pod.asked != job.asked,
    )


def _has_device_alone(job: _Job, node: Node, seen: _Seen) -> bool:
    """Where the pool says how it shares devices, a pod that names no memory of one."""
    backend = _share_backend(job, seen) if seen.declared.hardware(job.pool).share_backend else None
    of_backend = (
        backend and backend.devices and job.asked.device and backend.devices.resource == job.asked.device.resource
    )
    return bool(backend and of_backend and _offers(node, backend))


def _own_container(uses: Mapping[str, ContainerUse], uid: str, clusters: int) -> ContainerUse | None:
    """The series of the pod by its uid, else by its name, if that is the only pod of this name."""
    return uses.get(uid) or (uses.get("") if clusters == 1 else None)


def _gone_pod(name: PodName, measured: MeasuredPods) -> PodEvidence:
    """The peaks of all pods that have had a name."""
    memory, cpu = (
        max(uses.get(name, {}).values(), key=lambda use: use.used.max, default=None)
        for uses in (measured.memory, measured.cpu)
    )
    return PodEvidence(name[1], devices=tuple(measured.devices.get(name, ())), memory=memory, cpu=cpu)


# What the controllers append to the name of the workload, the longest first (metrics/measured_job.py).
_SUFFIXES = {
    "Job": (r"-[0-9]+-[a-z0-9]{5}", r"-[a-z0-9]{5}"),
    "Deployment": (r"-[a-z0-9]{1,10}-[a-z0-9]{5}",),
    "StatefulSet": (r"-[0-9]+",),
}


def _former_pods(seen: _Seen, measured: MeasuredPods) -> dict[JobId, list[PodName]]:
    """The pods that Prometheus has seen and the cluster does not know any more, by job: by their labels, and by their
    names. A pod that may be of two jobs counts for both: it only raises their peaks."""
    there = {(pod.job[0], pod.hold.name) for pods in seen.pods.values() for pod in pods}
    found: dict[JobId, list[PodName]] = defaultdict(list)
    for name in measured.names - there:
        for job in {(name[0], measured.jobs.get(name, "")), *_jobs_of_name(name, seen)}:
            if job in seen.jobs:
                found[job].append(name)
    return found


def _jobs_of_name(name: PodName, seen: _Seen) -> Iterable[JobId]:
    for kind, suffixes in _SUFFIXES.items():
        for suffix in suffixes:
            job = name[0], re.sub(f"{suffix}$", "", name[1])
            if job in seen.jobs and seen.jobs[job].workload == kind:
                yield job


# -- the result --------------------------------------------------------------------------------------------------------


def _findings(
    jobs: Iterable[JobEvidence], limits: AdviceLimits
) -> tuple[list[tuple[JobEvidence, Advice]], list[dict[str, Any]]]:
    """The advice, what saves most first, and rows of what is not known."""
    advice: list[tuple[JobEvidence, Advice]] = []
    unknown: list[dict[str, Any]] = []
    for job in jobs:
        if job.is_empty:
            continue
        found = findings_of(job, limits)
        advice += [(job, each) for each in found if isinstance(each, Advice)]
        unknown += _unknown_rows(job, [each for each in found if isinstance(each, NotKnown)])
    return sorted(advice, key=lambda each: (FIELDS.index(each[1].what), -each[1].saved)), unknown


def _unknown_rows(job: JobEvidence, doubts: Iterable[NotKnown]) -> list[dict[str, Any]]:
    """A row for each reason, with the fields that it is about."""
    fields: dict[str, list[str]] = defaultdict(list)
    for doubt in doubts:
        fields[doubt.reason].append(doubt.what)
    identity = {"name": job.name, "namespace": job.namespace, "kind": job.kind}
    return [{**identity, "what": what, "reason": reason} for reason, what in fields.items()]


def _advice_row(job: JobEvidence, advice: Advice, image: str) -> dict[str, Any]:
    return {
        "name": job.name,
        "namespace": job.namespace,
        "kind": job.kind,
        "image": image,
        "what": advice.what,
        "asked": _manifest_value(GPU if advice.what == SHARE else advice.what, advice.asked),
        "advised": _manifest_value(advice.what, advice.advised),
        "used": {name: _used_value(advice.what, value) for name, value in advice.used._asdict().items()},
        "coverage": advice.coverage,
        "measured_hours": round(advice.seconds / 3600, 2),
        "pods": len(job.pods),
        "saved_hours": round(advice.saved, 2),
        "unit": _UNITS[advice.what],
        "saved_cost": None if advice.cost is None else round(advice.cost, 2),
        "reason": advice.reason,
    }


def _manifest_value(what: str, amount: int) -> int | str:
    """As the manifest has it."""
    return amount if what in (GPU, REPLICAS) else cpu_text(amount) if what == CPU else memory_text(amount)


def _used_value(what: str, value: float | None) -> float | None:
    """Devices, GiB or cores."""
    return None if value is None else round(value / {MEMORY: GIB, CPU: 1000}.get(what, 1), 3)
