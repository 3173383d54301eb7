# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_budget: count the GPU-hours of budgets, and limit the namespaces that have used up theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from ...accelerators.hardware import DEFAULT_ACCELERATOR
from ...cluster.declared import read_declared
from ...engine.apply import Executor
from ...engine.changes import diffs_of
from ...kube.concurrency import run_concurrently
from ...kube.errors import KubeError, as_sentence
from ...kube.resources import RESOURCE_QUOTA
from ...labels import MANAGED
from ...listed_namespaces import in_requested_namespaces, list_each, read_permitted, whole_cluster_unless
from ...manifest.problems import abridged
from ...namespaces import listed_namespaces
from ...options import ConcurrencyOptions
from ...quotas.gpu_hours import budget_of
from ...task import ModuleSpec, Task, TaskFailed
from ..usage.cluster_usage import Seen, read_cluster
from ..usage.gpu_usage import DEFAULT_PRICE
from ..usage.usage_options import PricesOptions, given_prices
from .budget_rules import NEAR, USED_UP, Account, accounts_of, budget_summary

_MOST_NAMES = 10


@dataclass(frozen=True, kw_only=True)
class BudgetOptions(PricesOptions, ConcurrencyOptions):
    pass


def run(task: Task[BudgetOptions]) -> dict[str, Any]:
    """A list of ResourceQuotas, those of pods, nodes and histories where there is a budget, and a write for each
    namespace in which something is recorded, limited or lifted."""
    now, prices = datetime.now(timezone.utc), _weights(task.options)
    task, own = in_requested_namespaces(task)
    task, (quotas, seen) = read_permitted(task, partial(_read, prices=prices))
    pools = read_declared(task.client(), task.warn).pools.values() if seen else ()
    hardware = [pool.hardware for pool in pools]
    classes = {(one.device_class, one.accelerator or DEFAULT_ACCELERATOR) for one in hardware if one.device_class}
    accounts = _apply(task, accounts_of(quotas, seen or Seen(), prices, classes, now))
    rows = [account.row for account in accounts]
    _warn(task, rows)
    result = {
        "changed": any(account.plan.changed and not account.error for account in accounts),
        "namespace": own,
        "results": rows,
        "notes": seen.notes if seen else [],
        "diff": task.diff(lambda: [diff for account in accounts for diff in diffs_of(account.plan)]),
        "msg": budget_summary(rows),
    }
    if failed := [f"namespace {each.namespace}: {each.error}" for each in accounts if each.error]:
        raise TaskFailed("\n".join(failed), **{name: value for name, value in result.items() if name != "msg"})
    return result


MODULE = ModuleSpec(BudgetOptions, run, report="budgets", level="administer")


def _weights(options: BudgetOptions) -> dict[str, float]:
    """By how much an hour of each device counts. Without prices, whole devices count the same, and others do not."""
    prices = {name.lower(): price for name, price in given_prices(options).items()} or {DEFAULT_PRICE: 1.0}
    if not prices.get(DEFAULT_PRICE):
        raise TaskFailed(
            "O(prices): no price named default, above 0. Add one: an hour at that price is an hour of a budget."
        )
    return prices


def _read(task: Task[BudgetOptions], prices: Mapping[str, float]) -> tuple[list[dict[str, Any]], Seen | None]:
    client, listed = task.client(), listed_namespaces(task, task.options.namespaces or None)
    with whole_cluster_unless(listed):
        quotas = list_each(partial(client.list_objects, labels=MANAGED), [RESOURCE_QUOTA], listed, client.concurrency)
    if not any(map(budget_of, quotas)):
        return quotas, None
    # Whose a pod is says its namespace. What type of device a job wants counts only where types have prices.
    return quotas, read_cluster(task, owners=set(prices) != {DEFAULT_PRICE}, every_pod=True)


def _apply(task: Task[BudgetOptions], accounts: Sequence[Account]) -> list[Account]:
    """The accounts with what went wrong. One that cannot be written keeps no other from it."""
    if task.check_mode:
        return list(accounts)
    client = task.client()
    executor = Executor(client=client, check_mode=False, gone_timeout=0, warn=task.warn, progress=task.progress)

    def apply(account: Account) -> Account:
        try:
            executor.apply_plan(account.plan)
        except KubeError as error:
            return replace(account, error=as_sentence(str(error)))
        return account

    changed = {each.namespace: each for each in accounts if each.plan.changed}
    done = dict(zip(changed, run_concurrently(apply, list(changed.values()), client.concurrency), strict=True))
    return [done.get(each.namespace, each) for each in accounts]


def _warn(task: Task[BudgetOptions], rows: Sequence[dict[str, Any]]) -> None:
    for state, what in ((NEAR, "nearly used up"), (USED_UP, "used up")):
        names = [f"{row['namespace']} ({row['percent']:.0f} %)" for row in rows if row["state"] == state]
        names += [
            f"{row['namespace']} ({name}, {part['percent']:.0f} %)"
            for row in rows
            for name, part in (row["accelerators"] or {}).items()
            if part["state"] == state != row["state"]
        ]
        if names:
            task.warn(f"the GPU-hours of {abridged(names, _MOST_NAMES)} are {what}.")
