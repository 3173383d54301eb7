# SPDX-License-Identifier: BSD-2-Clause
"""Nodes and pods reduced to what accounting needs, and their sums. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from ..accelerators.catalog import DeviceResource, catalog, whole_devices
from ..accelerators.hardware import DEFAULT_ACCELERATOR
from ..labels import (
    CLAIMED_DEVICES,
    DEFAULT_POOL,
    GPU_TYPE,
    GPU_TYPE_INTERNAL,
    JOB_TYPE,
    POOL,
    PREFIX,
    job_name_of,
)
from .host_address import is_node_address
from .pod_requests import Amounts, amount_of, pod_requests

ACTIVE, MAINTAINING, FAULTY = "active", "maintaining", "faulty"
_CONNECTED = ("InternalIP", "ExternalIP")  # the types of addresses that are used


class PodUse(NamedTuple):
    """An unfinished pod: its job, its node or the pool that it waits for, and its requests."""

    namespace: str
    job: str | None
    job_kind: str | None
    pool: str | None  # the requested one
    node: str | None
    requests: Amounts  # of accelerators, CPU and memory
    uid: str = ""
    claims: bool = False  # whether it claims devices
    counts_claims: bool = False  # whether these are among its requests

    @property
    def gpu(self) -> int:
        return whole_devices(self.requests)


@dataclass(frozen=True)
class Taint:
    """Keeps off pods that do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True)
class Node:
    """A node. ``allocatable`` and ``used`` are in the units of ``Amounts``.

    ``allocatable`` has the resources that the node lists, those whose device plugin is down with 0.
    """

    name: str
    status: str
    labels: Mapping[str, str]
    allocatable: Amounts
    created_at: str
    last_updated_at: str | None = None
    address: str | None = None  # external if there is one, else internal
    internal_address: str | None = None
    refused_addresses: tuple[str, ...] = ()  # reported by the node, but neither IP addresses nor DNS names
    taints: tuple[Taint, ...] = ()
    not_ready_since: str | None = None
    not_ready_message: str = ""
    counted_as: Mapping[str, str] = field(default_factory=dict)  # profile -> what its devices are, if not whole
    used: Amounts = field(default_factory=dict)
    is_usage_known: bool = False  # ``with_use`` adds it, which needs the permission to list all pods

    @cached_property
    def pool(self) -> str:
        """Its pool; nodes without the label form the default pool."""
        return self.labels.get(POOL) or DEFAULT_POOL

    @cached_property
    def gpu_type(self) -> str | None:
        """The type that a user set, else the pool's, else the one that the vendor's software found."""
        return next((self.labels[key] for key in (GPU_TYPE, GPU_TYPE_INTERNAL) if self.labels.get(key)), self.product)

    @property
    def product(self) -> str | None:
        """What a vendor's label says that the devices are."""
        return next((self.labels[key] for key in self._product_labels() if self.labels.get(key)), None)

    def _product_labels(self) -> Iterable[str]:
        known = catalog()
        default = known.profiles[DEFAULT_ACCELERATOR].product_label
        yield from filter(None, [default])
        # Some vendors name a product by a label that any node may have, so they only count where the device is.
        for resource in self.allocatable:
            row = known.row(resource)
            if row and (label := known.profiles[row.profile].product_label):
                yield label

    @property
    def has_gpus(self) -> bool:
        """Also true for shared GPUs, and for a node with a GPU type whose driver or device plugin is down."""
        return any(self.allocatable.get(row.resource) for row in self.devices) or self.gpu_type is not None

    @cached_property
    def devices(self) -> list[DeviceResource]:
        """The accelerators that the node lists or its pods request, whole or in parts."""
        known = catalog()
        found = (known.row(resource) for resource in {**self.allocatable, **self.used})
        return [self._count_by_profile(row) for row in found if row]

    def _count_by_profile(self, row: DeviceResource) -> DeviceResource:
        kind = self.counted_as.get(row.profile) if row.is_whole_device else None
        return replace(row, kind=kind) if kind else row

    @property
    def gpu_total(self) -> int:
        return sum(self.allocatable.get(row.resource, 0) for row in self.devices if row.is_whole_device)

    @property
    def gpu_used(self) -> int:
        return sum(self.used.get(row.resource, 0) for row in self.devices if row.is_whole_device)

    @property
    def gpu_free(self) -> int:
        return sum(self.free(row.resource) for row in self.devices if row.is_whole_device)

    def free(self, resource: str) -> int:
        """The allocatable amount that pods do not use; 0 on a node that does not accept pods."""
        # The scheduler places nothing there, whatever is unused.
        if self.status != ACTIVE:
            return 0
        return max(0, self.allocatable.get(resource, 0) - self.used.get(resource, 0))


def slim_pod(pod: Mapping[str, Any], requests: Amounts | None = None) -> PodUse:
    labels = pod["metadata"].get("labels") or {}
    return PodUse(
        pod["metadata"]["namespace"],
        job_name_of(pod),
        labels.get(JOB_TYPE),
        labels.get(POOL),
        pod["spec"].get("nodeName"),
        devices_of(pod) if requests is None else requests,
        pod["metadata"].get("uid", ""),
        bool(pod["spec"].get("resourceClaims") or "extendedResourceClaimStatus" in pod.get("status", {})),
        CLAIMED_DEVICES in (pod["metadata"].get("annotations") or {}),
    )


def slim_node(node: Mapping[str, Any]) -> Node:
    status = node.get("status", {})
    allocatable = status.get("allocatable") or {}
    addresses, refused = _addresses(status)
    conditions = status.get("conditions") or ()
    heartbeats = (condition.get("lastHeartbeatTime") for condition in conditions)
    unready: Mapping[str, Any] = next(
        (one for one in conditions if one["type"] == "Ready" and one["status"] != "True"), {}
    )
    return Node(
        name=node["metadata"]["name"],
        status=node_status(node),
        labels=node["metadata"].get("labels") or {},
        allocatable={
            resource: amount_of(resource, quantity) for resource, quantity in allocatable.items() if _compared(resource)
        },
        created_at=node["metadata"]["creationTimestamp"],
        last_updated_at=max(filter(None, heartbeats), default=None),
        address=addresses.get("ExternalIP") or addresses.get("InternalIP"),
        internal_address=addresses.get("InternalIP"),
        refused_addresses=refused,
        taints=taints_of(node.get("spec", {})),
        not_ready_since=unready.get("lastTransitionTime"),
        not_ready_message=unready.get("message") or "",
        counted_as=_counted_as(node["metadata"]),
    )


def taints_of(spec: Mapping[str, Any]) -> tuple[Taint, ...]:
    """Those of a node, or of a device."""
    return tuple(Taint(one["key"], one.get("value") or "", one["effect"]) for one in spec.get("taints") or ())


def _compared(resource: str) -> bool:
    """Whether nodes and pods are compared by a resource."""
    return resource in ("cpu", "memory") or catalog().row(resource) is not None


def counted_requests(pod: Mapping[str, Any]) -> Amounts:
    """What a pod requests of accelerators, the scarcest first, and of CPU and memory."""
    spec = pod["spec"]
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    named = {name for each in containers for name in ((each.get("resources") or {}).get("requests") or ())}
    accelerators = [name for name in sorted(named) if "/" in name and _compared(name)]
    return pod_requests(pod, (*accelerators, "cpu", "memory"))


def devices_of(pod: Mapping[str, Any]) -> Amounts:
    """The same and the accelerators that a pod of ours claims, as its annotation has them."""
    amounts = counted_requests(pod)
    for resource, claimed in claimed_devices(pod["metadata"].get("annotations") or {}).items():
        amounts[resource] = amounts.get(resource, 0) + claimed
    return amounts


def claimed_devices(annotations: Mapping[str, str]) -> Amounts:
    """Nothing for an annotation that is not as we write it."""
    found = (_CLAIMED.fullmatch(part) for part in annotations.get(CLAIMED_DEVICES, "").split(","))
    return {one["resource"]: int(one["amount"]) for one in found if one and catalog().row(one["resource"])}


_CLAIMED = re.compile(r"(?P<resource>[^=]+)=(?P<amount>[0-9]{1,4})")


def _counted_as(metadata: Mapping[str, Any]) -> dict[str, str]:
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    found = {}
    for profile in catalog().marked:
        mark = next((mark for mark in profile.marks if mark.marks(labels, annotations)), None)
        if mark:
            found[profile.name] = mark.counts_as
    return found


def _addresses(status: Mapping[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The first usable address of each type, which is the primary one, and the unusable ones."""
    reported = [(str(entry.get("type")), entry.get("address")) for entry in status.get("addresses") or ()]
    usable = {kind: address for kind, address in reversed(reported) if is_node_address(address)}
    refused = (str(address) for kind, address in reported if kind in _CONNECTED and not is_node_address(address))
    return usable, tuple(refused)


def node_status(node: Mapping[str, Any]) -> str:
    """``faulty`` (not ready) before ``maintaining`` (cordoned) before ``active``."""
    conditions = {entry["type"]: entry["status"] for entry in node.get("status", {}).get("conditions") or ()}
    if conditions.get("Ready") != "True":
        return FAULTY
    return MAINTAINING if node.get("spec", {}).get("unschedulable") else ACTIVE


def with_use(nodes: Iterable[Node], uses: Iterable[PodUse]) -> list[Node]:
    """The nodes with their usage. Pods on deleted nodes do not count."""
    taken: dict[str, Amounts] = defaultdict(dict)
    for use in uses:
        if use.node:
            sums = taken[use.node]
            for resource, amount in use.requests.items():
                sums[resource] = sums.get(resource, 0) + amount
    return [replace(node, used=taken.get(node.name, {}), is_usage_known=True) for node in nodes]


def accelerator_rows(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """What nodes have of each accelerator, apart: devices, partitions, shares, memory and cores in their own units.

    ``total`` and ``free`` are None for what no node lists, because a scheduler counts it itself; ``used`` and ``free``
    without the pods.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    nodes = list(nodes)
    for node in nodes:
        for row in node.devices:
            sums = found.setdefault((row.resource, row.kind), _blank_row(row))
            sums["used"] += node.used.get(row.resource, 0)
            if row.resource in node.allocatable:
                sums["total"] = (sums["total"] or 0) + node.allocatable[row.resource]
                sums["free"] = (sums["free"] or 0) + node.free(row.resource)
    rows = sorted(found.values(), key=lambda row: (row["accelerator"], row["resource"], row["counts"]))
    unknown = {} if all(node.is_usage_known for node in nodes) else {"used": None, "free": None}
    return [{**row, **unknown} for row in rows]


def _blank_row(row: DeviceResource) -> dict[str, Any]:
    none = 0 if row.listed else None
    return {**row.columns, "total": none, "used": 0, "free": none}


def node_row(node: Node, label_keys: Iterable[str] | None = None) -> dict[str, Any]:
    """A node as gpuctl_node_info returns it, with the given labels or else all with ``PREFIX``.

    What is used and free is None where it is not known.
    """
    keys = (
        node.labels.keys() & set(label_keys) if label_keys else [key for key in node.labels if key.startswith(PREFIX)]
    )
    known = node.is_usage_known
    return {
        "node_name": node.name,
        "status": node.status,
        "gpu_total": node.gpu_total,
        "gpu_used": node.gpu_used if known else None,
        "gpu_free": node.gpu_free if known else None,
        "gpu_type": node.gpu_type,
        "accelerators": accelerator_rows([node]),
        "bound_pools": [node.pool],
        "cpu": cores(node.allocatable.get("cpu", 0)),
        "cpu_used": cores(node.used.get("cpu", 0)) if known else None,
        "memory": gibibytes(node.allocatable.get("memory", 0)),
        "memory_used": gibibytes(node.used.get("memory", 0)) if known else None,
        "labels": {key: node.labels[key] for key in sorted(keys)},
        "address": node.address,
        "created_at": node.created_at,
        "last_updated_at": node.last_updated_at,
    }


def cores(thousandths: int) -> str:
    """CPU as Kubernetes writes it: ``8`` or ``500m``."""
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def gibibytes(number: int, rounded: Callable[[float], float] = round) -> str:
    """Memory in GiB with at most one decimal: ``512Gi``, ``1.5Gi``."""
    return f"{rounded(number * 10 / 1024**3) / 10:g}Gi"
