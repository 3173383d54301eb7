# SPDX-License-Identifier: BSD-2-Clause
"""Read the cluster, and why jobs are not running: a fixed number of lists, however many jobs and nodes."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, product
from typing import Any, TypeVar

from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import ApiError, if_allowed
from ..kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    NODE,
    POD,
    PRIORITY_CLASS,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Resource,
)
from ..labels import APP, MANAGED, job_name_of
from .endpoints import SecretKey
from .nodes import FAULTY, Node, PodUse, slim_node, slim_pod, with_use
from .reason import reason_for

Object = Mapping[str, Any]
JobId = tuple[str, str]  # namespace, name
ByJob = dict[JobId, list[dict[str, Any]]]
K = TypeVar("K")

WORKLOADS = (JOB, DEPLOYMENT, STATEFUL_SET)
OWNED = (*WORKLOADS, SERVICE, HORIZONTAL_POD_AUTOSCALER, CONFIG_MAP)
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"  # Finished pods hold no resources.

_NAMED_IN_SELECTOR = 20  # More names would make the URL long; then the objects of all jobs are read.


def read_jobs(client: Client, jobs: Iterable[JobId], resources: Sequence[Resource] = OWNED) -> ByJob:
    """The objects of the given jobs, by job; a job without any has an empty list."""
    names: dict[str, set[str]] = defaultdict(set)
    wanted = set(jobs)
    for namespace, name in wanted:
        names[namespace].add(name)

    def read(query: tuple[str, Resource]) -> list[dict[str, Any]]:
        namespace, resource = query
        return client.list_objects(resource, namespace, labels=selector_of(names[namespace]))

    found: ByJob = {job: [] for job in wanted}
    for objects in run_concurrently(read, product(sorted(names), resources), client.concurrency):
        for obj in objects:
            found.get((obj["metadata"]["namespace"], job_name_of(obj) or ""), []).append(obj)
    return found


def read_pods(client: Client, jobs: Iterable[JobId]) -> ByJob:
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
    """The names of all PriorityClasses; None if listing them is forbidden."""
    found = if_allowed(lambda: client.list_objects(PRIORITY_CLASS, metadata_only=True), None)
    return None if found is None else {obj["metadata"]["name"] for obj in found}


def selector_of(names: set[str]) -> str:
    """The label selector of the named jobs' objects; of many jobs, that of all jobs' objects."""
    if len(names) > _NAMED_IN_SELECTOR:
        return MANAGED
    return f"{MANAGED},{APP} in ({','.join(sorted(names))})"


def read_nodes_with_usage(
    client: Client, slim: Callable[[dict[str, Any]], Node] = slim_node
) -> tuple[list[Node], list[PodUse]]:
    """All nodes with their usage, and all unfinished pods: two lists, in pages."""
    uses = client.list_slim(POD, slim_pod, fields=UNFINISHED)
    return with_use(client.list_slim(NODE, slim), uses), uses


def read_reasons(client: Client, workloads: Mapping[JobId, Object]) -> dict[JobId, str]:
    """Why the given workloads are not running, where a reason is known.

    Two lists per namespace and, if a pod has no node, those of ``read_nodes_with_usage``. Reasons leave out what
    may not be read.
    """
    if not workloads:
        return {}
    namespaces = {namespace for namespace, dummy in workloads}
    found = if_allowed(lambda: (read_pods(client, workloads), read_events(client, namespaces)), None)
    return reasons_of(client, workloads, *found) if found else {}


def reasons_of(
    client: Client, workloads: Mapping[K, Object], pods: Mapping[K, Sequence[Object]], events: Sequence[Object]
) -> dict[K, str]:
    """The same from pods and events that were read already; the keys can be any."""
    nodes = None
    if not all(pod["spec"].get("nodeName") for job in workloads for pod in pods.get(job, ())):
        nodes = if_allowed(lambda: read_nodes_with_usage(client)[0], None)
    here: dict[str, list[Object]] = defaultdict(list)
    for event in events:
        here[event["metadata"]["namespace"]].append(event)
    found = {
        job: reason_for(workload, pods.get(job, ()), here[workload["metadata"]["namespace"]], nodes)
        for job, workload in workloads.items()
    }
    return {job: reason for job, reason in found.items() if reason}


def read_lost_nodes(client: Client) -> set[str]:
    """The names of nodes that are not ready; none if listing nodes is forbidden."""
    nodes = if_allowed(lambda: client.list_slim(NODE, slim_node), None) or ()
    return {node.name for node in nodes if node.status == FAULTY}


def node_address(client: Client) -> str | None:
    """The address of any node, for node ports; None if listing nodes is forbidden."""
    nodes = map(slim_node, if_allowed(lambda: client.list_first(NODE, limit=5), None) or ())
    return next((node.address for node in nodes if node.address), None)


def secret_value(client: Client, namespace: str, place: SecretKey) -> tuple[str | None, str]:
    """The value; or None, and why."""
    where = f"key {place.key} of Secret {place.name}"
    try:
        secret = client.get(SECRET, namespace, place.name)
    except ApiError as error:
        if error.is_forbidden:
            return None, f"reading {where} is forbidden"
        raise
    data = (secret or {}).get("data") or {}
    if place.key not in data:
        return None, f"{where} not found"
    return base64.b64decode(data[place.key]).decode(errors="replace").strip(), f"{where} is empty"
