# SPDX-License-Identifier: BSD-2-Clause
"""The horizontal pod autoscaler: it keeps to minReplicas and maxReplicas, and follows no metrics.

It says that there are none; with `metrics`, that all of them are at their targets.

Source: pkg/controller/podautoscaler/horizontal.go (reconcileAutoscaler, conditions, events).
"""

from __future__ import annotations

import copy
from typing import Any

from kubesim import resources
from kubesim.clock import rfc3339

from .base import Controller, Key, Object, key_of
from .events import EventRecorder

PERIOD = 15.0


class HorizontalPodAutoscalerController(Controller):
    name = "horizontal-pod-autoscaler"
    watches = ("HorizontalPodAutoscaler",)

    def __init__(self, registry: Any, metrics: bool = False) -> None:
        super().__init__(registry)
        self.has_metrics = metrics
        self.recorder = EventRecorder(registry, self.name)

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if event != "DELETED" and (old is None or old["spec"] != obj["spec"]):
            self.enqueue(key_of(obj))

    def reconcile(self, key: Key) -> None:
        hpa = self.registry.get(self.watches[0], *key)
        if hpa is None:
            return
        self.enqueue(key, PERIOD)
        status = copy.deepcopy(hpa.get("status") or {})
        self._decide(key, hpa, status)
        status["observedGeneration"] = hpa["metadata"].get("generation", 1)
        status.setdefault("desiredReplicas", 0)
        status.setdefault("currentMetrics", None)

        def write(copied: Object) -> None:
            copied["status"] = status

        self.registry.modify(self.watches[0], *key, write, subresource="status")

    def _decide(self, key: Key, hpa: Object, status: Object) -> None:
        reference, spec = hpa["spec"]["scaleTargetRef"], hpa["spec"]
        target = self._target(key[0], reference)
        if target is None:
            missing = f'{resource_name(reference)} "{reference["name"]}" not found'
            self.recorder.event(hpa, "Warning", "FailedGetScale", missing)
            message = f"the HPA controller was unable to get the target's current scale: {missing}"
            self._condition(status, "AbleToScale", False, "FailedGetScale", message)
            return
        message = "the HPA controller was able to get the target's current scale"
        self._condition(status, "AbleToScale", True, "SucceededGetScale", message)
        current, low, high = target["spec"].get("replicas", 1), spec.get("minReplicas", 1), spec["maxReplicas"]
        status["currentReplicas"] = current
        if current == 0 and low != 0:
            message = "scaling is disabled since the replica count of the target is zero"
            self._condition(status, "ScalingActive", False, "ScalingDisabled", message)
            status["desiredReplicas"] = 0
        elif current > high:
            self._rescale(hpa, status, target, high, "Current number of replicas above Spec.MaxReplicas")
        elif current < low:
            self._rescale(hpa, status, target, low, "Current number of replicas below Spec.MinReplicas")
        else:
            self._report_metrics(hpa, status)
            status["desiredReplicas"] = status.get("desiredReplicas", current) or current

    def _target(self, namespace: str, reference: Object) -> Object | None:
        if reference["kind"] not in resources.stored_kinds():
            return None
        return self.registry.get(reference["kind"], namespace, reference["name"])

    def _report_metrics(self, hpa: Object, status: Object) -> None:
        metrics = hpa["spec"].get("metrics") or ()
        status["currentMetrics"] = [at_target(metric) for metric in metrics] if self.has_metrics else None
        for metric in metrics[:1]:
            source, name = source_of(metric), named(metric)
            if self.has_metrics:
                message = (
                    f"the HPA was able to successfully calculate a replica count from {described(metric['type'], name)}"
                )
                self._condition(status, "ScalingActive", True, "ValidMetricFound", message)
                continue
            reason, text = unavailable(metric["type"], name, source["target"])
            self.recorder.event(hpa, "Warning", reason, text)
            message = f"the HPA was unable to compute the replica count: {text}"
            self._condition(status, "ScalingActive", False, reason, message)

    def _rescale(self, hpa: Object, status: Object, target: Object, wanted: int, reason: str) -> None:
        def write(copied: Object) -> None:
            copied["spec"]["replicas"] = wanted

        self.registry.modify(target["kind"], *key_of(target), write, subresource="scale")
        status["desiredReplicas"] = wanted
        message = f"the HPA controller was able to update the target scale to {wanted}"
        self._condition(status, "AbleToScale", True, "SucceededRescale", message)
        status["lastScaleTime"] = rfc3339(self.clock.now())
        self.recorder.event(hpa, "Normal", "SuccessfulRescale", f"New size: {wanted}; reason: {reason}")

    def _condition(self, status: Object, kind: str, holds: bool, reason: str, message: str) -> None:
        conditions = status.setdefault("conditions", [])
        new = {
            "type": kind,
            "status": str(holds),
            "lastTransitionTime": rfc3339(self.clock.now()),
            "reason": reason,
            "message": message,
        }
        for index, old in enumerate(conditions):
            if old["type"] == kind:
                if old["status"] == new["status"]:
                    new["lastTransitionTime"] = old["lastTransitionTime"]
                conditions[index] = new
                return
        conditions.append(new)


def source_key(metric: Object) -> str:
    """The block of a metric: that of `ContainerResource` is `containerResource`."""
    kind: str = metric["type"]
    return kind[0].lower() + kind[1:]


def source_of(metric: Object) -> Object:
    found: Object = metric[source_key(metric)]
    return found


def at_target(metric: Object) -> Object:
    """What `status.currentMetrics` has of a metric that is measured, and is just what it should be."""
    source = source_of(metric)
    value = {name: amount for name, amount in source["target"].items() if name != "type"}
    about = {name: part for name, part in source.items() if name != "target"}
    return {"type": metric["type"], source_key(metric): {**about, "current": value}}


def named(metric: Object) -> str:
    source = source_of(metric)
    return str(source["name"] if "name" in source else source["metric"]["name"])


def described(kind: str, name: str) -> str:
    """A metric as the controller names it in its condition."""
    if kind in ("Resource", "ContainerResource"):
        return f"{name} resource utilization (percentage of request)"
    return f"{kind.lower()} metric {name}"


def unavailable(kind: str, name: str, goal: Object) -> tuple[str, str]:
    """What the controller says when there is no metrics server: (reason, message)."""
    no_server = "the server could not find the requested resource"
    if kind in ("Resource", "ContainerResource"):
        what = f"{name} utilization" if goal["type"] == "Utilization" else f"{name} resource metric value"
        api = f"unable to fetch metrics from resource metrics API: {no_server} (get pods.metrics.k8s.io)"
        return "FailedGetResourceMetric", f"failed to get {what}: unable to get metrics for resource {name}: {api}"
    reason = {"Pods": "FailedGetPodsMetric", "Object": "FailedGetObjectMetric"}.get(kind, "FailedGetExternalMetric")
    api = "no custom metrics API (custom.metrics.k8s.io) registered"
    return reason, f"unable to get metric {name}: unable to fetch metrics from custom metrics API: {api}"


def resource_name(reference: Object) -> str:
    if reference["kind"] in resources.stored_kinds():
        return resources.by_kind(reference["kind"]).qualified
    return f"{reference['kind'].lower()}s.{reference.get('apiVersion', '').partition('/')[0]}"
