# SPDX-License-Identifier: BSD-2-Clause
"""Namespaces whose GPU-hours are used up, with a budget that says stop_idle. Only administrators write ResourceQuotas,
and each is about its own namespace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from ...cluster.read_jobs import without_managed_fields
from ...cluster.status import is_terminating
from ...kube.concurrency import run_concurrently
from ...kube.errors import if_allowed
from ...kube.resources import RESOURCE_QUOTA
from ...kube.times import time_as_text
from ...labels import MANAGED
from ...namespaces import listed_namespaces
from ...quotas.gpu_hours import STOP_IDLE, budget_of, tally_of
from ...task import Task
from ..fitting_lists import list_fitting


def read_used_up(task: Task[Any], now: datetime, *, warns: bool) -> dict[str, str]:
    """Until when they are, by namespace. Without the permission to list ResourceQuotas, none is known."""
    client, listed = task.client(), listed_namespaces(task, task.options.namespaces or None)

    def read(place: str | None) -> list[dict[str, Any]] | None:
        slim = partial(list_fitting, client, RESOURCE_QUOTA, without_managed_fields, place, labels=MANAGED)
        return if_allowed(slim, None)

    found = run_concurrently(read, [None] if listed is None else listed, client.concurrency)
    if None in found and warns:
        task.warn(
            "the account has no permission to list ResourceQuotas, so no job counts as one of a namespace whose "
            "GPU-hours are used up. Grant it a level with M(gpuctl_rbac)."
        )
    return used_up_until((obj for objects in found for obj in objects or ()), now)


def used_up_until(resource_quotas: Iterable[Mapping[str, Any]], now: datetime) -> dict[str, str]:
    """As gpuctl_budget has recorded it for the period of ``now``."""
    by_namespace: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for obj in resource_quotas:
        by_namespace[obj["metadata"]["namespace"]].append(obj)
    found = {}
    for namespace, own in by_namespace.items():
        budgets = (budget for obj in own if not is_terminating(obj) and (budget := budget_of(obj)))
        budget = min(budgets, default=None)
        tally = tally_of(own, budget, now) if budget and budget.then == STOP_IDLE else None
        if budget and tally and tally.used >= budget.limit:
            found[namespace] = time_as_text(budget.period(now)[1])
    return found
