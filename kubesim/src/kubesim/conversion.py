# SPDX-License-Identifier: BSD-2-Clause
"""Kinds that are served in two versions: from the stored one to the one that was asked for, and back.

Source: pkg/apis/autoscaling/v1/conversion.go, pkg/apis/events/v1/conversion.go. What autoscaling/v1 cannot say is in
annotations there; here only metrics are, behavior and conditions are left out.
"""

from __future__ import annotations

import json
from typing import Any

from kubesim import schema
from kubesim.resources import Resource, by_kind

Object = dict[str, Any]
METRICS_ANNOTATION = "autoscaling.alpha.kubernetes.io/metrics"


def from_hub(obj: Object, resource: Resource) -> Object:
    """A stored object in the version of `resource` (the object itself where that is the stored one)."""
    if resource.hub:
        return obj
    convert = {"HorizontalPodAutoscaler": _autoscaler_v1, "Event": _new_event}[resource.kind]
    return schema.read({**convert(obj), "apiVersion": resource.api_version, "kind": resource.kind})


def to_hub(obj: Object, resource: Resource) -> Object:
    """An object of a served version as it is stored."""
    if resource.hub:
        return obj
    convert = {"HorizontalPodAutoscaler": _autoscaler_v2, "Event": _core_event}[resource.kind]
    return schema.read({**convert(obj), "apiVersion": by_kind(resource.kind).api_version, "kind": resource.kind})


def _autoscaler_v1(obj: Object) -> Object:
    spec, status, meta = dict(obj["spec"]), dict(obj.get("status", {})), dict(obj["metadata"])
    metrics = spec.pop("metrics", None) or []
    cpu = next((m for m in metrics if _is_cpu(m)), None)
    if cpu:
        spec["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"]
    others = [m for m in metrics if m is not cpu]
    if others:
        meta["annotations"] = {**meta.get("annotations", {}), METRICS_ANNOTATION: json.dumps(others)}
    current = status.pop("currentMetrics", None) or []
    measured = next((m for m in current if m.get("resource", {}).get("name") == "cpu"), None)
    if measured and "averageUtilization" in measured["resource"]["current"]:
        status["currentCPUUtilizationPercentage"] = measured["resource"]["current"]["averageUtilization"]
    spec.pop("behavior", None)
    status.pop("conditions", None)
    return {"metadata": meta, "spec": spec, "status": status}


def _is_cpu(metric: Object) -> bool:
    resource = metric.get("resource", {})
    return resource.get("name") == "cpu" and "averageUtilization" in resource.get("target", {})


def _autoscaler_v2(obj: Object) -> Object:
    spec, status, meta = dict(obj["spec"]), dict(obj.get("status", {})), dict(obj["metadata"])
    annotations = dict(meta.get("annotations", {}))
    metrics = json.loads(annotations.pop(METRICS_ANNOTATION, "[]"))
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    status.pop("currentCPUUtilizationPercentage", None)
    return {"metadata": {**meta, "annotations": annotations}, "spec": {**spec, "metrics": metrics}, "status": status}


#: events.k8s.io/v1 field -> core/v1 field
_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def _new_event(obj: Object) -> Object:
    names = {core: new for new, core in _EVENT_FIELDS.items()}
    return {names.get(key, key): value for key, value in obj.items()}


def _core_event(obj: Object) -> Object:
    return {_EVENT_FIELDS.get(key, key): value for key, value in obj.items()}
