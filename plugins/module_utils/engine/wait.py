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
from ..cluster.following import Following, Question
from ..cluster.live import WORKLOADS, JobId, in_time, selector_of
from ..cluster.reason import Obstacle
from ..cluster.status import status_of
from ..kube.client import Client
from ..kube.resources import EVENT, POD
from ..labels import job_name_of
from .goals import Goal
from .prospects import Prospects, stopped

Object = dict[str, Any]

_REST = 0.1  # seconds at least between two looks at all jobs, however much happens


@dataclass(frozen=True)
class Awaited:
    """A job that is waited for. ``workload_kind`` is None where it is not known; ``fresh``: it was made just now."""

    id: JobId
    workload_kind: str | None
    fresh: bool = False


@dataclass
class Standing:
    """Where a job stood when it was last looked at.

    ``hopeless`` is why it will not arrive any more, ``obstacle`` the most telling of what stands in its way now.
    """

    workload: Object | None = None
    pods: list[Object] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)
    arrived: bool = False
    hopeless: Obstacle | None = None
    obstacle: Obstacle | None = None

    @property
    def settled(self) -> bool:
        return self.arrived or self.hopeless is not None


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
    tell: Callable[[Mapping[JobId, Standing]], float] = lambda standings: 60.0

    def wait(self, jobs: Iterable[Awaited]) -> dict[JobId, Standing]:
        """Where each job stands at the end. Raises KubeError when the cluster cannot be read.

        The workloads are listed first, and nothing else is asked when they have all arrived. Then pods and warnings are
        listed too, and everything is watched: the number of requests depends neither on the time nor on the jobs, but
        on their kinds and namespaces.
        """
        jobs = list(jobs)
        deadline = time.monotonic() + self.timeout
        prospects = Prospects(self.client, new_nodes=self.new_nodes)
        standings = {job.id: Standing() for job in jobs}
        with Following(self.client, self.warn) as following:
            following.ask(_workloads(jobs))
            if self.goal.by_pods:
                following.ask(_pods(jobs))
            self._look(following, jobs, standings, None)
            if self._is_over(standings):
                return standings
            following.ask([*_pods(jobs), *(_warnings(jobs) if self.goal.by_running else ())])
            following.follow()
            while True:
                began = time.monotonic()
                self._look(following, jobs, standings, prospects)
                tell_again = self.tell(standings)
                now = time.monotonic()
                if self._is_over(standings) or now >= deadline:
                    return standings
                time.sleep(min(max(_REST, now - began), deadline - now))
                following.changed(min(tell_again, deadline - time.monotonic()))

    def _look(
        self, following: Following, jobs: list[Awaited], standings: dict[JobId, Standing], prospects: Prospects | None
    ) -> None:
        """Bring the standings up to date; without ``prospects`` only as to who has arrived."""
        workloads = {_job_of(obj): obj for obj in following.objects(*WORKLOADS)}
        departed = {_job_of(obj): obj for obj in following.departed(*WORKLOADS)}
        pods: dict[JobId, list[Object]] = defaultdict(list)
        for pod in following.objects(POD):
            pods[_job_of(pod)].append(pod)
        events = _Events(following.objects(EVENT))
        for job in jobs:
            workload = workloads.get(job.id)
            last = departed.get(job.id) or standings[job.id].workload
            if workload is None and self.goal.by_running and last and status_of(last) == "Succeeded":
                standings[job.id] = Standing(
                    last, arrived=True
                )  # Its time to live ended while others are on their way.
                continue
            now = standings[job.id] = Standing(workload, pods[job.id])
            now.hopeless = now.obstacle = stopped(workload) if self.goal.by_running else None
            now.arrived = not now.hopeless and self.goal.reached(workload, now.pods)
            if prospects and workload and self.goal.by_running and not now.settled:
                now.events = list(events.of(workload, now.pods))
                now.hopeless, now.obstacle = prospects.of(workload, now.pods, now.events, fresh=job.fresh)

    def _is_over(self, standings: Mapping[JobId, Standing]) -> bool:
        """Everybody is settled; or one is lost, and nobody asked to keep going."""
        lost = any(standing.hopeless for standing in standings.values())
        return all(standing.settled for standing in standings.values()) or (lost and not self.keep_going)


# -- what is asked ---------------------------------------------------------------------------------------------------


def _workloads(jobs: Iterable[Awaited]) -> Iterator[Question]:
    for resource in WORKLOADS:
        asked = [job for job in jobs if job.workload_kind in (None, resource.kind)]
        for namespace, names in _by_namespace(asked).items():
            yield Question(resource, namespace, selector_of(names))


def _pods(jobs: Iterable[Awaited]) -> Iterator[Question]:
    for namespace, names in _by_namespace(jobs).items():
        yield Question(POD, namespace, selector_of(names))


def _warnings(jobs: Iterable[Awaited]) -> Iterator[Question]:
    for namespace in _by_namespace(jobs):
        yield Question(EVENT, namespace, fields="type=Warning", optional=True)


def _by_namespace(jobs: Iterable[Awaited]) -> dict[str, set[str]]:
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
        for event in in_time(events):
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
