# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Read the live objects of jobs: one list per kind and namespace, by label, however many jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, product
from typing import Any

from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import if_allowed
from ..kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    POD,
    PRIORITY_CLASS,
    SERVICE,
    STATEFUL_SET,
    Resource,
)
from ..labels import APP, OURS, job_name_of

WORKLOADS = (JOB, DEPLOYMENT, STATEFUL_SET)
OWNED = (*WORKLOADS, SERVICE, HORIZONTAL_POD_AUTOSCALER, CONFIG_MAP)

_NAMED_IN_SELECTOR = 20  # More names would make the URL long; then the objects of all jobs are read.

JobId = tuple[str, str]  # namespace, name


def read_jobs(
    client: Client, jobs: Iterable[JobId], resources: Sequence[Resource] = OWNED
) -> dict[JobId, list[dict[str, Any]]]:
    """The objects of the given jobs, by job; a job without any has an empty list."""
    names: dict[str, set[str]] = defaultdict(set)
    wanted = set(jobs)
    for namespace, name in wanted:
        names[namespace].add(name)

    def read(query: tuple[str, Resource]) -> list[dict[str, Any]]:
        namespace, resource = query
        return client.list_objects(resource, namespace, labels=selector_of(names[namespace]))

    found: dict[JobId, list[dict[str, Any]]] = {job: [] for job in wanted}
    for objects in run_concurrently(read, product(sorted(names), resources), client.concurrency):
        for obj in objects:
            found.get((obj["metadata"]["namespace"], job_name_of(obj) or ""), []).append(obj)
    return found


def read_pods(client: Client, jobs: Iterable[JobId]) -> dict[JobId, list[dict[str, Any]]]:
    """Their pods, by job."""
    return read_jobs(client, jobs, (POD,))


def read_events(client: Client, namespaces: Iterable[str]) -> list[dict[str, Any]]:
    """The warnings of the given namespaces, oldest first."""
    found = (client.list_objects(EVENT, namespace, fields="type=Warning") for namespace in sorted(set(namespaces)))
    return by_time(chain.from_iterable(found))


def by_time(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events, the one last seen at the end."""
    return sorted(events, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")


def existing_priority_classes(client: Client) -> set[str] | None:
    """The names of all PriorityClasses; None if we may not list them."""
    found = if_allowed(lambda: client.list_objects(PRIORITY_CLASS, metadata_only=True), None)
    return None if found is None else {obj["metadata"]["name"] for obj in found}


def selector_of(names: set[str]) -> str:
    """The label selector of the named jobs' objects; of many jobs, that of all jobs' objects."""
    if len(names) > _NAMED_IN_SELECTOR:
        return OURS
    return f"{OURS},{APP} in ({','.join(sorted(names))})"
