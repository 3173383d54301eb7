# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Wait until jobs have reached a state, or until it is certain that they will not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from ..cluster.live import JobId, read_pods, read_workloads
from ..cluster.status import failure_of, is_complete, is_ready, pods_wanted
from ..kube.client import Client

_FIRST_DELAY = 0.2  # seconds; grows to the longest, so that a quick start is seen quickly and a slow one is cheap
_LONGEST_DELAY = 3.0


def wait_for_state(
    client: Client,
    jobs: Iterable[JobId],
    state: str,
    timeout: float,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[dict[JobId, dict[str, Any]], set[JobId]]:
    """Poll until every job is ``scheduled``, ``ready`` or ``complete``, or the first one has failed for good.

    Returns the last workload seen of each job, and the jobs that had not arrived then or when ``timeout`` (seconds) had
    passed. All jobs are read together: the number of requests depends on the time, not on the jobs.
    """
    jobs = set(jobs)
    deadline = time.monotonic() + timeout
    delay = _FIRST_DELAY
    while True:
        workloads = {job: objects[0] for job, objects in read_workloads(client, jobs).items() if objects}
        arrived = {job for job, workload in workloads.items() if _REACHED[state](workload)}
        if state == "scheduled":
            arrived |= _scheduled(client, workloads)
        lost = any(failure_of(workload) for job, workload in workloads.items() if job not in arrived)
        if lost or arrived == jobs or time.monotonic() > deadline:
            return workloads, jobs - arrived
        sleep(min(delay, max(0.0, deadline - time.monotonic()) + 0.01))
        delay = min(delay * 1.5, _LONGEST_DELAY)


def wait_until_gone(
    client: Client, jobs: Iterable[JobId], timeout: float, sleep: Callable[[float], None] = time.sleep
) -> dict[JobId, list[str]]:
    """Poll until neither workload nor pods of the jobs are left; the names of what is, by job, after ``timeout``."""
    jobs = set(jobs)
    deadline = time.monotonic() + timeout
    delay = _FIRST_DELAY
    while True:
        remaining = {job: list(objects) for job, objects in read_workloads(client, jobs).items()}
        for job, pods in read_pods(client, jobs).items():
            remaining[job] += pods
        left = {
            job: [f"{obj['kind']} {obj['metadata']['name']}" for obj in objects]
            for job, objects in remaining.items()
            if objects
        }
        if not left or time.monotonic() > deadline:
            return left
        sleep(delay)
        delay = min(delay * 1.5, _LONGEST_DELAY)


# A job that is ready has been scheduled, and asking for its pods can be saved.
_REACHED: dict[str, Callable[[dict[str, Any]], bool]] = {
    "scheduled": is_ready,
    "ready": is_ready,
    "complete": is_complete,
}


def _scheduled(client: Client, workloads: dict[JobId, dict[str, Any]]) -> set[JobId]:
    """The jobs of which as many pods as wanted have a node."""
    placed = {
        job: sum(1 for pod in pods if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"])
        for job, pods in read_pods(client, workloads).items()
    }
    return {job for job, workload in workloads.items() if placed[job] >= pods_wanted(workload)}
