# SPDX-License-Identifier: BSD-2-Clause
"""The PriorityClasses behind a job's priority. In its own file because gpuctl_rbac needs no manifests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...kube.api_objects import Object, sparse
from ...labels import FIELD_MANAGER, MANAGED_BY, is_managed, priority_class_name


class _Class(NamedTuple):
    value: int
    description: str
    preemptionPolicy: str | None = None  # None is the default: preempt pods with a lower priority


_CLASSES = {  # at most 1,000,000,000 (pkg/apis/scheduling/types.go, HighestUserDefinablePriority)
    "high": _Class(1_000_000, "Jobs with priority high are scheduled first and preempt jobs with a lower one."),
    "medium": _Class(500_000, "Jobs with priority medium, the default."),
    "low": _Class(100, "Jobs with priority low are scheduled last and preempt no others.", "Never"),
    # Below pods without a class (0), and below --expendable-pods-priority-cutoff (-10) of the cluster autoscaler.
    "opportunistic": _Class(-1000, "Jobs that run on what is free: others preempt them, they preempt none.", "Never"),
}
PRIORITIES = tuple(_CLASSES)
OPPORTUNISTIC = PRIORITIES[-1]
_PREEMPTS = "PreemptLowerPriority"  # the server's default (pkg/apis/scheduling/v1/defaults.go)


def priority_class(priority: str) -> Object:
    """The PriorityClass of one of ``PRIORITIES``."""
    # Value and preemptionPolicy are immutable (pkg/apis/scheduling/validation): to correct a class, it is recreated.
    chosen = _CLASSES[priority]
    return sparse(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": priority_class_name(priority), "labels": {MANAGED_BY: FIELD_MANAGER}},
            **chosen._asdict(),
        }
    )


def priority_class_problem(live: Mapping[str, Any]) -> str | None:
    """How a live PriorityClass differs from what jobs of its priority are to get; None for those of others too."""
    name = live["metadata"]["name"]
    priority = next((priority for priority in PRIORITIES if priority_class_name(priority) == name), None)
    if priority is None:
        return None
    chosen = _CLASSES[priority]
    expected = {
        "value": (live.get("value", 0), chosen.value),
        "globalDefault": (bool(live.get("globalDefault")), False),
        "preemptionPolicy": (live.get("preemptionPolicy") or _PREEMPTS, chosen.preemptionPolicy or _PREEMPTS),
    }
    wrong = [f"{field} {found} instead of {right}" for field, (found, right) in expected.items() if found != right]
    if not wrong:
        return None
    delete = "" if is_managed(live) else f"delete it (kubectl delete priorityclass {name}) and "
    return (
        f"PriorityClass {name} has {', '.join(wrong)}, which new pods of jobs with priority {priority} get. "
        f"Ask an administrator to {delete}run gpuctl_rbac with level submit and append=true, which corrects it."
    )
