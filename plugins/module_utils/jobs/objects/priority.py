# SPDX-License-Identifier: BSD-2-Clause
"""The three PriorityClasses behind a job's priority. In its own file because gpuctl_rbac needs no manifests."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...labels import FIELD_MANAGER, MANAGED_BY, priority_class_name
from .job_objects import Object, sparse


class _Class(NamedTuple):
    value: int
    description: str
    preemption_policy: str | None = None  # None is the default: preempt pods with a lower priority


_CLASSES = {
    "high": _Class(1_000_000, "Jobs with priority high are scheduled first and preempt jobs with a lower one."),
    "medium": _Class(500_000, "Jobs with priority medium, the default."),
    "low": _Class(100, "Jobs with priority low are scheduled last and preempt no others.", "Never"),
}
PRIORITIES = tuple(_CLASSES)


def priority_class(priority: str) -> Object:
    """The PriorityClass of ``high``, ``medium`` or ``low``. Its value cannot change once it exists."""
    chosen = _CLASSES[priority]
    fields: dict[str, Any] = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": priority_class_name(priority), "labels": {MANAGED_BY: FIELD_MANAGER}},
        "value": chosen.value,
        "preemptionPolicy": chosen.preemption_policy,
        "description": chosen.description,
    }
    return sparse(fields)
