# SPDX-License-Identifier: BSD-2-Clause
"""Which conditions of an autoscaler mean that it does not work."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.autoscaler import autoscaler_problem

NO_METRICS = "the HPA was unable to compute the replica count: failed to get cpu utilization"
TOP = "Check that the cluster has metrics: kubectl top pods --namespace ml."


@pytest.mark.parametrize(
    ("kind", "status", "reason", "message", "problem"),
    [
        ("ScalingActive", "True", "ValidMetricFound", "fine", None),
        ("ScalingActive", "False", "ScalingDisabled", "the replica count of the target is zero", None),
        ("ScalingLimited", "False", "DesiredWithinRange", "fine", None),
        ("ScalingActive", "False", "FailedGetResourceMetric", NO_METRICS, f"{NO_METRICS}. {TOP}"),
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
