# SPDX-License-Identifier: BSD-2-Clause
"""Which conditions of an autoscaler mean that it does not work."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.autoscaler import (
    asked_metrics,
    autoscaler_problem,
    autoscaler_row,
)

NO_METRICS = "the HPA was unable to compute the replica count: failed to get cpu utilization"
ADAPTER = "Check that prometheus-adapter or KEDA serves this metric. The role monitoring has what they need for GPUs."
AT_MAXIMUM = "the load is for more than 2 replicas. Raise autoscaling.max_replicas to allow more."
TOP = "To find out which metrics the cluster lacks, use M(gpuctl_doctor)."


@pytest.mark.parametrize(
    ("kind", "status", "reason", "message", "problem"),
    [
        ("ScalingActive", "True", "ValidMetricFound", "fine", None),
        ("ScalingActive", "False", "ScalingDisabled", "the replica count of the target is zero", None),
        ("ScalingLimited", "False", "DesiredWithinRange", "fine", None),
        ("ScalingActive", "False", "FailedGetResourceMetric", NO_METRICS, f"{NO_METRICS}. {TOP}"),
        ("ScalingActive", "False", "FailedGetPodsMetric", "no metric", f"no metric. {ADAPTER}"),
        ("AbleToScale", "False", "FailedGetScale", "no scale.", "no scale."),
        ("AbleToScale", "False", "FailedUpdateScale", "", "FailedUpdateScale."),
    ],
)
def test_what_an_autoscaler_says(kind: str, status: str, reason: str, message: str, problem: str | None) -> None:
    condition = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    found = autoscaler_problem({"metadata": {"namespace": "ml"}, "status": {"conditions": [condition]}})
    assert found == (problem and f"its autoscaler has not worked since 2026-01-01T00:00:00Z: {problem}")


def test_an_autoscaler_that_has_not_been_looked_at() -> None:
    assert autoscaler_problem({"metadata": {"namespace": "ml"}}) is None


def test_what_results_say_of_an_autoscaler() -> None:
    pods = {"metric": {"name": "DCGM_FI_DEV_GPU_UTIL"}, "target": {"type": "AverageValue", "averageValue": "80"}}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    external = {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "5"}}
    measured = {"metric": {"name": "DCGM_FI_DEV_GPU_UTIL"}, "current": {"averageValue": "91"}}
    autoscaler = {
        "metadata": {"namespace": "ml"},
        "spec": {
            "maxReplicas": 8,
            "metrics": [
                {"type": "Pods", "pods": pods},
                {"type": "Resource", "resource": cpu},
                {"type": "External", "external": external},
                {"type": "New"},
            ],
        },
        "status": {"currentReplicas": 3, "desiredReplicas": 4, "currentMetrics": [{"type": "Pods", "pods": measured}]},
    }
    assert autoscaler_row(autoscaler, {"DCGM_FI_DEV_GPU_UTIL"}) == {
        "min_replicas": 1,
        "max_replicas": 8,
        "current_replicas": 3,
        "desired_replicas": 4,
        "metrics": [
            {
                "metric": "DCGM_FI_DEV_GPU_UTIL",
                "type": "Pods",
                "target": "80",
                "current": "91",
                "autoscaling_metric": "gpu_utilization",
            },
            {"metric": "cpu", "type": "Resource", "target": "70%", "current": None, "autoscaling_metric": "cpu"},
            {"metric": "queue", "type": "External", "target": "5", "current": None, "autoscaling_metric": "queue"},
            {"metric": "", "type": "New", "target": None, "current": None, "autoscaling_metric": ""},
        ],
        "last_scaled_at": None,
        "limited": None,
        "problem": None,
    }
    assert asked_metrics(autoscaler)[0] == ("Pods", "DCGM_FI_DEV_GPU_UTIL", "80", {})


@pytest.mark.parametrize(
    ("status", "reason", "limited"),
    [
        (
            "True",
            "TooManyReplicas",
            "the load is for more than 2 replicas. Raise autoscaling.max_replicas to allow more.",
        ),
        ("True", "TooFewReplicas", None),
        ("False", "DesiredWithinRange", None),
    ],
)
def test_only_the_maximum_limits(status: str, reason: str, limited: str | None) -> None:
    condition = {"type": "ScalingLimited", "status": status, "reason": reason}
    row = autoscaler_row(
        {"metadata": {"namespace": "ml"}, "spec": {"maxReplicas": 2}, "status": {"conditions": [condition]}}
    )
    assert (row["limited"], row["problem"]) == (limited, None)


def test_an_autoscaler_that_was_just_created() -> None:
    row = autoscaler_row({"metadata": {"namespace": "ml"}, "spec": {"maxReplicas": 2}})
    assert (row["current_replicas"], row["metrics"], row["problem"]) == (None, [], None)
