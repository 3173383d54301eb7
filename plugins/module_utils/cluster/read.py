# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Read nodes with their usage, and why jobs are not running: a fixed number of lists, however large the cluster."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..kube.client import Client
from ..kube.errors import ApiError, if_allowed
from ..kube.resources import NODE, POD, SECRET
from .endpoints import SecretKey
from .live_jobs import JobId, read_events, read_pods
from .nodes import Node, PodUse, slim_node, slim_pod, with_use
from .reason import reason_for

K = TypeVar("K")

# Finished pods hold no resources.
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


def read_nodes_with_usage(
    client: Client, slim: Callable[[dict[str, Any]], Node] = slim_node
) -> tuple[list[Node], list[PodUse]]:
    """All nodes with their usage, and all unfinished pods: two lists, in pages."""
    uses = client.list_slim(POD, slim_pod, fields=UNFINISHED)
    return with_use(client.list_slim(NODE, slim), uses), uses


def read_reasons(client: Client, workloads: Mapping[JobId, Mapping[str, Any]]) -> dict[JobId, str]:
    """Why the given workloads are not running, where a reason is known.

    Two lists per namespace and, if a pod has no node, those of ``read_nodes_with_usage``. What we may not read, the
    reasons do without.
    """
    if not workloads:
        return {}
    namespaces = {namespace for namespace, dummy in workloads}
    found = if_allowed(lambda: (read_pods(client, workloads), read_events(client, namespaces)), None)
    return reasons_of(client, workloads, *found) if found else {}


def reasons_of(
    client: Client,
    workloads: Mapping[K, Mapping[str, Any]],
    pods: Mapping[K, Sequence[Mapping[str, Any]]],
    events: Sequence[Mapping[str, Any]],
) -> dict[K, str]:
    """The same from pods and events that were read already; the keys can be any."""
    nodes = None
    if not all(pod["spec"].get("nodeName") for job in workloads for pod in pods.get(job, ())):
        nodes = if_allowed(lambda: read_nodes_with_usage(client)[0], None)
    here: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        here[event["metadata"]["namespace"]].append(event)
    found = {
        job: reason_for(workload, pods.get(job, ()), here[workload["metadata"]["namespace"]], nodes)
        for job, workload in workloads.items()
    }
    return {job: reason for job, reason in found.items() if reason}


def node_address(client: Client) -> str | None:
    """The address of any node, for node ports; None if we may not list nodes."""
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
