# SPDX-License-Identifier: BSD-2-Clause
"""The horizontal pod autoscaler: it keeps to minReplicas and maxReplicas, and follows the metrics that are served.

Those of `served` (metrics/served.py) are followed as Kubernetes does. Of the others it says that there are none, with
`metrics` that all of them are at their targets.

Source: pkg/controller/podautoscaler/horizontal.go (reconcileAutoscaler, conditions, events).
"""

from __future__ import annotations

import copy
from typing import Any

from kubesim import resources
from kubesim.clock import rfc3339
from kubesim.metrics.served import ServedMetrics
from kubesim.quantity import Quantity

from .base import Controller, Key, Object, key_of
from .events import EventRecorder
from .hpa_replicas import NoReplicaCount, Recommendations, wanted_by_pods, wanted_by_total

PERIOD = 15.0


class HorizontalPodAutoscalerController(Controller):
    name = "horizontal-pod-autoscaler"
    watches = ("HorizontalPodAutoscaler",)

    def __init__(self, registry: Any, metrics: bool = False, served: ServedMetrics | None = None) -> None:
        super().__init__(registry)
        self.has_metrics = metrics
        self.served = served or ServedMetrics(registry)
        self._history: dict[Key, Recommendations] = {}
        self.recorder = EventRecorder(registry, self.name)

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if event != "DELETED" and (old is None or old["spec"] != obj["spec"]):
            self.enqueue(key_of(obj))

    def reconcile(self, key: Key) -> None:
        hpa = self.registry.get(self.watches[0], *key)
        if hpa is None:
            self._history.pop(key, None)
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
        elif any(self._is_served(metric) for metric in spec.get("metrics") or ()):
            self._follow_metrics(key, hpa, status, target)
        else:
            self._report_metrics(hpa, status)
            status["desiredReplicas"] = status.get("desiredReplicas", current) or current

    def _target(self, namespace: str, reference: Object) -> Object | None:
        if reference["kind"] not in resources.stored_kinds():
            return None
        return self.registry.get(reference["kind"], namespace, reference["name"])

    # --- what is measured ---

    def _is_served(self, metric: Object) -> bool:
        known = {"Pods": list(self.served.of_pods), "External": list(self.served.external)}
        return named(metric) in known.get(metric["type"], ())

    def _follow_metrics(self, key: Key, hpa: Object, status: Object, target: Object) -> None:
        """computeReplicasForMetrics: the most that one of them wants; fewer only if all of them are known."""
        spec, now = hpa["spec"], self.clock.now().timestamp()
        current, high = target["spec"].get("replicas", 1), spec["maxReplicas"]
        history = self._history.setdefault(key, Recommendations(current, now))
        wanted, by, failed = 0, "", None
        status["currentMetrics"] = []
        for metric in spec["metrics"]:
            try:
                replicas, measured = self._wanted(key[0], metric, target)
            except NoReplicaCount as problem:
                failed = failed or (metric["type"], f"unable to get metric {named(metric)}: {problem}")
                continue
            status["currentMetrics"].append(measured)
            if replicas > wanted:
                wanted, by = replicas, described(metric["type"], named(metric))
        status["desiredReplicas"] = current
        if failed is not None and (not by or wanted < current):
            kind, text = failed
            reason = f"FailedGet{kind}Metric"
            self.recorder.event(hpa, "Warning", reason, text)
            message = f"the HPA was unable to compute the replica count: {text}"
            self._condition(status, "ScalingActive", False, reason, message)
            return
        message = f"the HPA was able to successfully calculate a replica count from {by}"
        self._condition(status, "ScalingActive", True, "ValidMetricFound", message)
        behavior = spec.get("behavior") or {}
        stable = history.stabilized(behavior, current, wanted, now)
        self._stability(status, stable, wanted, current)
        limit = history.limited(behavior, (spec.get("minReplicas", 1), high), current, stable, now)
        self._condition(status, "ScalingLimited", limit.limited, limit.reason, limit.message)
        if limit.replicas != current:
            why = f"{by} above target" if wanted > current else "All metrics below target"
            history.changed(limit.replicas - current, now)
            self._rescale(hpa, status, target, limit.replicas, why)

    def _stability(self, status: Object, stable: int, wanted: int, current: int) -> None:
        if stable == wanted:
            message = "recommended size matches current size"
            self._condition(status, "AbleToScale", True, "ReadyForNewScale", message)
            return
        up = wanted >= current
        first, second = ("lower", "lowest") if up else ("higher", "highest")
        message = f"recent recommendations were {first} than current one, applying the {second} recent recommendation"
        self._condition(status, "AbleToScale", True, f"Scale{'Up' if up else 'Down'}Stabilized", message)

    def _wanted(self, namespace: str, metric: Object, target: Object) -> tuple[int, Object]:
        """The replicas that a metric wants, and what the status says of it."""
        kind, name, current = metric["type"], named(metric), target["spec"].get("replicas", 1)
        if not self._is_served(metric):
            raise NoReplicaCount(unavailable(kind, name, source_of(metric)["target"])[1])
        goal = Quantity.parse(source_of(metric)["target"]["averageValue"]).milli_value
        if kind == "Pods":
            pods = self.registry.list("Pod", namespace, (target["spec"]["selector"] or {}).get("matchLabels"))
            replicas, average = wanted_by_pods(current, pods, self.served.values(name, pods), goal)
        else:
            replicas, average = wanted_by_total(current, round(self.served.external[name] * 1000), goal)
        measured = {"metric": {"name": name}, "current": {"averageValue": str(Quantity.parse(f"{average}m"))}}
        return replicas, {"type": kind, kind.lower(): measured}

    def _report_metrics(self, hpa: Object, status: Object) -> None:
        for metric in (hpa["spec"].get("metrics") or ())[:1]:
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


def source_of(metric: Object) -> Object:
    found: Object = metric[metric["type"][0].lower() + metric["type"][1:]]
    return found


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
