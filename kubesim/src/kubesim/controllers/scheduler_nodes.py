# SPDX-License-Identifier: BSD-2-Clause
"""What the scheduler knows of nodes and of what pods ask for, kept up to date as they change.

Source: pkg/scheduler/framework/types.go (NodeInfo, Resource), component-helpers resource/helpers.go (PodRequests).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from kubesim.quantity import Quantity

from .base import Key, Object, key_of

Amounts = dict[str, int]
HostPort = tuple[str, str, int]  # host IP, protocol, port


@dataclass
class NodeInfo:
    """A node, its pods, and what they have taken of it; cpu in thousandths, the rest in whole units."""

    node: Object
    pods: dict[Key, Object] = field(default_factory=dict)
    requested: Amounts = field(default_factory=dict)
    ports: dict[HostPort, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.refresh(self.node)

    def refresh(self, node: Object) -> None:
        self.node = node
        self.name: str = node["metadata"]["name"]
        self.labels: dict[str, str] = node["metadata"].get("labels") or {}
        self.taints: list[Object] = node.get("spec", {}).get("taints") or []
        self.unschedulable: bool = bool(node.get("spec", {}).get("unschedulable"))
        status = node.get("status", {})
        self.allocatable = amounts(status.get("allocatable") or status.get("capacity") or {})

    def add(self, key: Key, pod: Object) -> None:
        self.pods[key] = pod
        self._count(pod, 1)

    def remove(self, key: Key) -> None:
        pod = self.pods.pop(key, None)
        if pod is not None:
            self._count(pod, -1)

    def _count(self, pod: Object, sign: int) -> None:
        for resource, amount in requests(pod).items():
            self.requested[resource] = self.requested.get(resource, 0) + sign * amount
        for port in host_ports(pod):
            self.ports[port] = self.ports.get(port, 0) + sign
            if not self.ports[port]:
                del self.ports[port]

    def load(self) -> float:
        """The share of the node that is taken, of what is taken most (lower is better)."""
        shares = [self.requested.get(r, 0) / total for r, total in self.allocatable.items() if total and r != "pods"]
        pods = self.allocatable.get("pods", 0)
        return max([*shares, len(self.pods) / pods if pods else 0.0], default=0.0)


@lru_cache(maxsize=65536)
def amount(resource: str, text: str) -> int:
    quantity = Quantity.parse(text)
    return quantity.milli_value if resource == "cpu" else quantity.value


def amounts(quantities: dict[str, Any]) -> Amounts:
    return {resource: amount(resource, str(text)) for resource, text in quantities.items()}


def requests(pod: Object) -> Amounts:
    """What a pod needs: the sum of its containers and sidecars, or more if an init container needs more; overhead."""
    spec = pod["spec"]
    total: Amounts = {}
    for container in spec["containers"]:
        _add(total, _wanted(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        wanted = _wanted(container)
        if container.get("restartPolicy") == "Always":
            _add(total, wanted)
            _add(sidecars, wanted)
            wanted = dict(sidecars)
        else:
            _add(wanted, sidecars)
        for resource, value in wanted.items():
            peak[resource] = max(peak.get(resource, 0), value)
    for resource, value in peak.items():
        total[resource] = max(total.get(resource, 0), value)
    _add(total, amounts(spec.get("overhead") or {}))
    return total


def _wanted(container: Object) -> Amounts:
    return amounts(container.get("resources", {}).get("requests") or {})


def _add(total: Amounts, more: Amounts) -> None:
    for resource, value in more.items():
        total[resource] = total.get(resource, 0) + value


def host_ports(pod: Object) -> list[HostPort]:
    """Those of containers and of sidecars."""
    sidecars = [one for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return [
        (port.get("hostIP", "0.0.0.0"), port.get("protocol", "TCP"), port["hostPort"])
        for container in (*pod["spec"]["containers"], *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


class Snapshot:
    """All nodes with the pods that are on them and have not ended."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.placed: dict[Key, str] = {}
        self.namespaces: dict[str, dict[str, str]] = {}  # their labels
        self._early: dict[str, dict[Key, Object]] = {}  # pods of nodes that are not there (yet)
        self.picky: dict[Key, Object] = {}  # placed pods with required anti-affinity
        self._nominated: dict[Key, Object] = {}  # pods that wait for a node that is being cleared for them

    def put_node(self, node: Object) -> None:
        name = node["metadata"]["name"]
        info = self.nodes.get(name)
        if info is not None:
            info.refresh(node)
            return
        info = self.nodes[name] = NodeInfo(node)
        for key, pod in self._early.pop(name, {}).items():
            info.add(key, pod)

    def drop_node(self, name: str) -> None:
        info = self.nodes.pop(name, None)
        if info is not None and info.pods:
            self._early[name] = info.pods

    def put_pod(self, pod: Object) -> None:
        key, name = key_of(pod), pod["spec"]["nodeName"]
        self.drop_pod(key)
        self.placed[key] = name
        info = self.nodes.get(name)
        if info is not None:
            info.add(key, pod)
        else:
            self._early.setdefault(name, {})[key] = pod
        if anti_affinity(pod):
            self.picky[key] = pod

    def drop_pod(self, key: Key) -> None:
        name = self.placed.pop(key, None)
        self.picky.pop(key, None)
        if name in self.nodes:
            self.nodes[name].remove(key)
        elif name is not None:
            self._early.get(name, {}).pop(key, None)

    def nominate(self, key: Key, pod: Object) -> None:
        self._nominated.pop(key, None)
        if (pod.get("status") or {}).get("nominatedNodeName"):
            self._nominated[key] = pod

    def withdraw(self, key: Key) -> None:
        self._nominated.pop(key, None)

    def nominees(self, node_name: str, pod: Object) -> list[Object]:
        """The pods, as important as `pod` or more, that room on the node is kept for."""
        return [
            other
            for key, other in self._nominated.items()
            if other["status"]["nominatedNodeName"] == node_name
            and key != key_of(pod)
            and (other["spec"].get("priority") or 0) >= (pod["spec"].get("priority") or 0)
        ]


def anti_affinity(pod: Object) -> list[Object]:
    return _terms(pod, "podAntiAffinity")


def pod_affinity(pod: Object) -> list[Object]:
    return _terms(pod, "podAffinity")


def _terms(pod: Object, kind: str) -> list[Object]:
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []
