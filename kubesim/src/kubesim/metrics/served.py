# SPDX-License-Identifier: BSD-2-Clause
"""The metrics that an adapter serves to autoscalers: custom.metrics.k8s.io and external.metrics.k8s.io.

Source: k8s.io/metrics/pkg/apis, sigs.k8s.io/custom-metrics-apiserver pkg/apiserver (discovery and handlers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kubesim import errors
from kubesim.clock import rfc3339
from kubesim.quantity import Quantity
from kubesim.registry import Registry
from kubesim.request_info import RequestInfo
from kubesim.selectors import parse_labels

Object = dict[str, Any]
CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"
ADDONS = {CUSTOM: "custom-metrics", EXTERNAL: "external-metrics"}
VERSIONS = {CUSTOM: "v1beta2", EXTERNAL: "v1beta1"}
_NUMBER = float | int
#: A number for all pods, or what gives that of a pod; None for a pod without one.
Value = Callable[[Object], "_NUMBER | None"] | _NUMBER | None


class ServedMetrics:
    """Of a running cluster; only safe on its thread."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.of_pods: dict[str, Value] = {}
        self.external: dict[str, float] = {}

    def values(self, metric: str, pods: Sequence[Object]) -> dict[str, int]:
        """Thousandths by the name of the pod, of those that have one; KeyError for a metric that is not served."""
        given = self.of_pods[metric]
        found = {pod["metadata"]["name"]: given(pod) if callable(given) else given for pod in pods}
        return {name: round(value * 1000) for name, value in found.items() if value is not None}

    def resources(self, group: str) -> list[Object]:
        """What discovery lists, as the custom-metrics-apiserver does."""
        kind = "MetricValueList" if group == CUSTOM else "ExternalMetricValueList"
        names = [f"pods/{name}" for name in self.of_pods] if group == CUSTOM else list(self.external)
        return [
            {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]} for name in names
        ]

    def answer(self, info: RequestInfo, labels: str) -> Object:
        """The values that a GET asks for, of the pods that the selector `labels` selects."""
        now = rfc3339(self.registry.clock.now())
        if info.group == EXTERNAL:
            if info.plural not in self.external:
                raise _unknown(info.plural)
            value = {"metricName": info.plural, "metricLabels": {}, "timestamp": now}
            amount = str(Quantity.parse(f"{round(self.external[info.plural] * 1000)}m"))
            return _list("ExternalMetricValueList", f"{EXTERNAL}/{info.version}", [{**value, "value": amount}])
        metric = info.subresource
        if info.plural != "pods" or metric not in self.of_pods:
            raise _unknown(f"{info.plural}/{metric}")
        selector = parse_labels(labels) if labels else None
        pods = [
            pod
            for pod in self.registry.list("Pod", info.namespace)
            if info.name in ("*", pod["metadata"]["name"])
            and (selector is None or selector.matches(pod["metadata"].get("labels") or {}))
        ]
        items = [
            {
                "describedObject": {"kind": "Pod", "namespace": info.namespace, "name": name, "apiVersion": "/v1"},
                "metric": {"name": metric, "selector": None},
                "timestamp": now,
                "value": str(Quantity.parse(f"{value}m")),
            }
            for name, value in self.values(metric, pods).items()
        ]
        return _list("MetricValueList", f"{CUSTOM}/{info.version}", items)


def api_service(group: str, moment: str) -> Object:
    """How an adapter is registered (kubernetes-sigs/prometheus-adapter deploy/manifests/api-service.yaml)."""
    version = VERSIONS[group]
    passed = {"type": "Available", "status": "True", "lastTransitionTime": moment, "reason": "Passed"}
    spec = {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100}
    service = {"name": "prometheus-adapter", "namespace": "monitoring", "port": 443}
    return {
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}"},
        "spec": {**spec, "service": service, "insecureSkipTLSVerify": True},
        "status": {"conditions": [{**passed, "message": "all checks passed"}]},
    }


def _list(kind: str, version: str, items: list[Object]) -> Object:
    return {"kind": kind, "apiVersion": version, "metadata": {}, "items": items}


def _unknown(metric: str) -> errors.ApiError:
    return errors.ApiError(404, "NotFound", f"the server could not find the metric {metric} for pods")
