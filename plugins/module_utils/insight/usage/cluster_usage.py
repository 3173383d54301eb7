# SPDX-License-Identifier: BSD-2-Clause
"""What Kubernetes knows of the use of accelerators: the pods that are there, and those that are gone by the history."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

from ...accelerators.catalog import catalog
from ...cluster.declared import read_declared
from ...cluster.nodes import Node, slim_node
from ...cluster.pod_times import Hold, hold_of
from ...cluster.read_jobs import WORKLOADS, JobId
from ...jobs.objects.priority import OPPORTUNISTIC
from ...jobs.runs.run_history import PastRun, last_visit, read_history, read_limits
from ...kube.concurrency import run_concurrently
from ...kube.errors import ApiError, as_sentence
from ...kube.resources import NODE, POD
from ...kube.times import read_time
from ...labels import (
    CLAIMED_DEVICES,
    DEFAULT_POOL,
    GPU_TYPE,
    HISTORY,
    JOB_TYPE,
    MANAGED,
    POOL,
    PRIORITY,
    SUBMITTED_BY,
    SWEEP,
    is_managed,
    job_name_of,
)
from ...listed_namespaces import list_each, or_refusal, whole_cluster_unless
from ...manifest.problems import abridged, number_of
from ...namespaces import listed_namespaces
from ...task import Task
from ..history.past_runs import note_malformed_entry, read_histories, user_of
from .gpu_usage import Owner, Use, counted_amount, use_of_hold

_NAMED = 3  # namespaces in a note


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
    recorded_since: dict[str, float] = field(default_factory=dict)
    nodes: dict[str, Node] | None = None
    whole: bool = False
    notes: list[str] = field(default_factory=list)


def read_cluster(task: Task[Any], *, owners: bool = True, every_pod: bool = False) -> Seen:
    """Lists of pods, histories, nodes and, for ``owners`` and the types that jobs want, of workloads; all at once.
    Raises KubeError if pods may not be listed. ``every_pod``: also those of other tools in the namespaces named."""
    client, namespaces = task.client(), listed_namespaces(task, task.options.namespaces or None)
    seen = Seen(whole=namespaces is None)
    read_declared(client, task.warn)
    labels = "" if seen.whole or every_pod else MANAGED

    def pods() -> list[SeenPod | None]:
        return list_each(lambda kind, place: client.list_slim(kind, _slim_pod, place, labels=labels), [POD], namespaces)

    def workloads() -> list[tuple[JobId, Owner, str | None]]:
        kinds = WORKLOADS if owners else ()
        return list_each(
            lambda kind, place: client.list_slim(kind, _slim_workload, place, labels=MANAGED), kinds, namespaces
        )

    def histories() -> Any:
        return or_refusal(lambda: read_histories(client, namespaces, texts=False))

    def nodes() -> Any:
        return or_refusal(lambda: client.list_slim(NODE, slim_node))

    with whole_cluster_unless(namespaces):
        found, jobs, past, there = run_concurrently(
            lambda read: read(), (pods, workloads, histories, nodes), client.concurrency
        )
    seen.pods = [pod for pod in found if pod is not None and pod.hold.amounts]
    others = (pod for pod in found if pod is not None and not pod.hold.amounts)
    if uncounted := [pod.namespace for pod in others if pod.hold.end is None]:
        where = abridged(sorted({*uncounted}), _NAMED)
        seen.notes.append(
            f"Devices that pods claim are not counted where the annotation {CLAIMED_DEVICES} does not say how many: "
            f"{number_of(len(uncounted), 'pod')} in {where}"
        )
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
            seen.recorded_since[namespace] = _record_start(config_maps)
    if isinstance(there, ApiError):
        seen.notes.append(f"Types of GPUs and unallocated hours are not known: {as_sentence(there)}")
    else:
        seen.nodes = {node.name: node for node in there}
    return seen


def _record_start(config_maps: Iterable[dict[str, Any]]) -> float:
    """Since when a history has all runs: it began with its newest ConfigMap, and keeps its last days."""
    now, starts = datetime.now(timezone.utc).timestamp(), [math.inf]
    for each in config_maps:
        if each["metadata"]["name"] == HISTORY and (created := each["metadata"].get("creationTimestamp")):
            starts.append(max(read_time(created).timestamp(), now - read_limits(each).days * 86_400))
    return min(starts)


def _slim_pod(pod: dict[str, Any]) -> SeenPod | None:
    """None for a pod without accelerators, of which clusters have many; without amounts if it claims devices and does
    not say how many."""
    hold = hold_of(pod)
    if not hold.amounts and not pod["spec"].get("resourceClaims"):
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
        yields=labels.get(PRIORITY) == OPPORTUNISTIC,
    )
    selector = workload["spec"]["template"]["spec"].get("nodeSelector") or {}
    return (metadata["namespace"], name), owner, selector.get(GPU_TYPE)


def uses_of(seen: Seen, since: float, until: float) -> list[Use]:
    """What each pod used in the range: those that are there by their status, those that are gone by the history."""
    uses = []
    live: dict[JobId, list[Hold]] = defaultdict(list)
    # By namespace: an account that can write its ConfigMaps could write of pods elsewhere.
    run_of_pod = {(run.namespace, uid): run for run in seen.runs for uid in run.holds}
    for pod in seen.pods:
        job = pod.namespace, pod.job or ""
        live[job].append(pod.hold)
        run = run_of_pod.get((pod.namespace, pod.hold.uid))
        known = owner_of_run(run) if run else seen.owners.get(job)
        owner = known or Owner(pod.namespace, pod.job, pod.kind, None, pod.pool or DEFAULT_POOL, None)
        uses.append(_use_of_hold(pod.hold, replace(owner, managed=pod.managed), seen, run, job, since, until))
    there = {pod.hold.uid for pod in seen.pods}
    for run in seen.runs:
        for hold in run.known_holds(seen.visits.get(run.namespace, 0.0)):
            if hold.uid not in there:
                job = run.namespace, run.name
                uses.append(_use_of_hold(hold, owner_of_run(run), seen, run, job, since, until))
    stopped = (run for run in seen.runs if run.given_back)
    uses += [use for run in stopped for use in _given_back(run, live[run.namespace, run.name], seen, since, until)]
    return [use for use in uses if use.queued or any(use.held.values()) or use.reclaimed or use.reclaimed_hours]


def _given_back(run: PastRun, live: Iterable[Hold], seen: Seen, since: float, until: float) -> Iterator[Use]:
    """What gpuctl_idle gave back of a run, each time that it stopped it: from when the pods were gone until there was
    one again, the run had ended, or the range ends."""
    holds = sorted([*run.known_holds(seen.visits.get(run.namespace, 0.0)), *live], key=lambda hold: hold.created)
    begun = [hold.created for hold in holds]
    # Of those that began up to one, when all were gone.
    gone = [0.0, *accumulate((until if hold.end is None else hold.end for hold in holds), max)]
    stops = sorted(run.given_back.values(), key=lambda hold: hold.created)
    for number, stop in enumerate(stops):
        place = bisect_right(begun, stop.created)
        start = max(stop.created, gone[place])
        again = [*begun[place : place + 1], *(each.created for each in stops[number + 1 : number + 2])]
        end = min([until, *again, *([run.last_known] if run.has_ended else [])])
        back, job = stop._replace(start=start, end=max(start, end)), (run.namespace, run.name)
        use = _use_of_hold(back, owner_of_run(run), seen, run, job, since, until)
        is_new = since <= stop.created < until
        nothing: dict[str, Any] = {"held": {}, "queued": 0.0, "given_back": 0, "exact": True, "pod": ""}
        reclaimed = counted_amount(stop.amounts) if is_new else 0
        yield replace(use, **nothing, reclaimed=reclaimed, reclaimed_hours=use.counted)


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
        shared=shared_on(node, hold.amounts),
    )


def shared_on(node: Node | None, amounts: Iterable[str]) -> frozenset[str]:
    """The resources that are shares of devices on a node: time-sliced ones have the name of devices."""
    rows = (catalog().row(resource) for resource in amounts) if node and node.counted_as else ()
    return frozenset(row.resource for row in rows if row and node and node.counted_as.get(row.profile))


def owner_of_run(run: PastRun) -> Owner:
    yields, pool = run.priority == OPPORTUNISTIC, run.pool or DEFAULT_POOL
    return Owner(run.namespace, run.name, run.kind, user_of(run.submitter), pool, run.sweep, yields=yields)
