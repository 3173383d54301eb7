# SPDX-License-Identifier: BSD-2-Clause
"""Wait until jobs reach a goal, or until it is certain that they will not."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..cluster.pending_reason import PendingReason
from ..cluster.read_jobs import WORKLOADS, JobId, job_id_of, malformed_workload
from ..cluster.read_reasons import by_time
from ..cluster.status import status_of
from ..kube.client import Client
from ..kube.errors import KubeError
from ..kube.resources import EVENT, POD, Resource
from ..labels import selector_of
from .feasibility import Feasibility, stopped
from .goals import Goal, WaitTarget
from .watch_cache import WatchCache, WatchQuery

Object = dict[str, Any]

_MIN_INTERVAL = 0.1  # seconds between two checks of all jobs, however much changes
_RETRY_DELAY = 5.0  # seconds until a reason that could not be confirmed is checked again


@dataclass
class JobStatus:
    """A job at the last check. ``fatal`` is why it will not reach the goal, ``blocker`` what keeps it from that now.

    ``unreadable``: why its state is not known at the end; then the rest is what was seen last.
    """

    workload: Object | None = None
    pods: list[Object] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)
    reached_goal: bool = False
    fatal: PendingReason | None = None
    blocker: PendingReason | None = None
    unreadable: KubeError | None = None

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
        """The status of each job at the end.

        The workloads are listed first; if all have reached the goal, nothing else is read. Then pods and warnings are
        listed as well, and everything is watched: the number of requests depends on the kinds and namespaces alone.
        """
        jobs = list(jobs)
        job_statuses = {job.id: JobStatus() for job in jobs}
        try:
            with WatchCache(self.client, self.warn) as cache:
                self._wait(cache, jobs, job_statuses)
        except KubeError as error:
            for job_status in job_statuses.values():
                if not job_status.reached_goal:
                    job_status.fatal, job_status.unreadable = None, error
        return job_statuses

    def _wait(self, cache: WatchCache, jobs: list[WaitTarget], job_statuses: dict[JobId, JobStatus]) -> None:
        """Update the statuses until the wait is over. Raises KubeError if the cluster cannot be read."""
        deadline = time.monotonic() + self.timeout
        feasibility = Feasibility(self.client, new_nodes=self.new_nodes)
        # Most often nothing has changed: that costs one list for each kind and namespace.
        cache.add(_workload_queries(jobs))
        if self.goal.needs_pods:
            cache.add(_queries_by_namespace(POD, jobs))
        check = partial(self._check, cache, jobs, job_statuses)
        check(None)
        if self._is_over(job_statuses):
            return
        cache.add([*_queries_by_namespace(POD, jobs), *(_warnings(jobs) if self.goal.requires_running else ())])
        cache.watch()
        while True:
            began = time.monotonic()
            timed_out = began >= deadline
            check(feasibility)
            certain = all(job_status.reached_goal for job_status in job_statuses.values())
            if not certain and (timed_out or self._is_over(job_statuses)):
                certain = self._refresh(cache, required=timed_out)
                feasibility.forget_answers()
                check(feasibility)
            over = self._is_over(job_statuses)
            pause = min(self.report(job_statuses), feasibility.next_end_of_grace(), _RETRY_DELAY if over else math.inf)
            if timed_out or (over and certain):
                return
            now = time.monotonic()
            # Checking thousands of jobs takes long: at most half of the time.
            time.sleep(max(0.0, min(max(_MIN_INTERVAL, now - began), deadline - now)))
            cache.wait_for_change(min(pause, deadline - time.monotonic()))

    @staticmethod
    def _refresh(cache: WatchCache, *, required: bool) -> bool:
        """Read everything again before a verdict against a job, because events may have been lost or held back.

        False: that was not possible. Raises KubeError if it is ``required``.
        """
        try:
            cache.refresh()
        except KubeError as error:
            if required or not error.is_transient:
                raise
            return False
        return True

    def _check(
        self,
        cache: WatchCache,
        jobs: list[WaitTarget],
        job_statuses: dict[JobId, JobStatus],
        feasibility: Feasibility | None,
    ) -> None:
        """Update the statuses; without ``feasibility``, only whether the goal is reached."""
        workloads = {job_id_of(obj): obj for obj in cache.objects(*WORKLOADS)}
        deleted = {job_id_of(obj): obj for obj in cache.deleted(*WORKLOADS)}
        pods: dict[JobId, list[Object]] = defaultdict(list)
        for pod in cache.objects(POD):
            pods[job_id_of(pod)].append(pod)
        events = _by_subject(cache.objects(EVENT))
        for job in jobs:
            workload = workloads.get(job.id)
            last = deleted.get(job.id) or job_statuses[job.id].workload
            if workload is None and self.goal.requires_running and last and status_of(last) == "Succeeded":
                job_statuses[job.id] = JobStatus(last, reached_goal=True)  # Deleted after ttlSecondsAfterFinished.
                continue
            now = job_statuses[job.id] = JobStatus(workload, pods[job.id])
            malformed = malformed_workload(self.client, job.id) if workload is None else None
            now.fatal = now.blocker = stopped(workload, malformed) if self.goal.requires_running else None
            now.reached_goal = not now.fatal and self.goal.reached(workload, now.pods)
            if feasibility and workload and self.goal.requires_running and not now.settled:
                now.events = [event for obj in (workload, *now.pods) for event in events[_subject(obj)]]
                now.fatal, now.blocker = feasibility.of(workload, now.pods, now.events, fresh=job.fresh)

    def _is_over(self, job_statuses: Mapping[JobId, JobStatus]) -> bool:
        """Whether every job is settled, or one is fatal and the wait does not keep going."""
        fatal = any(job_status.fatal for job_status in job_statuses.values())
        return (fatal and not self.keep_going) or all(job_status.settled for job_status in job_statuses.values())


def _workload_queries(jobs: Iterable[WaitTarget]) -> Iterator[WatchQuery]:
    for resource in WORKLOADS:
        yield from _queries_by_namespace(resource, (job for job in jobs if job.workload_kind in (None, resource.kind)))


def _queries_by_namespace(resource: Resource, jobs: Iterable[WaitTarget]) -> Iterator[WatchQuery]:
    """One query per namespace for the objects of the jobs."""
    names: dict[str, set[str]] = defaultdict(set)
    for job in jobs:
        names[job.id[0]].add(job.id[1])
    return (WatchQuery(resource, namespace, selector_of(named)) for namespace, named in names.items())


def _warnings(jobs: Iterable[WaitTarget]) -> Iterator[WatchQuery]:
    for namespace in dict.fromkeys(job.id[0] for job in jobs):
        # The server selects events by type (pkg/registry/core/event, ToSelectableFields), but by no label of a job.
        yield WatchQuery(EVENT, namespace, fields="type=Warning", optional=True)


def _subject(obj: Object) -> tuple[str, str, str]:
    return obj["metadata"]["namespace"], obj["kind"], obj["metadata"]["name"]


def _by_subject(events: Iterable[Object]) -> dict[tuple[str, str, str], list[Object]]:
    """Events by the object that they are about; a ReplicaSet counts as its Deployment."""
    found: dict[tuple[str, str, str], list[Object]] = defaultdict(list)
    for event in by_time(events):
        involved = event.get("involvedObject") or {}
        kind, name = str(involved.get("kind")), str(involved.get("name", ""))
        if kind == "ReplicaSet":  # It creates the pods, so it reports those that were refused (FailedCreate).
            kind, name = "Deployment", name.rpartition("-")[0]  # without the pod-template-hash
        found[event["metadata"].get("namespace", ""), kind, name].append(event)
    return found
