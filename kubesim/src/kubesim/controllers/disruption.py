# SPDX-License-Identifier: BSD-2-Clause
"""What PodDisruptionBudgets allow right now; evictions read it. Source: pkg/controller/disruption/disruption.go."""

from __future__ import annotations

from typing import Any

from kubesim.clock import rfc3339
from kubesim.selectors import matches_label_selector

from .base import Controller, Key, Object, key_of, set_condition
from .owners import controller_of
from .pods import is_active, is_ready, scaled


class DisruptionController(Controller):
    name = "disruption-controller"
    watches = ("PodDisruptionBudget", "Pod")

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "PodDisruptionBudget":
            if event != "DELETED":
                self.enqueue(key_of(obj))
            return
        for budget in self.registry.list("PodDisruptionBudget", obj["metadata"]["namespace"]):
            if matches_label_selector(budget["spec"].get("selector"), obj["metadata"].get("labels") or {}):
                self.enqueue(key_of(budget))

    def reconcile(self, key: Key) -> None:
        budget = self.registry.get("PodDisruptionBudget", *key)
        if budget is None:
            return
        selector = budget["spec"].get("selector")
        pods = [
            pod
            for pod in self.registry.list("Pod", key[0])
            if is_active(pod) and matches_label_selector(selector, pod["metadata"].get("labels") or {})
        ]
        expected, desired = self._wanted(budget, pods)
        healthy = sum(map(is_ready, pods))
        allowed = max(0, healthy - desired) if expected > 0 else 0
        now, generation = rfc3339(self.clock.now()), budget["metadata"].get("generation", 1)

        def write(copied: Object) -> None:
            conditions = copied.get("status", {}).get("conditions", [])
            reason = "SufficientPods" if allowed else "InsufficientPods"
            new = {
                "type": "DisruptionAllowed",
                "status": str(allowed > 0),
                "observedGeneration": generation,
                "lastTransitionTime": now,
                "reason": reason,
                "message": "",
            }
            set_condition(conditions, new)
            copied["status"] = {
                "observedGeneration": generation,
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "expectedPods": expected,
                "conditions": conditions,
            }

        self.registry.modify("PodDisruptionBudget", *key, write, subresource="status")

    def _wanted(self, budget: Object, pods: list[Object]) -> tuple[int, int]:
        """How many pods there are to be, and how many of them have to be healthy."""
        spec: dict[str, Any] = budget["spec"]
        if "maxUnavailable" in spec:
            expected = self._expected(pods)
            return expected, max(0, expected - scaled(spec["maxUnavailable"], expected, round_up=True))
        least = spec.get("minAvailable", 1)
        if isinstance(least, str):
            expected = self._expected(pods)
            return expected, scaled(least, expected, round_up=True)
        return len(pods), least

    def _expected(self, pods: list[Object]) -> int:
        """The replicas that the controllers of the pods want."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            live = self.registry.get(owner["kind"], pod["metadata"]["namespace"], owner["name"]) if owner else None
            if live is not None and "replicas" in live["spec"]:
                wanted[live["metadata"]["uid"]] = live["spec"]["replicas"]
        return sum(wanted.values()) if wanted else len(pods)
