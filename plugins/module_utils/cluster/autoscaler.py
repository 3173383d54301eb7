# SPDX-License-Identifier: BSD-2-Clause
"""Whether the autoscaler of a service works. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# pkg/controller/podautoscaler: the workload has no replicas, as a paused one.
_HARMLESS = "ScalingDisabled"
_METRICS = "Check that the cluster has metrics: kubectl top pods --namespace"


def autoscaler_problem(autoscaler: Mapping[str, Any]) -> str | None:
    """Why a HorizontalPodAutoscaler does not scale, and what to do; None while it does."""
    for condition in autoscaler.get("status", {}).get("conditions") or ():
        reason = condition.get("reason") or ""
        broken = condition["type"] in ("AbleToScale", "ScalingActive") and condition["status"] == "False"
        if broken and reason != _HARMLESS:
            message = (condition.get("message") or reason).partition("\n")[0].rstrip(". ")
            text = f"its autoscaler has not worked since {condition.get('lastTransitionTime')}: {message}."
            metrics = f" {_METRICS} {autoscaler['metadata']['namespace']}." if "Metric" in reason else ""
            return f"{text}{metrics}"
    return None
