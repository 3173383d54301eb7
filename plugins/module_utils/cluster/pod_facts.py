# SPDX-License-Identifier: BSD-2-Clause
"""Nodes and pods reduced to what decides where the next pod may go. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ..kube.resources import Object
from .alike_pods import AlikePods
from .nodes import Node, PodUse, devices_of, slim_node, slim_pod
from .pod_requests import Amounts, amount_of, pod_limits, pod_requests
from .status import is_terminating

HostPort = tuple[str, str, int]  # host IP, protocol, port

COMPUTE = ("cpu", "memory", "ephemeral-storage")  # what a container is limited to
_RULES = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "preemptionPolicy",
)
PODS = "pods"  # how many pods a node takes, in its allocatable


class PlacedPod(NamedTuple):
    """An unfinished pod that has a node, or that room on one is kept for (``nominated``).

    ``use`` has what it uses of accelerators, and its job. ``owner`` is the kind of its controller. ``ends_by`` are the
    seconds after ``started_at`` that Kubernetes ends it by. ``rules``: without a node, what of its spec decides which.
    """

    use: PodUse
    name: str
    labels: Mapping[str, str]
    node: str | None
    nominated: str | None
    priority: int
    requests: Amounts
    limits: Amounts
    ports: tuple[HostPort, ...]
    keeps_off: tuple[Object, ...]  # its terms of required anti-affinity
    claims: tuple[str, ...]  # its PersistentVolumeClaims
    owner: str | None
    started_at: str
    created_at: str
    ends_by: int | None
    is_ending: bool
    priority_class: str = ""
    rules: Object | None = None

    @property
    def namespace(self) -> str:
        return self.use.namespace

    @property
    def uid(self) -> str:
        return self.use.uid

    @property
    def job(self) -> tuple[str, str]:
        """Namespace and name of its job, or its own."""
        return self.use.namespace, self.use.job or self.name


@dataclass(frozen=True)
class RoomyNode:
    """A node with everything that it has room for, not only what is accounted."""

    node: Node
    room: Amounts = field(default_factory=dict)
    is_cordoned: bool = False

    @cached_property
    def name(self) -> str:
        return self.node.name

    @cached_property
    def labels(self) -> Mapping[str, str]:
        return self.node.labels


def roomy_node(node: Object) -> RoomyNode:
    status = node.get("status") or {}
    room = status.get("allocatable") or status.get("capacity") or {}
    return RoomyNode(
        slim_node(node),
        {resource: amount_of(resource, amount) for resource, amount in room.items()},
        bool((node.get("spec") or {}).get("unschedulable")),
    )


PodAmounts = tuple[Amounts, Amounts, Amounts]


def amounts_of_pod(pod: Object) -> PodAmounts:
    """What it requests, what of that are accelerators, CPU and memory, and what its containers are limited to."""
    return requests_of_pod(pod), devices_of(pod), pod_limits(pod["spec"], COMPUTE)


def placed_pod(pod: Object, alike: AlikePods[PodAmounts] | None = None) -> PlacedPod:
    """``alike`` is kept while a list is read, and works out ``amounts_of_pod``."""
    alike = alike or AlikePods(amounts_of_pod)
    requests, devices, limits = alike.amounts(pod)
    pod = alike.shared(pod)
    metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
    owners = metadata.get("ownerReferences") or ()
    return PlacedPod(
        slim_pod(pod, devices),
        metadata["name"],
        metadata["labels"],
        spec.get("nodeName"),
        status.get("nominatedNodeName"),
        spec.get("priority") or 0,
        requests,
        limits,
        host_ports(spec),
        tuple(required_terms(spec, "podAntiAffinity")),
        claim_names(spec),
        next((owner["kind"] for owner in owners if owner.get("controller")), None),
        status.get("startTime") or metadata.get("creationTimestamp") or "",
        metadata.get("creationTimestamp") or "",
        spec.get("activeDeadlineSeconds"),
        is_terminating(pod),
        spec.get("priorityClassName") or "",
        None if spec.get("nodeName") else {name: spec[name] for name in _RULES if name in spec},
    )


def requests_of_pod(pod: Object) -> Amounts:
    """All that it requests, whatever the resource; without zeros."""
    spec = pod["spec"]
    names = dict.fromkeys((*(spec.get("overhead") or ()), *((spec.get("resources") or {}).get("requests") or ())))
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        names |= dict.fromkeys((container.get("resources") or {}).get("requests") or ())
    return {name: amount for name, amount in pod_requests(pod, names).items() if amount}


def host_ports(spec: Object) -> tuple[HostPort, ...]:
    """Sidecars have them too (``hostPortInfo``, framework/types.go: containers and restartable init containers)."""
    sidecars = (one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always")
    return tuple(
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def required_terms(spec: Object, kind: str) -> list[Object]:
    affinity = (spec.get("affinity") or {}).get(kind) or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []


def claim_names(spec: Object) -> tuple[str, ...]:
    sources = (volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or ())
    return tuple(source["claimName"] for source in sources if source)
