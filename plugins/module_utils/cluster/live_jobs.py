# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Read what is live: one list per kind and namespace, chosen by our labels, whatever the number of jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import ApiError
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

_NAMED_IN_SELECTOR = 20  # More names would make the URL long; then all of ours are read.

JobId = tuple[str, str]  # namespace, name


def read_jobs(client: Client, jobs: Iterable[JobId]) -> dict[JobId, list[dict[str, Any]]]:
    """All objects of ours that belong to the given jobs, by job (see ``_by_job``)."""
    return _by_job(client, jobs, OWNED)


def read_workloads(client: Client, jobs: Iterable[JobId]) -> dict[JobId, list[dict[str, Any]]]:
    """The workloads of the given jobs, by job."""
    return _by_job(client, jobs, WORKLOADS)


def read_pods(client: Client, jobs: Iterable[JobId]) -> dict[JobId, list[dict[str, Any]]]:
    """The pods of the given jobs, by job."""
    return _by_job(client, jobs, (POD,))


def read_events(client: Client, namespaces: Iterable[str]) -> list[dict[str, Any]]:
    """The warnings of the given namespaces, oldest first."""
    found = (client.list_objects(EVENT, namespace, fields="type=Warning") for namespace in sorted(set(namespaces)))
    return by_time([event for events in found for event in events])


def by_time(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events in the order in which they were last seen."""
    return sorted(events, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")


def existing_priority_classes(client: Client) -> set[str] | None:
    """The names of all PriorityClasses; None for who may not list them."""
    try:
        return {obj["metadata"]["name"] for obj in client.list_objects(PRIORITY_CLASS, metadata_only=True)}
    except ApiError as error:
        if error.is_forbidden:
            return None
        raise


def _by_job(
    client: Client, jobs: Iterable[JobId], resources: tuple[Resource, ...]
) -> dict[JobId, list[dict[str, Any]]]:
    """One list request (in pages) per kind and namespace, sent side by side. Every asked-for job has an entry."""
    names: dict[str, set[str]] = defaultdict(set)
    for namespace, name in jobs:
        names[namespace].add(name)
    questions = [(resource, namespace) for namespace in sorted(names) for resource in resources]

    def ask(question: tuple[Resource, str]) -> list[dict[str, Any]]:
        resource, namespace = question
        return client.list_objects(resource, namespace, labels=selector_of(names[namespace]))

    found: dict[JobId, list[dict[str, Any]]] = {(place, name): [] for place in names for name in names[place]}
    for objects in run_concurrently(ask, questions, client.concurrency):
        for obj in objects:
            found.get((obj["metadata"]["namespace"], job_name_of(obj) or ""), []).append(obj)
    return found


def selector_of(names: set[str]) -> str:
    """The label selector of all objects of the named jobs; of many jobs, that of all of ours."""
    if len(names) > _NAMED_IN_SELECTOR:
        return OURS
    return f"{OURS},{APP} in ({','.join(sorted(names))})"
