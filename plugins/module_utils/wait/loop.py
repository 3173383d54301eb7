# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Wait until jobs are what a task waits for, or until it is certain that they will not be."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..cluster.events import Event
from ..cluster.live_jobs import WORKLOADS, JobId, by_time, selector_of
from ..cluster.reason import PendingReason
from ..cluster.status import status_of
from ..kube.client import Client
from ..kube.resources import EVENT, POD
from ..labels import job_name_of
from .feasibility import Feasibility, stopped
from .goals import Goal
from .watch_cache import WatchCache, WatchQuery

Object = dict[str, Any]

_REST = 0.1  # seconds at least between two looks at all jobs, however much happens


@dataclass(frozen=True)
class WaitTarget:
    """A job that is waited for. ``workload_kind`` is None where it is not known; ``fresh``: it was made just now."""

    id: JobId
    workload_kind: str | None
    fresh: bool = False


@dataclass
class JobStatus:
    """Where a job stood when it was last looked at.

    ``hopeless`` is why it will not arrive any more, ``obstacle`` the most telling of what stands in its way now.
    """

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
    """How long and for what is waited.

    ``keep_going``: a job that cannot arrive does not end the waiting for the others. ``new_nodes``: nodes may come that
    are not there yet. ``tell`` is called with the standings whenever something has changed, and after the number of
    seconds that it returned.
    """

    client: Client
    goal: Goal
    timeout: float
    warn: Callable[[str], None]
    keep_going: bool = False
    new_nodes: bool = False
    tell: Callable[[Mapping[JobId, JobStatus]], float] = lambda job_statuses: 60.0

    def wait(self, jobs: Iterable[WaitTarget]) -> dict[JobId, JobStatus]:
        """Where each job stands at the end. Raises KubeError when the cluster cannot be read.

        The workloads are listed first, and nothing else is asked when they have all arrived. Then pods and warnings are
        listed too, and everything is watched: the number of requests depends neither on the time nor on the jobs, but
        on their kinds and namespaces.
        """
        jobs = list(jobs)
        deadline = time.monotonic() + self.timeout
        feasibility = Feasibility(self.client, new_nodes=self.new_nodes)
        job_statuses = {job.id: JobStatus() for job in jobs}
        with WatchCache(self.client, self.warn) as cache:
            cache.ask(_workloads(jobs))
            if self.goal.needs_pods:
                cache.ask(_pods(jobs))
            self._look(cache, jobs, job_statuses, None)
            if self._is_over(job_statuses):
                return job_statuses
            cache.ask([*_pods(jobs), *(_warnings(jobs) if self.goal.requires_running else ())])
            cache.follow()
            while True:
                began = time.monotonic()
                self._look(cache, jobs, job_statuses, feasibility)
                tell_again = self.tell(job_statuses)
                now = time.monotonic()
                if self._is_over(job_statuses) or now >= deadline:
                    return job_statuses
                time.sleep(min(max(_REST, now - began), deadline - now))
                cache.changed(min(tell_again, deadline - time.monotonic()))

    def _look(
        self,
        cache: WatchCache,
        jobs: list[WaitTarget],
        job_statuses: dict[JobId, JobStatus],
        feasibility: Feasibility | None,
    ) -> None:
        """Bring the standings up to date; without ``prospects`` only as to who has arrived."""
        workloads = {_job_of(obj): obj for obj in cache.objects(*WORKLOADS)}
        deleted = {_job_of(obj): obj for obj in cache.deleted(*WORKLOADS)}
        pods: dict[JobId, list[Object]] = defaultdict(list)
        for pod in cache.objects(POD):
            pods[_job_of(pod)].append(pod)
        events = _Events(cache.objects(EVENT))
        for job in jobs:
            workload = workloads.get(job.id)
            last = deleted.get(job.id) or job_statuses[job.id].workload
            if workload is None and self.goal.requires_running and last and status_of(last) == "Succeeded":
                job_statuses[job.id] = JobStatus(
                    last, reached_goal=True
                )  # Its time to live ended while others are on their way.
                continue
            now = job_statuses[job.id] = JobStatus(workload, pods[job.id])
            now.fatal = now.blocker = stopped(workload) if self.goal.requires_running else None
            now.reached_goal = not now.fatal and self.goal.reached(workload, now.pods)
            if feasibility and workload and self.goal.requires_running and not now.settled:
                now.events = list(events.of(workload, now.pods))
                now.fatal, now.blocker = feasibility.of(workload, now.pods, now.events, fresh=job.fresh)

    def _is_over(self, job_statuses: Mapping[JobId, JobStatus]) -> bool:
        """Everybody is settled; or one is lost, and nobody asked to keep going."""
        lost = any(job_status.fatal for job_status in job_statuses.values())
        return all(job_status.settled for job_status in job_statuses.values()) or (lost and not self.keep_going)


# -- what is asked ---------------------------------------------------------------------------------------------------


def _workloads(jobs: Iterable[WaitTarget]) -> Iterator[WatchQuery]:
    for resource in WORKLOADS:
        asked = [job for job in jobs if job.workload_kind in (None, resource.kind)]
        for namespace, names in _by_namespace(asked).items():
            yield WatchQuery(resource, namespace, selector_of(names))


def _pods(jobs: Iterable[WaitTarget]) -> Iterator[WatchQuery]:
    for namespace, names in _by_namespace(jobs).items():
        yield WatchQuery(POD, namespace, selector_of(names))


def _warnings(jobs: Iterable[WaitTarget]) -> Iterator[WatchQuery]:
    for namespace in _by_namespace(jobs):
        yield WatchQuery(EVENT, namespace, fields="type=Warning", optional=True)


def _by_namespace(jobs: Iterable[WaitTarget]) -> dict[str, set[str]]:
    names: dict[str, set[str]] = defaultdict(set)
    for job in jobs:
        namespace, name = job.id
        names[namespace].add(name)
    return names


# -- what is answered ------------------------------------------------------------------------------------------------


def _job_of(obj: Object) -> JobId:
    return obj["metadata"]["namespace"], job_name_of(obj) or ""


class _Events:
    """Events by what they are about, so that each job finds its own among those of thousands."""

    def __init__(self, events: Iterable[Object]) -> None:
        self._about: dict[tuple[str, str], list[Object]] = defaultdict(list)
        for event in by_time(events):
            self._about[event["metadata"].get("namespace", ""), _owner_of(event)].append(event)

    def of(self, workload: Object | None, pods: Iterable[Object]) -> Iterator[Object]:
        for obj in (workload, *pods):
            if obj is not None:
                yield from self._about[obj["metadata"]["namespace"], f"{obj['kind']}/{obj['metadata']['name']}"]


def _owner_of(event: Event) -> str:
    """Kind and name of what an event is about; a Deployment's ReplicaSets count as the Deployment."""
    involved = event.get("involvedObject") or {}
    kind, name = str(involved.get("kind")), str(involved.get("name", ""))
    return f"Deployment/{name.rpartition('-')[0]}" if kind == "ReplicaSet" else f"{kind}/{name}"
