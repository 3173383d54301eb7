# SPDX-License-Identifier: BSD-2-Clause
"""Which jobs that wait a job delays that runs now, and the time limit with which it would not (backfill). Pure.

Kubernetes keeps no room for a pod that waits. A delay is only named where the start is known, and if it comes of that
wherever the scheduler puts the pods.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from ...cluster.admitted_pod import DEFAULT_SCHEDULER, WantedPod
from ...cluster.pod_facts import PlacedPod
from ...cluster.read_jobs import JobId
from ...cluster.time_limits import limit_seconds, recorded_limit, span_text
from ...given_times import LONGEST_TIME_LIMIT, SHORTEST_TIME_LIMIT
from ...kube.resources import Object
from ...kube.times import time_as_text
from ...labels import DEFAULT_POOL, POOL
from ...manifest.problems import abridged
from ..history.job_ends import JobEnd
from .fit import PACKED, STUCK, Cluster, Fit, FitJob, Trial, fit_jobs, number_of_trials
from .fit_rows import expected_start, time_until
from .fit_snapshot import FitSnapshot
from .verdicts import AFTER_JOBS, NOW

Row = dict[str, Any]
_Key: TypeAlias = "tuple[str, int | None]"  # what makes jobs alike, and their time limit

_WAITING = 5  # jobs that wait for the same nodes
_SEEN = 50  # of which that is looked up
_UNLIKE = 20  # jobs of a task
_SPARE = 300  # seconds until it is submitted


class _Start(NamedTuple):
    """When a job runs that waits, and its place in the scheduler's queue."""

    at: datetime
    place: int
    job: FitJob


def with_delays(
    rows: list[Row],
    fits: Sequence[Fit],
    workloads: Sequence[Object],
    snapshot: FitSnapshot,
    cluster: Cluster,
    ends: Mapping[JobId, JobEnd],
    now: datetime,
    growing: Collection[str],
) -> list[Row]:
    """The rows of the jobs, with what each that runs now delays by itself. ``growing`` are pools that may get nodes."""
    waiting = _waiting(snapshot, {fit.job.id for fit in fits}, growing)
    if not waiting:
        return rows
    cluster = replace(cluster, quotas={})  # They have been charged with the pods that wait.
    keys = [_key(fit, workload, cluster) for fit, workload in zip(fits, workloads, strict=True)]
    unlike = {key: fit.job for key, fit in zip(keys, fits, strict=True) if key}
    jobs = {key: _kept_to_free_nodes(cluster, job) for key, job in islice(unlike.items(), _UNLIKE)}
    queue = _queue(cluster, snapshot, waiting, jobs.values()) if jobs else []
    delayed: dict[_Key, list[_Start]] = defaultdict(list)
    for start in (starts := _starts(cluster, queue, ends, now)):
        ahead = queue[: start.place]
        later = {one.place for one in starts if one > start and (one.job.number == 1 or one.job.together)}
        sooner = [job for place, job in enumerate(queue) if place > start.place and place not in later]
        gone = [pod for pod in snapshot.pods or () if pod.job in ends and now <= ends[pod.job].at <= start.at]
        with cluster.world.without(gone):
            if _is_always(NOW, cluster, [*sooner, *ahead, start.job]):
                for key, job in jobs.items():
                    lasts = key[1] is None or now + timedelta(seconds=key[1]) > start.at
                    if lasts and _is_always(STUCK, cluster, [job, *ahead, start.job]):
                        delayed[key].append(start)
    return [
        _delaying(row, delayed[key], key[1], now) if key and key in delayed else row
        for row, key in zip(rows, keys, strict=True)
    ]


def _key(fit: Fit, workload: Object, cluster: Cluster) -> _Key | None:
    """None for a job that takes no free room, or for which this is not judged."""
    job = fit.job
    if fit.verdict != NOW or not job.number or job.replaces or job.keeps or job.pod.spread:
        return None
    limit = (limit_seconds if workload["kind"] == "Job" else recorded_limit)(workload)
    return "/".join(job.id) if cluster.world.has_rules else job.likeness, limit


def _waiting(snapshot: FitSnapshot, judged: Collection[JobId], growing: Collection[str]) -> list[list[PlacedPod]]:
    """The pods without a node of each job, in the order in which the scheduler serves them."""
    found: dict[JobId, list[PlacedPod]] = defaultdict(list)
    for pod in snapshot.pods or ():
        is_tried = pod.rules is not None and not (pod.rules.get("schedulingGates") or pod.nominated or pod.is_ending)
        if is_tried and pod.use.job_kind and pod.job not in judged and pod.use.pool not in growing:
            found[pod.job].append(pod)
    return sorted(found.values(), key=lambda pods: (-pods[0].priority, pods[0].created_at, pods[0].job))


def _kept_to_free_nodes(cluster: Cluster, job: FitJob) -> FitJob:
    """The job on nodes that take it now: by the time that others have ended, it is there."""
    world, pod = cluster.world, job.pod
    with world.without(cluster.leaving), world.rules_of(pod) as rules:
        names = [state.name for state in world.suitable(pod)[0] if world.takes(pod, state, rules)]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    affinity = {**(pod.spec.get("affinity") or {}), "nodeAffinity": required}
    return replace(job, pod=replace(pod, spec={**pod.spec, "affinity": affinity}))


def _queue(
    cluster: Cluster, snapshot: FitSnapshot, waiting: Iterable[list[PlacedPod]], jobs: Iterable[FitJob]
) -> list[FitJob]:
    """The first that wait for nodes of the jobs."""
    world = cluster.world
    names = {state.name for job in jobs for state in world.suitable(job.pod)[0]}
    pools = {world.nodes[name].node.labels.get(POOL, DEFAULT_POOL) for name in names}
    near = (pods for pods in waiting if pods[0].use.pool in pools)
    found = (_waiting_job(pods, snapshot) for pods in islice(near, _SEEN))
    return [job for job in found if any(state.name in names for state in world.suitable(job.pod)[0])][:_WAITING]


def _waiting_job(pods: Sequence[PlacedPod], snapshot: FitSnapshot) -> FitJob:
    """A job by its pods without a node. Where it is not judged, its start is not known."""
    first = pods[0]
    rules = first.rules or {}
    claims = () if snapshot.claims.get(first.namespace) is None else first.claims
    is_judged = (
        rules.get("schedulerName") in (None, DEFAULT_SCHEDULER)
        and claims == first.claims
        and not first.use.claims
        and "DoNotSchedule" not in str(rules.get("topologySpreadConstraints"))
        and all((pod.requests, pod.rules) == (first.requests, first.rules) for pod in pods)
    )
    spec = {name: rules.get(name) for name in ("nodeSelector", "affinity", "tolerations")}
    preempts = rules.get("preemptionPolicy") != "Never"
    amounts = first.requests, first.ports, first.priority, preempts, claims
    pod = WantedPod(first.namespace, first.job[1], first.labels, spec, *amounts, undecided=() if is_judged else ("",))
    return FitJob(*first.job, pod, len(pods), together=bool(rules.get("schedulingGroup")))


def _starts(cluster: Cluster, queue: Sequence[FitJob], ends: Mapping[JobId, JobEnd], now: datetime) -> list[_Start]:
    """When each would run if no other one waited, the first one first."""
    fits = [fit_jobs(cluster, [job])[0] for job in queue]
    waits = [fit.verdict == AFTER_JOBS and fit.job.id not in fit.after for fit in fits]
    known = [expected_start(fit, ends, now) if is_known else None for fit, is_known in zip(fits, waits, strict=True)]
    return sorted(_Start(at, place, queue[place]) for place, at in enumerate(known) if at)


def _is_always(verdict: str, cluster: Cluster, jobs: Sequence[FitJob]) -> bool:
    """Whether it comes out for the last job wherever the others go: also where that leaves it the least, or most."""
    last, number = len(jobs) - 1, number_of_trials(cluster.world)
    trials = (Trial(cluster, random.Random(seed), seed) for seed in range(1, number))
    targeted = Trial(cluster, random.Random(0), PACKED, jobs[last].pod, hostile=verdict == NOW)
    return all(trial.run(jobs)[last].verdict == verdict for trial in (targeted, *trials))


def _delaying(row: Row, delayed: Sequence[_Start], limit: int | None, now: datetime) -> Row:
    first = delayed[0].at
    names = abridged(["/".join(start.job.id) for start in delayed], 3)
    which = f"job {names}, which" if len(delayed) == 1 else f"jobs {names}, the first of which"
    reason = f"Unless it ends within {time_until(first, now)}, it delays {which} runs then without it."
    advised = _advised_limit((first - now).total_seconds())
    instead = "" if limit is None else f" instead of {span_text(limit)}"
    hint = f"With job.time_limit {advised}{instead}, it ends before that." if advised else None
    jobs = [{"namespace": one.job.namespace, "name": one.job.name, "runs_at": time_as_text(one.at)} for one in delayed]
    return {**row, "reason": f"{row['reason']} {reason}", "hint": hint, "delays": jobs, "backfill_limit": advised}


def _advised_limit(gap: float) -> str | None:
    """The longest limit below it, as a person gives it."""
    seconds = min(int(gap) - _SPARE, LONGEST_TIME_LIMIT)
    seconds -= seconds % (3600 if seconds >= 3 * 3600 else 900)
    return span_text(seconds) if seconds >= SHORTEST_TIME_LIMIT else None
