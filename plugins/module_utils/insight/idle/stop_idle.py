# SPDX-License-Identifier: BSD-2-Clause
"""Namespaces whose GPU-hours are used up, with a budget that says stop_idle. Only administrators write ResourceQuotas,
and each is about its own namespace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from ...cluster.read_jobs import without_managed_fields
from ...kube.errors import if_allowed
from ...kube.resources import RESOURCE_QUOTA, Resource
from ...kube.times import time_as_text
from ...labels import MANAGED
from ...listed_namespaces import list_each
from ...namespaces import listed_namespaces
from ...quotas.counting_budgets import budgets_by_namespace
from ...quotas.gpu_hours import STOP_IDLE, tally_of
from ...task import Task
from ..fitting_lists import list_fitting


def read_used_up(task: Task[Any], now: datetime, *, warns: bool) -> dict[str, str]:
    """Until when they are, by namespace. Without the permission to list ResourceQuotas, none is known."""
    client, listed = task.client(), listed_namespaces(task, task.options.namespaces or None)

    def read(kind: Resource, place: str | None) -> list[Any]:
        slim = partial(list_fitting, client, kind, without_managed_fields, place, labels=MANAGED)
        return if_allowed(slim, [None])

    found = list_each(read, [RESOURCE_QUOTA], listed, client.concurrency)
    if None in found and warns:
        task.warn(
            "the account has no permission to list ResourceQuotas, so no job counts as one of a namespace whose "
            "GPU-hours are used up. Grant it a level with M(gpuctl_rbac)."
        )
    return used_up_until(filter(None, found), now)


def used_up_until(resource_quotas: Iterable[Mapping[str, Any]], now: datetime) -> dict[str, str]:
    """As gpuctl_budget has recorded it for the period of ``now``."""
    found = {}
    for namespace, (own, counts) in budgets_by_namespace(resource_quotas).items():
        budget = counts[0] if counts else None
        tally = tally_of(own, budget, now) if budget and budget.then == STOP_IDLE else None
        if budget and tally and tally.used >= budget.limit:
            found[namespace] = time_as_text(budget.period(now)[1])
    return found
