# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_usage_info: who held, used and waited for accelerators in a range of time.

Kubernetes knows the pods that are there, the history those that are gone, and Prometheus, where there is one, what the
devices did. Each is a fixed number of lists or queries, whatever the number of jobs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, NamedTuple

from ...accelerators.catalog import DEVICES, catalog
from ...cluster.declared import know_accelerators
from ...cluster.nodes import Node, slim_node
from ...cluster.pod_times import Hold, hold_of
from ...cluster.read_jobs import WORKLOADS
from ...jobs.runs.run_history import PastRun, last_visit, read_history
from ...kube.concurrency import run_concurrently
from ...kube.errors import ApiError, as_sentence
from ...kube.resources import NODE, POD
from ...kube.times import read_time, time_as_text
from ...labels import DEFAULT_POOL, GPU_TYPE, JOB_TYPE, MANAGED, POOL, SUBMITTED_BY, SWEEP, is_managed, job_name_of
from ...listed_namespaces import in_requested_namespaces, read_permitted, whole_cluster_unless
from ...namespaces import listed_namespaces
from ...options import option
from ...task import ModuleSpec, Task
from ...wording import worded
from ..history.past_runs import note_malformed_entry, read_histories, user_of
from ..prometheus.prometheus_client import open_prometheus
from ..prometheus.prometheus_options import prometheus_settings
from .gpu_usage import GROUPS, Owner, Use, usage_rows, use_of_hold, with_measurements
from .measured_usage import MeasuredUsage, NodeCapacity, read_measured
from .usage_options import AccountOptions, account_range, check_idle_below, given_prices

JobId = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class UsageInfoOptions(AccountOptions):
    group_by: list[str] | None = option("list", elements="str", choices=list(GROUPS))
    use_prometheus: str = option("str", choices=["auto", "always", "never"], default="auto")


UsageTask = Task[UsageInfoOptions]


def run(task: UsageTask) -> dict[str, Any]:
    options = task.options
    since, until = account_range(options, datetime.now(timezone.utc))
    check_idle_below(options)
    group_by = list(dict.fromkeys(options.group_by or ["team"]))
    prices = given_prices(options)
    task, own = in_requested_namespaces(task)
    task, seen = read_permitted(task, lambda task: read_cluster(task, since))
    measured = _measured_usage(task, since, until)
    uses = uses_of(seen, since.timestamp(), until.timestamp())
    notes = list(seen.notes)
    if measured is not None:
        uses = with_measurements(uses, measured.pods, 2 * measured.step / 3600)
        uses += only_measured(uses, measured, seen)
        notes += measured.notes
        notes += [measured.absence] if measured.absence and any(use.counted for use in uses) else []
    groups, total = usage_rows(uses, group_by, prices)
    has_prices, is_measured = bool(prices), measured is not None
    rows = [row.result(group_by, has_prices=has_prices, is_measured=is_measured) for row in groups]
    totals = total.result((), has_prices=has_prices, is_measured=is_measured)
    capacity = _capacity_hours(seen, since.timestamp(), until.timestamp(), measured)
    whole = sum(hours for use in uses for row, hours in use.rows() if row.kind == DEVICES)
    return {
        "changed": False,
        "namespace": own,
        "start": time_as_text(since),
        "end": time_as_text(until),
        "group_by": group_by,
        "currency": options.currency or "",
        "results": [row for row in rows if row["held_hours"] or row["queued_hours"]],
        "totals": totals,
        "capacity_hours": None if capacity is None else round(capacity, 4),
        "unallocated_hours": None if capacity is None else round(max(0.0, capacity - whole), 4),
        "source": "Kubernetes, the history of jobs and Prometheus"
        if is_measured
        else "Kubernetes and the history of jobs",
        "notes": [
            worded(note, task.names)
            for note in (*notes, *_doubtful_figures(totals, is_measured=is_measured, has_prices=has_prices))
        ],
    }


MODULE = ModuleSpec(UsageInfoOptions, run, report="usage")


# -- what Kubernetes knows ---------------------------------------------------------------------------------------------


class SeenPod(NamedTuple):
    """A pod, as far as accounts need it."""

    namespace: str
    job: str | None
    pool: str | None
    kind: str | None
    managed: bool
    hold: Hold


@dataclass
class Seen:
    """What was read of a cluster. ``nodes`` are None without permission to list them. Pods of others are missing
    unless ``whole`` cluster was read."""

    pods: list[SeenPod] = field(default_factory=list)
    owners: dict[JobId, Owner] = field(default_factory=dict)
    wanted_types: dict[JobId, str] = field(default_factory=dict)
    runs: list[PastRun] = field(default_factory=list)
    visits: dict[str, float] = field(default_factory=dict)
    nodes: dict[str, Node] | None = None
    whole: bool = False
    notes: list[str] = field(default_factory=list)


def read_cluster(task: UsageTask, since: datetime) -> Seen:
    """Lists of pods, workloads, histories and nodes; all at once. Raises KubeError if pods may not be listed."""
    client, namespaces = task.client(), listed_namespaces(task, task.options.namespaces or None)
    places: Sequence[str | None] = namespaces if namespaces is not None else (None,)
    seen = Seen(whole=namespaces is None)
    know_accelerators(client, task.warn, ())
    labels = "" if seen.whole else MANAGED

    def pods() -> list[SeenPod | None]:
        return [pod for place in places for pod in client.list_slim(POD, _slim_pod, place, labels=labels)]

    def workloads() -> list[tuple[JobId, Owner, str | None]]:
        return [
            found
            for place in places
            for resource in WORKLOADS
            for found in client.list_slim(resource, _slim_workload, place, labels=MANAGED)
        ]

    def histories() -> Any:
        try:
            return read_histories(client, namespaces, texts=False)
        except ApiError as error:
            if not error.is_forbidden:
                raise
            return error

    def nodes() -> Any:
        try:
            return client.list_slim(NODE, slim_node)
        except ApiError as error:
            if not error.is_forbidden:
                raise
            return error

    with whole_cluster_unless(namespaces):
        found, jobs, past, there = run_concurrently(
            lambda read: read(), (pods, workloads, histories, nodes), client.concurrency
        )
    seen.pods = [pod for pod in found if pod is not None]
    for job, owner, gpu_type in jobs:
        seen.owners[job] = owner
        if gpu_type:
            seen.wanted_types[job] = gpu_type
    if isinstance(past, ApiError):
        seen.notes.append(
            f"Pods that are gone are missing, because there is no permission to read the history: {as_sentence(past)}"
        )
    else:
        for namespace, config_maps in past.items():
            seen.runs += read_history(config_maps, partial(note_malformed_entry, client)).values()
            seen.visits[namespace] = last_visit(config_maps) or 0.0
    if isinstance(there, ApiError):
        seen.notes.append(f"Types of GPUs and unallocated hours are not known: {as_sentence(there)}")
    else:
        seen.nodes = {node.name: node for node in there}
    return seen


def _slim_pod(pod: dict[str, Any]) -> SeenPod | None:
    """None for a pod without accelerators, of which clusters have many."""
    hold = hold_of(pod)
    if not hold.amounts:
        return None
    labels = pod["metadata"].get("labels") or {}
    return SeenPod(
        pod["metadata"]["namespace"],
        job_name_of(pod),
        labels.get(POOL),
        labels.get(JOB_TYPE),
        is_managed(pod),
        hold,
    )


def _slim_workload(workload: dict[str, Any]) -> tuple[JobId, Owner, str | None]:
    metadata = workload["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    name = job_name_of(workload) or metadata["name"]
    owner = Owner(
        metadata["namespace"],
        name,
        labels.get(JOB_TYPE),
        user_of(annotations.get(SUBMITTED_BY)),
        labels.get(POOL) or DEFAULT_POOL,
        labels.get(SWEEP),
    )
    selector = workload["spec"]["template"]["spec"].get("nodeSelector") or {}
    return (metadata["namespace"], name), owner, selector.get(GPU_TYPE)


def uses_of(seen: Seen, since: float, until: float) -> list[Use]:
    """What each pod used in the range: those that are there by their status, those that are gone by the history."""
    uses = []
    # By namespace: an account that can write its ConfigMaps could write of pods elsewhere.
    run_of_pod = {(run.namespace, uid): run for run in seen.runs for uid in run.holds}
    for pod in seen.pods:
        job = pod.namespace, pod.job or ""
        run = run_of_pod.get((pod.namespace, pod.hold.uid))
        known = _owner_of_run(run) if run else seen.owners.get(job)
        owner = known or Owner(pod.namespace, pod.job, pod.kind, None, pod.pool or DEFAULT_POOL, None)
        uses.append(_use_of_hold(pod.hold, replace(owner, managed=pod.managed), seen, run, job, since, until))
    there = {pod.hold.uid for pod in seen.pods}
    for run in seen.runs:
        for hold in run.known_holds(seen.visits.get(run.namespace, 0.0)):
            if hold.uid not in there:
                job = run.namespace, run.name
                uses.append(_use_of_hold(hold, _owner_of_run(run), seen, run, job, since, until))
    return [use for use in uses if use.queued or any(use.held.values())]


def _use_of_hold(
    hold: Hold, owner: Owner, seen: Seen, run: PastRun | None, job: JobId, since: float, until: float
) -> Use:
    node = (seen.nodes or {}).get(hold.node or "")
    wanted = run.gpu_type if run else None
    return use_of_hold(
        hold,
        owner,
        since,
        until,
        gpu_type=(node.gpu_type if node else None) or wanted or seen.wanted_types.get(job),
        shared=_shared_on(node, hold.amounts),
    )


def _shared_on(node: Node | None, amounts: Iterable[str]) -> frozenset[str]:
    """The resources that are shares of devices on a node: time-sliced ones have the name of devices."""
    rows = (catalog().row(resource) for resource in amounts) if node and node.counted_as else ()
    return frozenset(row.resource for row in rows if row and node and node.counted_as.get(row.profile))


def _owner_of_run(run: PastRun) -> Owner:
    return Owner(run.namespace, run.name, run.kind, user_of(run.submitter), run.pool or DEFAULT_POOL, run.sweep)


# -- what Prometheus knows ---------------------------------------------------------------------------------------------


def _measured_usage(task: UsageTask, since: datetime, until: datetime) -> MeasuredUsage | None:
    """None without Prometheus, or where none is given and it is not required."""
    options = task.options
    if options.use_prometheus == "never":
        return None
    is_set = prometheus_settings(options, task.environ).is_set
    if options.use_prometheus == "auto" and not is_set:
        return None
    prometheus = open_prometheus(task, options)
    namespaces = listed_namespaces(task, options.namespaces or None)
    return read_measured(prometheus, since.timestamp(), until.timestamp(), options.idle_below, namespaces)


def only_measured(uses: Iterable[Use], measured: MeasuredUsage, seen: Seen) -> list[Use]:
    """The pods that Prometheus has seen, and neither Kubernetes nor the history knows any more."""
    known = {(use.owner.namespace, use.pod) for use in uses}
    last_runs: dict[JobId, PastRun] = {}
    for run in sorted(seen.runs, key=lambda run: run.submitted_at or ""):
        last_runs[run.namespace, run.name] = run
    found = []
    for (namespace, pod), reported in measured.pods.items():
        origin = measured.origins.get((namespace, pod))
        if (namespace, pod) in known or not (reported.held or reported.queued) or origin is None or origin.job is None:
            continue
        job = namespace, origin.job or ""
        last_run, live = last_runs.get(job), seen.owners.get(job)
        owner = (_owner_of_run(last_run) if last_run else live) or Owner(namespace, origin.job)
        node = (seen.nodes or {}).get(origin.node or "")
        found.append(
            Use(
                replace(owner, pool=origin.pool or owner.pool),
                origin.held,
                (node.gpu_type if node else None)
                or (last_run.gpu_type if last_run else None)
                or seen.wanted_types.get(job),
                queued=reported.queued,
                exact=False,
                measured=reported,
                pod=pod,
                shared=_shared_on(node, origin.held),
            )
        )
    return found


# -- the rest ----------------------------------------------------------------------------------------------------------


def _capacity_hours(seen: Seen, since: float, until: float, measured: MeasuredUsage | None) -> float | None:
    """The hours of whole devices that there were: by Prometheus for as long as it has samples of a node, and for the
    rest of its life by the node that is there now, which knows too whether its devices are shared."""
    reported = measured.capacity if measured is not None else {}
    if not seen.whole or (seen.nodes is None and not reported):
        return None
    nodes = seen.nodes or {}
    hours = sum(capacity.hours for name, capacity in reported.items() if name not in nodes)
    for node in nodes.values():
        capacity = reported.get(node.name) or NodeCapacity(0.0, 0.0)
        seconds = max(0.0, until - max(since, read_time(node.created_at).timestamp()))
        if node.gpu_total:
            hours += capacity.hours + max(0.0, seconds - capacity.seconds) / 3600 * node.gpu_total
    return hours


_NEGLIGIBLE = 0.01  # of the held hours


def _doubtful_figures(totals: Mapping[str, Any], *, is_measured: bool, has_prices: bool) -> list[str]:
    """What the figures do not say."""
    found = []
    if not is_measured:
        found.append(
            "Busy and idle hours, memory and energy are not known without Prometheus. Set O(prometheus_url) or "
            "O(prometheus_service)."
        )
    elif totals["coverage"] is not None and totals["coverage"] < 1 - _NEGLIGIBLE:
        found.append(
            f"The utilization of {_in_percent(1 - totals['coverage'])} of the held hours is not known: no exporter has "
            f"reported it."
        )
    if totals["estimated_hours"] > _NEGLIGIBLE * totals["held_hours"]:
        found.append(
            f"{_in_percent(totals['estimated_hours'] / totals['held_hours'])} of the held hours are estimated: the end "
            f"of these pods was not observed. Run the playbook record_history more often."
        )
    if has_prices and totals["unpriced_hours"]:
        share = _in_percent(totals["unpriced_hours"] / totals["held_hours"])
        found.append(f"{share} of the held hours have no price. Add their types to O(prices).")
    return found


def _in_percent(part: float) -> str:
    return f"{math.ceil(part * 100)} %"
