# SPDX-License-Identifier: BSD-2-Clause
"""Wait until jobs reach a goal, or until it is certain that they will not."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..cluster.read import WORKLOADS, JobId, by_time, selector_of
from ..cluster.reason import PendingReason
from ..cluster.status import status_of
from ..kube.client import Client
from ..kube.resources import EVENT, POD, Resource
from ..labels import job_name_of
from .feasibility import Feasibility, stopped
from .goals import Goal
from .watch_cache import WatchCache, WatchQuery

Object = dict[str, Any]

_MIN_INTERVAL = 0.1  # seconds between two checks of all jobs, however much changes


@dataclass(frozen=True)
class WaitTarget:
    """A job to wait for. ``workload_kind`` is None if unknown. ``fresh``: it was created just now.

    ``title`` names it in messages, ``note`` is added to the reason why it is not running.
    """

    id: JobId
    workload_kind: str | None
    fresh: bool = False
    title: str = ""
    note: str = ""


@dataclass
class JobStatus:
    """A job at the last check. ``fatal`` is why it will not reach the goal, ``blocker`` what keeps it from that now."""

    workload: Object | None = None
    pods: list[Object] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)
    reached_goal: bool = False
    fatal: PendingReason | None = None
    blocker: PendingReason | None = None

    @property
    def settled(self) -> bool:
        return self.reached_goal or self.fatal is not None


@dataclass(frozen=True)
class Wait:
    """What to wait for, and how long (``timeout`` in seconds).

    ``keep_going``: a fatal job does not end the wait for the others. ``new_nodes``: nodes may be added. ``report`` is
    called with the statuses after each change, and again after the number of seconds that it returns.
    """

    client: Client
    goal: Goal
    timeout: float
    warn: Callable[[str], None]
    keep_going: bool = False
    new_nodes: bool = False
    report: Callable[[Mapping[JobId, JobStatus]], float] = lambda job_statuses: 60.0

    def wait(self, jobs: Iterable[WaitTarget]) -> dict[JobId, JobStatus]:
        """The status of each job at the end. Raises KubeError if the cluster cannot be read.

        The workloads are listed first; if all have reached the goal, nothing else is read. Then pods and warnings are
        listed as well, and everything is watched: the number of requests depends on the kinds and namespaces alone.
        """
        jobs = list(jobs)
        deadline = time.monotonic() + self.timeout
        feasibility = Feasibility(self.client, new_nodes=self.new_nodes)
        job_statuses = {job.id: JobStatus() for job in jobs}
        with WatchCache(self.client, self.warn) as cache:
            cache.add(_workloads(jobs))
            if self.goal.needs_pods:
                cache.add(_queries(POD, jobs))
            self._check(cache, jobs, job_statuses, None)
            if self._is_over(job_statuses):
                return job_statuses
            cache.add([*_queries(POD, jobs), *(_warnings(jobs) if self.goal.requires_running else ())])
            cache.watch()
            while True:
                began = time.monotonic()
                self._check(cache, jobs, job_statuses, feasibility)
                report_after = self.report(job_statuses)
                now = time.monotonic()
                if self._is_over(job_statuses) or now >= deadline:
                    return job_statuses
                # Checking thousands of jobs takes long: at most half of the time.
                time.sleep(min(max(_MIN_INTERVAL, now - began), deadline - now))
                cache.wait_for_change(min(report_after, deadline - time.monotonic()))

    def _check(
        self,
        cache: WatchCache,
        jobs: list[WaitTarget],
        job_statuses: dict[JobId, JobStatus],
        feasibility: Feasibility | None,
    ) -> None:
        """Update the statuses; without ``feasibility``, only whether the goal is reached."""
        workloads = {_job_of(obj): obj for obj in cache.objects(*WORKLOADS)}
        deleted = {_job_of(obj): obj for obj in cache.deleted(*WORKLOADS)}
        pods: dict[JobId, list[Object]] = defaultdict(list)
        for pod in cache.objects(POD):
            pods[_job_of(pod)].append(pod)
        events = _by_subject(cache.objects(EVENT))
        for job in jobs:
            workload = workloads.get(job.id)
            last = deleted.get(job.id) or job_statuses[job.id].workload
            if workload is None and self.goal.requires_running and last and status_of(last) == "Succeeded":
                job_statuses[job.id] = JobStatus(last, reached_goal=True)  # Its TTL ended during the wait.
                continue
            now = job_statuses[job.id] = JobStatus(workload, pods[job.id])
            now.fatal = now.blocker = stopped(workload) if self.goal.requires_running else None
            now.reached_goal = not now.fatal and self.goal.reached(workload, now.pods)
            if feasibility and workload and self.goal.requires_running and not now.settled:
                now.events = [event for obj in (workload, *now.pods) for event in events[_subject(obj)]]
                now.fatal, now.blocker = feasibility.of(workload, now.pods, now.events, fresh=job.fresh)

    def _is_over(self, job_statuses: Mapping[JobId, JobStatus]) -> bool:
        """Whether every job is settled, or one is fatal and the wait does not keep going."""
        fatal = any(job_status.fatal for job_status in job_statuses.values())
        return (fatal and not self.keep_going) or all(job_status.settled for job_status in job_statuses.values())


def _workloads(jobs: Iterable[WaitTarget]) -> Iterator[WatchQuery]:
    for resource in WORKLOADS:
        yield from _queries(resource, (job for job in jobs if job.workload_kind in (None, resource.kind)))


def _queries(resource: Resource, jobs: Iterable[WaitTarget]) -> Iterator[WatchQuery]:
    """One query per namespace for the objects of the jobs."""
    names: dict[str, set[str]] = defaultdict(set)
    for job in jobs:
        names[job.id[0]].add(job.id[1])
    return (WatchQuery(resource, namespace, selector_of(named)) for namespace, named in names.items())


def _warnings(jobs: Iterable[WaitTarget]) -> Iterator[WatchQuery]:
    for namespace in dict.fromkeys(job.id[0] for job in jobs):
        yield WatchQuery(EVENT, namespace, fields="type=Warning", optional=True)


def _job_of(obj: Object) -> JobId:
    return obj["metadata"]["namespace"], job_name_of(obj) or ""


def _subject(obj: Object) -> tuple[str, str, str]:
    return obj["metadata"]["namespace"], obj["kind"], obj["metadata"]["name"]


def _by_subject(events: Iterable[Object]) -> dict[tuple[str, str, str], list[Object]]:
    """Events by the object that they are about; a ReplicaSet counts as its Deployment."""
    found: dict[tuple[str, str, str], list[Object]] = defaultdict(list)
    for event in by_time(events):
        involved = event.get("involvedObject") or {}
        kind, name = str(involved.get("kind")), str(involved.get("name", ""))
        if kind == "ReplicaSet":
            kind, name = "Deployment", name.rpartition("-")[0]
        found[event["metadata"].get("namespace", ""), kind, name].append(event)
    return found
