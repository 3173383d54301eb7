# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Read what the answers of this package are made from: a fixed number of lists, whatever the size of the cluster."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import NODE, POD, SECRET
from .endpoints import SecretKey
from .live_jobs import JobId, read_events, read_pods
from .nodes import Node, PodUse, slim_node, slim_pod, with_use

Job = TypeVar("Job")

# What is finished holds nothing any more.
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


def read_nodes_with_usage(
    client: Client, slim: Callable[[dict[str, Any]], Node] = slim_node
) -> tuple[list[Node], list[PodUse]]:
    """All nodes with what is used of them, and the unfinished pods that use it or wait: two lists, in pages."""
    uses = client.list_slim(POD, slim_pod, fields=UNFINISHED)
    return with_use(client.list_slim(NODE, slim), uses), uses


def read_reasons(client: Client, workloads: Mapping[JobId, Mapping[str, Any]]) -> dict[JobId, str]:
    """Why the given workloads do not run, for those where something is known.

    Three lists per namespace and, when a pod finds no node, those of ``read_nodes``. Who may submit jobs need not be
    allowed to look at all of that: what cannot be read is left out of the explanation.
    """
    if not workloads:
        return {}
    try:
        pods = read_pods(client, workloads)
        events = read_events(client, {namespace for namespace, dummy in workloads})
    except ApiError as error:
        if error.is_forbidden:
            return {}
        raise
    return reasons_of(client, workloads, pods, events)


def reasons_of(
    client: Client,
    workloads: Mapping[Job, Mapping[str, Any]],
    pods: Mapping[Job, Sequence[Mapping[str, Any]]],
    events: Sequence[Mapping[str, Any]],
) -> dict[Job, str]:
    """The same from pods and events that were read already; jobs by whatever tells them apart."""
    from .reason import reason_for  # Here: in most tasks nothing is stuck.

    nodes = _nodes_if_needed(client, [pod for job in workloads for pod in pods.get(job, ())])
    here: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        here[event["metadata"]["namespace"]].append(event)
    found = {
        job: reason_for(workload, pods.get(job, ()), here[workload["metadata"]["namespace"]], nodes)
        for job, workload in workloads.items()
    }
    return {job: reason for job, reason in found.items() if reason}


def node_address(client: Client) -> str | None:
    """An address at which node ports answer: any node's will do. None for who may not look at nodes."""
    try:
        nodes = [slim_node(node) for node in client.list_first(NODE, limit=5)]
    except ApiError as error:
        if error.is_forbidden:
            return None
        raise
    return next((node.address for node in nodes if node.address), None)


def secret_value(client: Client, namespace: str, place: SecretKey) -> tuple[str | None, str]:
    """A value that a Secret holds, or None and why there is none for us."""
    where = f"key {place.key} of the Secret {place.name}"
    try:
        secret = client.get(SECRET, namespace, place.name)
    except ApiError as error:
        if error.is_forbidden:
            return None, f"it is in {where}, which you may not read"
        raise
    data = (secret or {}).get("data") or {}
    if place.key not in data:
        return None, f"it should be in {where}, which is not there"
    return base64.b64decode(data[place.key]).decode(errors="replace").strip(), f"{where} is empty"


def _nodes_if_needed(client: Client, pods: Sequence[Mapping[str, Any]]) -> list[Node] | None:
    """Only a pod without a node makes it worthwhile to look at all of them."""
    if all(pod["spec"].get("nodeName") for pod in pods):
        return None
    try:
        return read_nodes_with_usage(client)[0]
    except ApiError as error:
        if error.is_forbidden:
            return None
        raise
