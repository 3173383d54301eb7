# SPDX-License-Identifier: BSD-2-Clause
"""Judge jobs against the cluster: read what the scheduler looks at, and let fit.py answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeAlias

from ...cluster.declared import Declared
from ...cluster.nodes import with_use
from ...cluster.pod_facts import PlacedPod
from ...cluster.read_jobs import JobId
from ...jobs.job_queues import is_dispatched
from ...jobs.runs.run_history import HISTORIES
from ...jobs.select import SelectedJob
from ...kube.client import Client
from ...kube.concurrency import run_concurrently
from ...kube.errors import AnswerTooLarge, if_allowed
from ...kube.resources import CONFIG_MAP, DEPLOYMENT, JOB, STATEFUL_SET
from ...kube.times import read_time
from ...labels import HISTORY, LEDGER, MANAGED
from ..history.job_ends import JobEnd, expected_ends, limited_service, run_lengths, slim_job
from .fit import FitChange, FitJob, IsWanted, fit_jobs
from .fit_changes import changed_jobs, room_of_pools
from .fit_rows import Places, as_dispatched, fit_row
from .fit_snapshot import FitSnapshot, read_fit_snapshot
from .job_cost import cost_of_job
from .quota_rivals import with_quota_rivals
from .room_rivals import with_room_rivals

WithDelays: TypeAlias = "Callable[..., list[dict[str, Any]]]"


def judge_jobs(
    client: Client,
    jobs: Sequence[SelectedJob],
    declared: Declared,
    rolling: Collection[JobId] = (),
    growing: Collection[JobId] = (),
    left: Mapping[JobId, int] = MappingProxyType({}),
    with_delays: WithDelays | None = None,
) -> list[dict[str, Any]]:
    """A row for each job. Its objects are built already. ``rolling`` are those that get a rolling update, ``growing``
    those that keep their pods. Of others, as many pods as ``left`` has are left before these start. ``with_delays`` is
    that of delayed_jobs.py."""
    if not jobs:
        return []
    classes = {job.priority_class["metadata"]["name"]: job.priority_class for job in jobs if job.priority_class}
    may_claim = declared.claims_devices or bool(declared.found_classes)
    snapshot = read_fit_snapshot(client, [job.objects for job in jobs], classes, may_claim=may_claim)
    now = datetime.now(timezone.utc)
    ends = _read_ends(client, snapshot, now)
    return rows_of(snapshot, jobs, declared, ends, now, rolling, growing, left, with_delays)


def rows_of(
    snapshot: FitSnapshot,
    jobs: Sequence[SelectedJob],
    declared: Declared,
    ends: Mapping[JobId, JobEnd],
    now: datetime,
    rolling: Collection[JobId] = (),
    growing: Collection[JobId] = (),
    left: Mapping[JobId, int] = MappingProxyType({}),
    with_delays: WithDelays | None = None,
) -> list[dict[str, Any]]:
    """The same from what has been read. Pure."""
    nodes = with_use([one.node for one in snapshot.nodes or ()], [one.use for one in snapshot.pods or ()])
    pools = room_of_pools(nodes)
    judged = [snapshot.job_of(job.objects, rolls=job.id in rolling, grows=job.id in growing) for job in jobs]
    selected = {job.id: job for job in jobs}
    seconds = {name: (end.at - now).total_seconds() for name, end in ends.items()}
    leaving = [pod for job, number in left.items() for pod in _in_order_of_their_end(snapshot.pods_of(job))[number:]]
    cluster = replace(snapshot.cluster(seconds), leaving=leaving)

    def variants(job: FitJob, is_wanted: IsWanted) -> Iterator[tuple[FitChange, FitJob]]:
        for change, other in changed_jobs(selected[job.namespace, job.name], declared, pools, is_wanted):
            yield change, snapshot.job_of(other.objects)

    fits = with_quota_rivals(cluster.quotas, with_room_rivals(cluster, fit_jobs(cluster, judged, variants)))
    places = Places(nodes)
    rows = [
        fit_row(fit, job.kind, places, ends, now, cluster.endless)
        | {"gpu_hours": cost_of_job(fit.job, job.objects[0], snapshot.quotas.get(fit.job.namespace), now)}
        for fit, job in zip(fits, jobs, strict=True)
    ]
    rows = [
        as_dispatched(row, job.pool) if is_dispatched(declared.pools.get(job.pool)) else row
        for row, job in zip(rows, jobs, strict=True)
    ]
    new_nodes = declared.growing
    if with_delays:
        rows = with_delays(rows, fits, [job.objects[0] for job in jobs], snapshot, cluster, ends, now, new_nodes)
    if not new_nodes:
        return rows
    from .new_nodes import after_new_nodes  # Here: few pools grow.

    return [
        after_new_nodes(row, fit, (other for other in fits if other is not fit), new_nodes, snapshot, places)
        for row, fit in zip(rows, fits, strict=True)
    ]


def _in_order_of_their_end(pods: Sequence[PlacedPod]) -> list[PlacedPod]:
    """Those that a ReplicaSet ends first come last: of the nodes that have the most of them, and the youngest
    (ActivePodsWithRanks, pkg/controller/controller_utils.go)."""
    together = Counter(pod.node for pod in pods)
    return sorted(pods, key=lambda pod: (pod.node is None, together[pod.node], pod.created_at))


def _read_ends(client: Client, snapshot: FitSnapshot, now: datetime) -> dict[JobId, JobEnd]:
    """When the jobs of the cluster end. Three lists, and two where notebooks or services run; without one, less is
    known: it may not be permitted, and all histories of a cluster may be more than a task reads."""
    if not snapshot.pods:
        return {}
    none: list[Any] = []
    reads: tuple[Callable[[], list[Any]], ...] = (
        lambda: client.list_slim(JOB, slim_job),
        lambda: client.list_objects(CONFIG_MAP, fields=f"metadata.name={LEDGER}"),
        lambda: client.list_slim(CONFIG_MAP, run_lengths, labels=HISTORIES, fields=f"metadata.name={HISTORY}"),
    )

    if snapshot.services:
        slim_service = partial(limited_service, now=now)
        reads += tuple(
            partial(client.list_slim, resource, slim_service, labels=MANAGED, metadata_only=True)
            for resource in (DEPLOYMENT, STATEFUL_SET)
        )

    def known(read: Callable[[], list[Any]]) -> list[Any]:
        try:
            return if_allowed(read, none)
        except AnswerTooLarge:
            return none

    jobs, ledgers, histories, *services = run_concurrently(known, reads, client.concurrency)
    limited = dict(filter(None, chain.from_iterable(services)))
    return limited | expected_ends(jobs, ledgers, _pod_deadlines(snapshot), histories)


def _pod_deadlines(snapshot: FitSnapshot) -> dict[JobId, datetime]:
    """By then Kubernetes has ended all pods of a job, if each has a deadline."""
    found: dict[JobId, datetime | None] = {}
    for pod in snapshot.pods or ():
        if pod.node is None:
            continue
        end = _deadline(pod.started_at, pod.ends_by)
        before = found.get(pod.job, end)
        found[pod.job] = max(before, end) if before and end else None
    return {name: end for name, end in found.items() if end}


def _deadline(started_at: str, seconds: int | None) -> datetime | None:
    return read_time(started_at) + timedelta(seconds=seconds) if seconds is not None and started_at else None
