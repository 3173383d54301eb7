# SPDX-License-Identifier: BSD-2-Clause
"""kube-state-metrics of the cluster: the series that are used; a real one has some 500.

Source: kubernetes/kube-state-metrics internal/store/{pod,node,resourcequota}.go, utils.go.
Labels of objects are written only as far as --metric-labels-allowlist names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kubesim.clock import parse_time
from kubesim.quantity import Quantity

from .exposition import GAUGE, Descriptions, Sample

Object = dict[str, Any]
PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
_STATUSES = ("true", "false", "unknown")
#: The kinds that are served, in the order in which they are.
KINDS = ("Pod", "Node", "ResourceQuota")

DESCRIPTIONS: Descriptions = {
    "kube_pod_labels": (GAUGE, "[STABLE] Kubernetes labels converted to Prometheus labels."),
    "kube_pod_created": (GAUGE, "[STABLE] Unix creation timestamp"),
    "kube_pod_start_time": (GAUGE, "[STABLE] Start time in unix timestamp for a pod."),
    "kube_pod_status_phase": (GAUGE, "[STABLE] The pods current phase."),
    "kube_pod_status_scheduled_time": (GAUGE, "[STABLE] Unix timestamp when pod moved into scheduled status"),
    "kube_pod_container_resource_requests": (
        GAUGE,
        "The number of requested request resource by a container. It is recommended to use the "
        "kube_pod_resource_requests metric exposed by kube-scheduler instead, as it is more precise.",
    ),
    "kube_node_labels": (GAUGE, "[STABLE] Kubernetes labels converted to Prometheus labels."),
    "kube_node_status_allocatable": (
        GAUGE,
        "[STABLE] The allocatable for different resources of a node that are available for scheduling.",
    ),
    "kube_node_status_condition": (GAUGE, "[STABLE] The condition of a cluster node."),
    "kube_resourcequota": (GAUGE, "[STABLE] Information about resource quota."),
}
_UNITS = {"cpu": "core", "memory": "byte", "ephemeral-storage": "byte", "pods": "integer"}


class AllowList:
    """--metric-labels-allowlist: `pods=[app,runwhere.ai/pool],nodes=[*]`."""

    def __init__(self, text: str) -> None:
        self._keys = {
            match[1]: [key.strip() for key in match[2].split(",")]
            for match in re.finditer(r"([a-z]+)=\[([^]]*)\]", text)
        }

    def labels(self, plural: str, given: Mapping[str, str] | None) -> dict[str, str]:
        allowed = self._keys.get(plural, [])
        own = {key: value for key, value in (given or {}).items() if key in allowed or allowed == ["*"]}
        return prometheus_labels("label", own)


def prometheus_labels(prefix: str, labels: Mapping[str, str]) -> dict[str, str]:
    """Keys become snake case; those that become the same are numbered (mapToPrometheusLabels)."""
    keys = sorted(labels)
    names = [f"{prefix}_{_snake(key)}" for key in keys]
    seen: dict[str, int] = {}
    found: dict[str, str] = {}
    for key, name in zip(keys, names, strict=True):
        seen[name] = seen.get(name, 0) + 1
        found[f"{name}_conflict{seen[name]}" if names.count(name) > 1 else name] = labels[key]
    return found


def _snake(key: str) -> str:
    sanitized = re.sub(r"[^a-zA-Z0-9_]", "_", key)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", sanitized).lower()


def samples(kind: str, obj: Object, allowed: AllowList) -> Iterator[Sample]:
    """All series of one object."""
    yield from _OF_KIND[kind](obj, allowed)


def _of_pod(pod: Object, allowed: AllowList) -> Iterator[Sample]:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    own = {"namespace": metadata["namespace"], "pod": metadata["name"], "uid": metadata["uid"]}
    yield Sample("kube_pod_labels", own | allowed.labels("pods", metadata.get("labels")))
    yield from _times(
        own, kube_pod_created=metadata.get("creationTimestamp"), kube_pod_start_time=status.get("startTime")
    )
    for phase in PHASES:
        yield Sample("kube_pod_status_phase", own | {"phase": phase}, float(status.get("phase") == phase))
    for condition in status.get("conditions") or ():
        if (condition["type"], condition["status"]) == ("PodScheduled", "True"):
            yield from _times(own, kube_pod_status_scheduled_time=condition.get("lastTransitionTime"))
    for container in spec.get("containers") or ():
        place = {**own, "container": container["name"], "node": spec.get("nodeName", "")}
        for resource, text in sorted(((container.get("resources") or {}).get("requests") or {}).items()):
            yield Sample("kube_pod_container_resource_requests", place | _resource(resource), _amount(text))


def _of_node(node: Object, allowed: AllowList) -> Iterator[Sample]:
    metadata, status = node["metadata"], node.get("status") or {}
    own = {"node": metadata["name"]}
    yield Sample("kube_node_labels", own | allowed.labels("nodes", metadata.get("labels")))
    for resource, text in sorted((status.get("allocatable") or {}).items()):
        yield Sample("kube_node_status_allocatable", own | _resource(resource), _amount(text))
    for condition in status.get("conditions") or ():
        labels = own | {"condition": condition["type"]}
        for state in _STATUSES:
            value = float(condition["status"].lower() == state)
            yield Sample("kube_node_status_condition", labels | {"status": state}, value)


def _of_quota(quota: Object, allowed: AllowList) -> Iterator[Sample]:
    metadata, status = quota["metadata"], quota.get("status") or {}
    own = {"namespace": metadata["namespace"], "resourcequota": metadata["name"]}
    for kind in ("hard", "used"):
        for resource, text in sorted((status.get(kind) or {}).items()):
            yield Sample("kube_resourcequota", own | {"resource": resource, "type": kind}, _amount(text))


_OF_KIND = {
    "Pod": _of_pod,
    "Node": _of_node,
    "ResourceQuota": _of_quota,
}


def _times(own: Mapping[str, str], **times: str | None) -> Iterator[Sample]:
    for name, text in times.items():
        if text:
            yield Sample(name, own, parse_time(text).timestamp())


def _resource(name: str) -> dict[str, str]:
    """Extended resources are counted, their names sanitised."""
    return {"resource": re.sub(r"[^a-zA-Z0-9_]", "_", name), "unit": _UNITS.get(name, "integer")}


def _amount(text: str | float) -> float:
    return float(Quantity.parse(text).amount)
