# SPDX-License-Identifier: BSD-2-Clause
"""The horizontal pod autoscaler, with metrics that a test sets: without one it is a cluster without metrics server.

Source: pkg/controller/podautoscaler/horizontal.go (reconcileAutoscaler, conditions, events), replica_calculator.go.
Of `behavior` the stabilization windows are kept, the policies (how many pods in how many seconds) are not.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from kubesim import resources
from kubesim.clock import rfc3339
from kubesim.quantity import Quantity

from .base import Controller, Key, Object, key_of
from .events import EventRecorder
from .owners import owner_index
from .pods import is_active, is_ready

PERIOD = 15.0
TOLERANCE = 0.1
STABILIZATION = {"scaleDown": 300, "scaleUp": 0}


class NoMetric(Exception):
    """A metric that cannot be had: (reason of the condition, message)."""


@dataclass(frozen=True)
class Wish:
    """How many replicas a metric asks for, what it is called, and what status says of it."""

    replicas: int
    description: str
    current: Object


class HorizontalPodAutoscalerController(Controller):
    name = "horizontal-pod-autoscaler"
    watches = ("HorizontalPodAutoscaler",)

    def __init__(self, registry: Any) -> None:
        super().__init__(registry)
        self.recorder = EventRecorder(registry, self.name)
        self._metrics: dict[tuple[str, str, str], str] = {}
        self._wishes: dict[Key, list[tuple[datetime, int]]] = {}

    def set_metric(self, namespace: str, target: str, metric: str, value: str | int | float | None) -> None:
        """What a metric of a workload is now: the average over its pods, in percent for utilization; None: unknown."""
        key = (namespace, target, metric)
        if value is None:
            self._metrics.pop(key, None)
        else:
            self._metrics[key] = str(value)
        for hpa in self.registry.list(self.watches[0], namespace):
            if hpa["spec"]["scaleTargetRef"]["name"] == target:
                self.enqueue(key_of(hpa))

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if event == "DELETED":
            self._wishes.pop(key_of(obj), None)
        elif old is None or old["spec"] != obj["spec"]:
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
        reason = ""
        if current == 0 and low != 0:
            message = "scaling is disabled since the replica count of the target is zero"
            self._condition(status, "ScalingActive", False, "ScalingDisabled", message)
            status["desiredReplicas"] = 0
            return
        if current > high:
            wanted, reason = high, "Current number of replicas above Spec.MaxReplicas"
        elif current < low:
            wanted, reason = low, "Current number of replicas below Spec.MinReplicas"
        else:
            found = self._by_metrics(hpa, status, target, current)
            if found is None:
                status["desiredReplicas"] = status.get("desiredReplicas", current) or current
                return
            wanted, reason = self._stabilized(key, hpa, status, current, found.replicas), f"{found.description}"
            reason = f"{reason} above target" if wanted > current else "All metrics below target"
            wanted = self._limited(status, wanted, low, high)
        status["desiredReplicas"] = wanted
        if wanted != current:
            self._rescale(hpa, status, target, wanted, reason)

    def _target(self, namespace: str, reference: Object) -> Object | None:
        if reference["kind"] not in resources.stored_kinds():
            return None
        return self.registry.get(reference["kind"], namespace, reference["name"])

    def _by_metrics(self, hpa: Object, status: Object, target: Object, current: int) -> Wish | None:
        wishes: list[Wish] = []
        failure: NoMetric | None = None
        for metric in hpa["spec"].get("metrics") or ():
            try:
                wishes.append(self._wish(hpa["metadata"]["namespace"], metric, target, current))
            except NoMetric as error:
                failure = failure or error
        best = max(wishes, key=lambda wish: wish.replicas, default=None)
        status["currentMetrics"] = [wish.current for wish in wishes] or None
        if best is None or (failure is not None and best.replicas < current):  # nobody knows whether it may shrink
            assert failure is not None
            reason, text = failure.args
            self.recorder.event(hpa, "Warning", reason, text)
            message = f"the HPA was unable to compute the replica count: {text}"
            self._condition(status, "ScalingActive", False, reason, message)
            return None
        message = f"the HPA was able to successfully calculate a replica count from {best.description}"
        self._condition(status, "ScalingActive", True, "ValidMetricFound", message)
        return best

    def _wish(self, namespace: str, metric: Object, target: Object, current: int) -> Wish:
        field = metric["type"][0].lower() + metric["type"][1:]
        source = metric[field]
        name = source["name"] if "name" in source else source["metric"]["name"]
        text = self._metrics.get((namespace, target["metadata"]["name"], name))
        goal = source["target"]
        if text is None:
            raise NoMetric(*unavailable(metric["type"], name, goal))
        value = Quantity.parse(text)
        if goal["type"] == "Utilization":
            wanted = goal["averageUtilization"]
            shown: Object = {"averageUtilization": value.value}
            description = f"{name} resource utilization (percentage of request)"
        else:
            per_pod = goal["type"] == "AverageValue"
            wanted = Quantity.parse(goal["averageValue" if per_pod else "value"]).amount
            shown = {"averageValue" if per_pod else "value": str(value)}
            description = {"Resource": f"{name} resource", "Pods": f"pods metric {name}"}.get(
                metric["type"], f"{metric['type'].lower()} metric {name}"
            )
        ratio = float(value.amount / wanted) if wanted else 0.0
        ready = self._ready_pods(target) or current
        replicas = current if abs(ratio - 1) <= TOLERANCE else ceil(ratio * ready)
        kept = {key: source[key] for key in ("name", "container", "metric", "describedObject") if key in source}
        return Wish(replicas, description, {"type": metric["type"], field: {**kept, "current": shown}})

    def _ready_pods(self, target: Object) -> int:
        index = owner_index(self.registry)
        owners = [target, *index.dependents(target["metadata"]["uid"], "ReplicaSet")]
        pods = [pod for owner in owners for pod in index.dependents(owner["metadata"]["uid"], "Pod")]
        return sum(is_active(pod) and is_ready(pod) for pod in pods)

    def _stabilized(self, key: Key, hpa: Object, status: Object, current: int, wanted: int) -> int:
        """Down only to the most that was wished for within the window, up only to the least."""
        now, behavior = self.clock.now(), hpa["spec"].get("behavior") or {}
        windows = {
            way: timedelta(seconds=(behavior.get(way) or {}).get("stabilizationWindowSeconds", default))
            for way, default in STABILIZATION.items()
        }
        known = self._wishes.setdefault(key, [(now, current)])
        known.append((now, wanted))
        self._wishes[key] = known = [one for one in known if now - one[0] <= max(windows.values())]
        most = max([wanted, *(wish for moment, wish in known if now - moment < windows["scaleDown"])])
        least = min([wanted, *(wish for moment, wish in known if now - moment < windows["scaleUp"])])
        settled = min(most, current) if wanted < current else max(least, current) if wanted > current else wanted
        if settled != wanted:
            message = "recent recommendations were higher than current one, applying the highest recent recommendation"
            self._condition(status, "AbleToScale", True, "ScaleDownStabilized", message)
        else:
            message = "recommended size matches current size"
            self._condition(status, "AbleToScale", True, "ReadyForNewScale", message)
        return settled

    def _limited(self, status: Object, wanted: int, low: int, high: int) -> int:
        if wanted > high:
            text = "the desired replica count is more than the maximum replica count"
            self._condition(status, "ScalingLimited", True, "TooManyReplicas", text)
        elif wanted < low:
            text = "the desired replica count is less than the minimum replica count"
            self._condition(status, "ScalingLimited", True, "TooFewReplicas", text)
        else:
            text = "the desired count is within the acceptable range"
            self._condition(status, "ScalingLimited", False, "DesiredWithinRange", text)
        return max(low, min(high, wanted))

    def _rescale(self, hpa: Object, status: Object, target: Object, wanted: int, reason: str) -> None:
        def write(copied: Object) -> None:
            copied["spec"]["replicas"] = wanted

        self.registry.modify(target["kind"], *key_of(target), write, subresource="scale")
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
