# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Nodes and pods, reduced to what accounting needs, and the sums over them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..labels import DEFAULT_POOL, GPU, GPU_PRODUCT, GPU_TYPE, GPU_TYPE_INTERNAL, JOB_TYPE, POOL, PREFIX, job_name_of
from .requests import Amounts, amount_of, pod_requests

COUNTED = (GPU, "cpu", "memory")

ACTIVE, MAINTAINING, FAULTY = "active", "maintaining", "faulty"


class PodUse(NamedTuple):
    """What is kept of a pod that is not finished: whose it is, where it is (or waits), and what it takes there."""

    namespace: str
    job: str | None
    job_kind: str | None
    pool: str | None
    node: str | None
    gpu: int
    cpu: int
    memory: int


@dataclass(frozen=True)
class Node:
    """What is kept of a node. ``allocatable`` and ``used`` are in the units of ``Amounts``."""

    name: str
    status: str
    labels: Mapping[str, str]
    allocatable: Amounts
    created_at: str
    address: str | None
    used: Amounts = field(default_factory=dict)

    @property
    def pool(self) -> str:
        """The pool that it is in; nodes without the label are the default pool."""
        return self.labels.get(POOL) or DEFAULT_POOL

    @property
    def gpu_type(self) -> str | None:
        """The type that a user gave it, else the one that the pool did, else what NVIDIA's discovery found."""
        return next(
            (self.labels[key] for key in (GPU_TYPE, GPU_TYPE_INTERNAL, GPU_PRODUCT) if self.labels.get(key)), None
        )

    def free(self, resource: str) -> int:
        """What a new pod could get: nothing on a node that takes none. Allocatable counts, not capacity."""
        if self.status != ACTIVE:
            return 0
        return max(0, self.allocatable.get(resource, 0) - self.used.get(resource, 0))


def shrink_pod(pod: Mapping[str, Any]) -> PodUse:
    """A pod as accounting sees it."""
    labels = pod["metadata"].get("labels") or {}
    requests = pod_requests(pod, COUNTED)
    return PodUse(
        pod["metadata"]["namespace"],
        job_name_of(pod),
        labels.get(JOB_TYPE),
        labels.get(POOL),
        pod["spec"].get("nodeName"),
        requests[GPU],
        requests["cpu"],
        requests["memory"],
    )


def shrink_node(node: Mapping[str, Any]) -> Node:
    """A node as accounting sees it."""
    allocatable = node.get("status", {}).get("allocatable") or {}
    addresses = {entry["type"]: entry["address"] for entry in node.get("status", {}).get("addresses") or ()}
    return Node(
        name=node["metadata"]["name"],
        status=node_status(node),
        labels=node["metadata"].get("labels") or {},
        allocatable={resource: amount_of(resource, allocatable.get(resource)) for resource in COUNTED},
        created_at=node["metadata"]["creationTimestamp"],
        address=addresses.get("ExternalIP") or addresses.get("InternalIP"),
    )


def node_status(node: Mapping[str, Any]) -> str:
    """``faulty`` (not ready) before ``maintaining`` (cordoned) before ``active``."""
    conditions = {entry["type"]: entry["status"] for entry in node.get("status", {}).get("conditions") or ()}
    if conditions.get("Ready") != "True":
        return FAULTY
    return MAINTAINING if node["spec"].get("unschedulable") else ACTIVE


def with_use(nodes: Iterable[Node], uses: Iterable[PodUse]) -> list[Node]:
    """The nodes with what their pods take of them."""
    taken: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for use in uses:
        if use.node:
            sums = taken[use.node]
            sums[0] += use.gpu
            sums[1] += use.cpu
            sums[2] += use.memory
    return [
        Node(
            node.name,
            node.status,
            node.labels,
            node.allocatable,
            node.created_at,
            node.address,
            dict(zip(COUNTED, taken[node.name], strict=True)),
        )
        for node in nodes
    ]


def node_row(node: Node) -> dict[str, Any]:
    """A node as gpuctl_node_info returns it."""
    return {
        "node_name": node.name,
        "status": node.status,
        "gpu_total": node.allocatable[GPU],
        "gpu_used": node.used.get(GPU, 0),
        "gpu_free": node.free(GPU),
        "gpu_type": node.gpu_type,
        "bound_pools": [node.pool],
        "cpu": cores(node.allocatable["cpu"]),
        "cpu_used": cores(node.used.get("cpu", 0)),
        "memory": gibibytes(node.allocatable["memory"]),
        "memory_used": gibibytes(node.used.get("memory", 0)),
        "labels": {key: value for key, value in sorted(node.labels.items()) if key.startswith(PREFIX)},
        "address": node.address,
        "created_at": node.created_at,
    }


def cores(thousandths: int) -> str:
    """CPU as Kubernetes writes it: ``8`` or ``500m``."""
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def gibibytes(number: int) -> str:
    """Memory in GiB with at most one decimal: ``512Gi``, ``1.5Gi``."""
    return f"{round(number / 1024**3, 1):g}Gi"
