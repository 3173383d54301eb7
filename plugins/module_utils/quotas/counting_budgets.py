# SPDX-License-Identifier: BSD-2-Clause
"""Which budget of GPU-hours counts in a namespace. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from ..cluster.status import is_terminating
from .gpu_hours import HoursBudget, Object, budget_of

T = TypeVar("T", bound=Object)


def budgets_by_namespace(resource_quotas: Iterable[T]) -> dict[str, tuple[list[T], tuple[HoursBudget, T] | None]]:
    """The ResourceQuotas of each namespace, and the budget that counts there, with its quota: the smallest one. There
    are two after a race of two tasks, which both have reported."""
    found: dict[str, list[T]] = defaultdict(list)
    for obj in resource_quotas:
        found[obj["metadata"]["namespace"]].append(obj)
    return {namespace: (own, _counting_budget(own)) for namespace, own in found.items()}


def _counting_budget(resource_quotas: Iterable[T]) -> tuple[HoursBudget, T] | None:
    budgets = ((budget, obj) for obj in resource_quotas if not is_terminating(obj) and (budget := budget_of(obj)))
    return min(budgets, key=lambda each: each[0], default=None)
