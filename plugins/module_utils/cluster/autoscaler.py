# SPDX-License-Identifier: BSD-2-Clause
"""Whether the autoscaler of a service works. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

# pkg/controller/podautoscaler: the workload has no replicas, as a paused one.
_HARMLESS = "ScalingDisabled"
_METRICS = "To find out which metrics the cluster lacks, use M(gpuctl_doctor)."
# pkg/controller/podautoscaler/horizontal.go, convertDesiredReplicasWithBehaviorRate
_AT_MAXIMUM = ("ScalingLimited", "True", "TooManyReplicas")
# pkg/controller/podautoscaler/horizontal.go: who serves such metrics has to be installed.
_ADAPTED = ("FailedGetPodsMetric", "FailedGetObjectMetric", "FailedGetExternalMetric")
_ADAPTER = "Check that prometheus-adapter or KEDA serves this metric. The role monitoring has what they need for GPUs."


class AskedMetric(NamedTuple):
    """What an autoscaler scales by, such as Pods and DCGM_FI_DEV_GPU_UTIL."""

    type: str
    name: str
    target: str | None
    selector: Mapping[str, str]  # labels of the metric


def autoscaler_row(autoscaler: Mapping[str, Any], utilization: Container[str] = ()) -> dict[str, Any]:
    """What results say of a HorizontalPodAutoscaler. ``utilization`` are the metrics that are gpu_utilization."""
    spec, status = autoscaler["spec"], autoscaler.get("status") or {}
    current = {key: value for key, value in map(_measured_value, status.get("currentMetrics") or ()) if key}
    return {
        "min_replicas": spec.get("minReplicas", 1),
        "max_replicas": spec.get("maxReplicas"),
        "current_replicas": status.get("currentReplicas"),
        "desired_replicas": status.get("desiredReplicas"),
        "metrics": [
            {
                "metric": one.name,
                "type": one.type,
                "target": one.target,
                "current": current.get((one.type, one.name)),
                "autoscaling_metric": "gpu_utilization" if one.name in utilization else one.name,
            }
            for one in asked_metrics(autoscaler)
        ],
        "last_scaled_at": status.get("lastScaleTime"),
        "limited": _limiting_maximum(autoscaler),
        "problem": autoscaler_problem(autoscaler),
    }


def asked_metrics(autoscaler: Mapping[str, Any]) -> list[AskedMetric]:
    """All that it scales by."""
    return [_asked_metric(metric) for metric in autoscaler["spec"].get("metrics") or ()]


def _asked_metric(metric: Mapping[str, Any]) -> AskedMetric:
    kind, source = _metric_source(metric)
    selector = ((source.get("metric") or {}).get("selector") or {}).get("matchLabels") or {}
    return AskedMetric(kind, _name_in_source(source), _metric_value_text(source.get("target") or {}), selector)


def _limiting_maximum(autoscaler: Mapping[str, Any]) -> str | None:
    """Whether its maximum keeps it from what it wants. That of the minimum is how an idle service is."""
    for condition in (autoscaler.get("status") or {}).get("conditions") or ():
        if (condition["type"], condition["status"], condition.get("reason")) == _AT_MAXIMUM:
            most = autoscaler["spec"].get("maxReplicas")
            return f"the load is for more than {most} replicas. Raise autoscaling.max_replicas to allow more."
    return None


def _measured_value(metric: Mapping[str, Any]) -> tuple[tuple[str, str], str | None]:
    kind, source = _metric_source(metric)
    return (kind, _name_in_source(source)), _metric_value_text(source.get("current") or {})


def _metric_source(metric: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The type of a metric, and its block: that of Pods is called pods, of ContainerResource containerResource."""
    kind = str(metric.get("type") or "")
    return kind, metric.get(kind[:1].lower() + kind[1:]) or {}


def _name_in_source(source: Mapping[str, Any]) -> str:
    return str(source.get("name") or (source.get("metric") or {}).get("name") or "")


def _metric_value_text(amount: Mapping[str, Any]) -> str | None:
    """A target or what was measured, as text: 80%, 600m, 12."""
    if amount.get("averageUtilization") is not None:
        return f"{amount['averageUtilization']}%"
    found = amount.get("averageValue") or amount.get("value")
    return None if found is None else str(found)


def autoscaler_problem(autoscaler: Mapping[str, Any]) -> str | None:
    """Why a HorizontalPodAutoscaler does not scale, and what to do; None while it does."""
    for condition in autoscaler.get("status", {}).get("conditions") or ():
        reason = condition.get("reason") or ""
        broken = condition["type"] in ("AbleToScale", "ScalingActive") and condition["status"] == "False"
        if broken and reason != _HARMLESS:
            message = (condition.get("message") or reason).partition("\n")[0].rstrip(". ")
            text = f"its autoscaler has not worked since {condition.get('lastTransitionTime')}: {message}."
            if reason in _ADAPTED:
                return f"{text} {_ADAPTER}"
            return f"{text} {_METRICS}" if "Metric" in reason else text
    return None
