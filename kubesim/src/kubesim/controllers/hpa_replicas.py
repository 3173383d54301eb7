# SPDX-License-Identifier: BSD-2-Clause
"""How many replicas an autoscaler wants, and how many it may have now.

Source: pkg/controller/podautoscaler/replica_calculator.go (calcPlainMetricReplicas, groupPods,
GetExternalPerPodMetricReplicas), horizontal.go (stabilizeRecommendationWithBehaviors,
convertDesiredReplicasWithBehaviorRate).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Object = dict[str, Any]

#: --horizontal-pod-autoscaler-tolerance, --horizontal-pod-autoscaler-downscale-stabilization
TOLERANCE = 0.1
SCALE_DOWN_WINDOW = 300
_NO_VALUES = "did not receive metrics for targeted pods (pods might be unready)"
_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN = {
    "stabilizationWindowSeconds": SCALE_DOWN_WINDOW,
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


class NoReplicaCount(Exception):
    """Why there is none."""


class Limited(NamedTuple):
    """What of a wish is carried out: the replicas, and the condition that says what has limited it."""

    replicas: int
    limited: bool
    reason: str
    message: str


def wanted_by_pods(current: int, pods: Sequence[Object], values: Mapping[str, int], target: int) -> tuple[int, int]:
    """Replicas, and the average of the pods that count; values by pod and target in thousandths."""
    if not pods:
        raise NoReplicaCount("no pods returned by selector while calculating replica count")
    alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and _phase(pod) != "Failed"]
    pending = {pod["metadata"]["name"] for pod in alive if _phase(pod) == "Pending"}
    names = [pod["metadata"]["name"] for pod in alive if pod["metadata"]["name"] not in pending]
    missing = [name for name in names if name not in values]
    measured = {name: values[name] for name in names if name in values}
    if not measured:
        raise NoReplicaCount(_NO_VALUES)
    ratio, average = _ratio(measured, target)
    rising = bool(pending) and ratio > 1
    if not rising and not missing:
        return (current if _is_near(ratio) else math.ceil(ratio * len(measured))), average
    # Who was not measured speaks against the change: idle when there are to be more, at the target when fewer.
    if ratio != 1:
        measured |= dict.fromkeys(missing, target if ratio < 1 else 0)
    if rising:
        measured |= dict.fromkeys(pending, 0)
    again, _average = _ratio(measured, target)
    replicas = math.ceil(again * len(measured))
    turned = (ratio - 1) * (again - 1) < 0 or (again < 1 and replicas > current) or (again > 1 and replicas < current)
    return (current if _is_near(again) or turned else replicas), average


def wanted_by_total(current: int, total: int, target: int) -> tuple[int, int]:
    """By an external metric with a target for each pod: replicas, and the average."""
    near = current > 0 and _is_near(total / (target * current))
    average = math.ceil(total / current) if current else total
    return (current if near else math.ceil(total / target)), average


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _ratio(values: Mapping[str, int], target: int) -> tuple[float, int]:
    average = sum(values.values()) // len(values)
    return average / target, average


def _is_near(ratio: float) -> bool:
    return 1 - TOLERANCE <= ratio <= 1 + TOLERANCE


class Recommendations:
    """What one autoscaler has wanted and done lately; times in seconds."""

    def __init__(self, current: int, now: float) -> None:
        self._wanted: list[tuple[float, int]] = [(now, current)]
        self._changes: list[tuple[float, int]] = []

    def changed(self, by: int, now: float) -> None:
        self._changes.append((now, by))

    def stabilized(self, behavior: Mapping[str, Any], current: int, wanted: int, now: float) -> int:
        """The lowest recent wish to have more, or the highest to have fewer."""
        up, down = (_rules(behavior, each)["stabilizationWindowSeconds"] for each in ("scaleUp", "scaleDown"))
        least = min([wanted, *(count for when, count in self._wanted if when > now - up)])
        most = max([wanted, *(count for when, count in self._wanted if when > now - down)])
        self._wanted = [one for one in self._wanted if one[0] > now - max(up, down)] + [(now, wanted)]
        return min(max(current, least), most)

    def limited(
        self, behavior: Mapping[str, Any], bounds: tuple[int, int], current: int, wanted: int, now: float
    ) -> Limited:
        """As far as the policies and the bounds allow."""
        low, high = bounds
        if wanted > current:
            limit = max(current, self._limit(_rules(behavior, "scaleUp"), current, now, 1))
            if wanted > min(high, limit):
                if limit < high:
                    rate = "the desired replica count is increasing faster than the maximum scale rate"
                    return Limited(limit, True, "ScaleUpLimit", rate)
                more = "the desired replica count is more than the maximum replica count"
                return Limited(high, True, "TooManyReplicas", more)
        if wanted < current:
            limit = min(current, self._limit(_rules(behavior, "scaleDown"), current, now, -1))
            if wanted < max(low, limit):
                if limit > low:
                    rate = "the desired replica count is decreasing faster than the maximum scale rate"
                    return Limited(limit, True, "ScaleDownLimit", rate)
                fewer = "the desired replica count is less than the minimum replica count"
                return Limited(low, True, "TooFewReplicas", fewer)
        return Limited(wanted, False, "DesiredWithinRange", "the desired count is within the acceptable range")

    def _limit(self, rules: Mapping[str, Any], current: int, now: float, sign: int) -> int:
        if rules["selectPolicy"] == "Disabled":
            return current
        limits = []
        for policy in rules["policies"]:
            start = current - sum(by for when, by in self._changes if when > now - policy["periodSeconds"])
            amount = policy["value"] if policy["type"] == "Pods" else start * policy["value"] / 100
            limits.append(math.ceil(start + amount) if sign > 0 else int(start - amount))
        farthest = (max if sign > 0 else min)(limits)
        return farthest if rules["selectPolicy"] == "Max" else (min if sign > 0 else max)(limits)


def _rules(behavior: Mapping[str, Any], direction: str) -> Mapping[str, Any]:
    """Those of a direction, with the defaults of the controller."""
    return {**(_UP if direction == "scaleUp" else _DOWN), **(behavior.get(direction) or {})}
