# SPDX-License-Identifier: BSD-2-Clause
"""What was used of budgets of GPU-hours, and the ResourceQuotas that follow from it. Pure.

A further ResourceQuota limits what a used-up budget no longer has: of several, the tightest counts
(plugin/pkg/admission/resourcequota, CheckRequest), and gpuctl_quota never looks at it. It admits no new pods, and ends
none. A ResourceQuota limits resources, so a budget has limits of accelerators, and none of products (H100). While only
an accelerator is used up, its limit is in a ResourceQuota of its own, whose name the API server tells with a refusal.
What is recorded in it is kept, so that an account that may write the history of its namespace cannot lift it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import Any, NamedTuple

from ...accelerators.catalog import QUOTA_OF_CLASS, catalog, device_class_key
from ...accelerators.hardware import DEFAULT_ACCELERATOR
from ...cluster.status import is_terminating
from ...engine.plan import Action, Plan, Step
from ...engine.planning import step_for
from ...jobs.objects.priority import OPPORTUNISTIC
from ...kube.api_objects import sparse
from ...kube.times import time_as_text
from ...labels import FIELD_MANAGER, GPU_HOURS, MANAGED_BY, priority_class_name
from ...manifest.problems import number_of
from ...quotas.counting_budgets import budgets_by_namespace
from ...quotas.gpu_hours import (
    LOW_PRIORITY,
    MOST_HOURS,
    HoursBudget,
    Tally,
    budget_of,
    budget_row,
    is_budget_object,
    tally_of,
)
from ...quotas.usage import quota_name_of
from ..usage.cluster_usage import Seen, uses_of
from ..usage.gpu_usage import DEFAULT_PRICE, UsageRow, Use

Object = dict[str, Any]
ALL = ""  # in place of the name of an accelerator
OK, NEAR, USED_UP, REMOVED = "ok", "near", "used_up", "removed"
NOTHING, COUNT, LIMIT, LIFT = "none", "count", "limit", "lift"
_RECORDED_STEP = 0.01  # of the limit: what is used is recorded in steps, so that a task is mostly only a read
_SPARED = ("low", OPPORTUNISTIC)  # what goes on with low_priority
_NEGLIGIBLE = 0.05  # hours


class Spent(NamedTuple):
    """The hours of a namespace in a period, in those of the default price. ``running``: of pods that go on. Beside
    them, those of partitions and shares without a price, of pods whose end is estimated, and of other tools' pods.
    ``accelerators``: of the hours, those of each that a budget names."""

    hours: float = 0.0
    running: float = 0.0
    unpriced: float = 0.0
    estimated: float = 0.0
    others: float = 0.0
    accelerators: Mapping[str, float] = {}


@dataclass(frozen=True)
class Account:
    """The budget of a namespace. Without ``quota``, there is none any more. ``objects`` are those of gpuctl_budget."""

    namespace: str
    quota: Object | None
    objects: tuple[Object, ...]
    now: datetime
    spent: Spent = field(default_factory=Spent)
    # The keys of ResourceQuotas for what the cluster offers, each with its accelerator.
    offered: frozenset[tuple[str, str]] = frozenset()
    recorded_since: float = math.inf
    error: str | None = None

    @cached_property
    def budget(self) -> HoursBudget | None:
        return budget_of(self.quota) if self.quota else None

    @cached_property
    def tally(self) -> Tally:
        """What is to be recorded: what is recorded already, if little was used since and it means the same."""
        recorded = tally_of(self.objects, self.budget, self.now) if self.budget else None
        counted = self._with_counted(recorded)
        before, after = _by_name(recorded) if recorded else {}, _by_name(counted)
        if recorded and all(
            name in before
            and after[name] - before[name] < limit * _RECORDED_STEP
            and self._state_at(name, after[name]) == self._state_at(name, before[name])
            for name, limit in self._limits.items()
        ):
            return recorded
        return counted

    def _with_counted(self, recorded: Tally | None) -> Tally:
        """What is counted now, and never less than what is recorded."""
        before, counted = _by_name(recorded) if recorded else {}, {**self.spent.accelerators, ALL: self.spent.hours}
        most = {name: max(counted.get(name, 0.0), before.get(name, 0.0)) for name in self._limits}
        hours = {name: round(min(each, MOST_HOURS), 1) for name, each in most.items()}
        return Tally(hours.pop(ALL), time_as_text(self.now), hours, self.budget.per if self.budget else "")

    @cached_property
    def _limits(self) -> dict[str, int]:
        """By accelerator; that of all is ALL."""
        return {ALL: self.budget.limit, **dict(self.budget.accelerators)} if self.budget else {ALL: 0}

    @property
    def state(self) -> str:
        return self._state_at(ALL, self.tally.used)

    def _state_at(self, name: str, used: float) -> str:
        if self.budget is None:
            return REMOVED
        if used >= self._limits[name]:
            return USED_UP
        return NEAR if used >= self._limits[name] * self.budget.warn_at / 100 else OK

    @cached_property
    def limited(self) -> frozenset[str]:
        """What is limited now: the accelerators that are used up, or ALL."""
        hours = _by_name(self.tally)
        used_up = {name for name in self._limits if self._state_at(name, hours[name]) == USED_UP}
        return frozenset({ALL} if ALL in used_up else used_up)

    @cached_property
    def plan(self) -> Plan:
        """The object of the period before those of others: a namespace is not without it in between."""
        left = {obj["metadata"]["name"]: obj for obj in self.objects}
        steps = []
        if self.budget:
            for name in (*sorted(self.limited - {ALL}), ALL):
                live = left.pop(self.budget.object_name(self.now, name), None)
                steps.append(step_for(self._desired(self.budget, name, live), live))
        steps += [Step(Action.DELETE, {}, obj) for obj in left.values() if not is_terminating(obj)]
        return Plan(self._quota_name or "", self.namespace, "budget", tuple(steps))

    def _desired(self, budget: HoursBudget, name: str, live: Object | None) -> Object:
        """The ResourceQuota of an accelerator, or of ALL, which has what is recorded."""
        hard: dict[str, str] = {}
        scope = None
        if budget.then == LOW_PRIORITY:
            spared = [priority_class_name(priority) for priority in _SPARED]
            scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": spared}]}
        if name in self.limited:
            # Nodes come and go. What was limited stays so.
            keys = {key for key, of in self._keys(budget) if name in (ALL, of)} | _hard(live).keys()
            # Only pods have a priority: a quota with a scope counts no claims of devices.
            hard = {key: "0" for key in sorted(keys) if not (scope and key.endswith(QUOTA_OF_CLASS))}
        return {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {
                "name": budget.object_name(self.now, name),
                "namespace": self.namespace,
                "labels": {MANAGED_BY: FIELD_MANAGER},
                **({} if name else {"annotations": {GPU_HOURS: json.dumps(sparse(self.tally._asdict()))}}),
            },
            "spec": sparse({"hard": hard, "scopeSelector": scope}),
        }

    def _keys(self, budget: HoursBudget) -> Iterator[tuple[str, str]]:
        """The keys of what the cluster offers, the quota limits or the budget names, each with its accelerator."""
        yield from self.offered
        for key in (self.quota or {}).get("spec", {}).get("hard") or {}:
            if row := catalog().row(key.partition(".")[2]):
                yield key, row.profile
            elif key.endswith(QUOTA_OF_CLASS):
                yield key, ALL
        for name, _limit in budget.accelerators:
            if profile := catalog().profiles.get(name):
                yield profile.device.quota_key, name

    @property
    def action(self) -> str:
        before = {obj["metadata"]["name"].partition("-of-")[2] for obj in self.objects if _hard(obj)}
        if self.limited - before and ALL not in before:
            return LIMIT
        if before - self.limited and ALL not in self.limited:
            return LIFT
        return COUNT if self.plan.changed else NOTHING

    @property
    def _quota_name(self) -> str | None:
        return quota_name_of(self.quota) if self.quota else None

    @property
    def row(self) -> dict[str, Any]:
        """As the module returns it: with what is counted now, which is recorded in steps."""
        known = self._with_counted(self.tally)
        row = budget_row(self.budget, known, self.now) if self.budget else dict.fromkeys(_BUDGET_FIELDS)
        for name, part in (row["accelerators"] or {}).items():
            part["state"] = self._state_at(name, known.accelerators[name])
        return {
            "name": self._quota_name,
            "namespace": self.namespace,
            **row,
            "running_hours": round(self.spent.running, 1),
            "ended_hours": round(max(0.0, self.spent.hours - self.spent.running), 1),
            "state": self.state,
            "action": self.action,
            "notes": list(_doubts(self, known)) if self.budget else [],
            "error": self.error,
        }


_BUDGET_FIELDS = ("limit", "per", "then", "used", "left", "percent", "since", "until", "counted_at", "accelerators")


def accounts_of(
    resource_quotas: Iterable[Object],
    seen: Seen,
    prices: Mapping[str, float],
    classes: Iterable[tuple[str, str]],
    now: datetime,
) -> list[Account]:
    """An account for each namespace with a budget, and for each that is left of one. ``classes``: DeviceClasses, with
    their accelerators."""
    by_namespace = sorted(budgets_by_namespace(resource_quotas).items())
    named = {name for _place, (_own, counts) in by_namespace if counts for name, _limit in counts[0].accelerators}
    spent: dict[datetime, dict[str, Spent]] = {}
    offered = frozenset(_offered_keys(seen, classes))
    accounts = []
    for namespace, (found, counts) in by_namespace:
        objects = tuple(obj for obj in found if is_budget_object(obj))
        if counts is None:
            if objects:
                accounts.append(Account(namespace, None, objects, now))
            continue
        budget, quota = counts
        since = budget.period(now)[0]
        if since not in spent:
            spent[since] = spent_by_namespace(seen, since, now, prices, named)
        own = spent[since].get(namespace, Spent())
        recorded_since = seen.recorded_since.get(namespace, math.inf)
        accounts.append(Account(namespace, quota, objects, now, own, offered, recorded_since))
    return accounts


def spent_by_namespace(
    seen: Seen, since: datetime, now: datetime, prices: Mapping[str, float], accelerators: Iterable[str] = ()
) -> dict[str, Spent]:
    """What was used in a period, as gpuctl_usage_info counts it."""
    start, end = since.timestamp(), now.timestamp()
    uses = uses_of(seen, start, end)
    holding = replace(seen, pods=[pod for pod in seen.pods if pod.hold.end is None], runs=[])

    def by_team(some: Iterable[Use]) -> dict[str, UsageRow]:
        rows: dict[str, UsageRow] = {}
        for use in some:
            rows.setdefault(use.owner.namespace, UsageRow(())).add(use, prices)
        return rows

    running, others = by_team(uses_of(holding, start, end)), by_team(use for use in uses if not use.owner.managed)
    parts = {name: by_team(_of_accelerator(use, name) for use in uses) for name in accelerators}
    none = UsageRow(())
    return {
        team: Spent(
            _hours(row, prices), _hours(running.get(team, none), prices), row.unpriced, row.estimated,
            _hours(others.get(team, none), prices),
            {name: _hours(rows.get(team, none), prices) for name, rows in parts.items()},
        )
        for team, row in by_team(uses).items()
    }  # fmt: skip


def _of_accelerator(use: Use, accelerator: str) -> Use:
    rows = {resource: catalog().row(resource) for resource in use.held}
    return replace(use, held={name: use.held[name] for name, row in rows.items() if row and row.profile == accelerator})


def _hours(row: UsageRow, prices: Mapping[str, float]) -> float:
    """In hours of the default price: one of a device that costs twice as much counts twice."""
    return (row.cost or 0.0) / prices[DEFAULT_PRICE]


def _offered_keys(seen: Seen, classes: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The keys of a ResourceQuota that limit all accelerators of the cluster, each with its accelerator."""
    yield catalog().profiles[DEFAULT_ACCELERATOR].device.quota_key, DEFAULT_ACCELERATOR
    for node in (seen.nodes or {}).values():
        yield from ((row.quota_key, row.profile) for resource in node.allocatable if (row := catalog().row(resource)))
    yield from ((device_class_key(name), accelerator) for name, accelerator in classes)


def _doubts(account: Account, known: Tally) -> Iterator[str]:
    """What the figures do not say."""
    spent, since = account.spent, account.budget.period(account.now)[0] if account.budget else account.now
    if account.recorded_since == math.inf and known.used:
        yield "no run is recorded: what is gone is not counted. Schedule the playbook record_history"
    elif since.timestamp() < account.recorded_since < math.inf:
        start = time_as_text(datetime.fromtimestamp(account.recorded_since, timezone.utc))
        yield f"the record of runs begins at {start}: what was gone by then is not counted"
    if spent.estimated > _NEGLIGIBLE:
        yield f"{spent.estimated:,.1f} h are estimated, because the end of pods was not observed"
    if spent.unpriced > _NEGLIGIBLE:
        yield f"{spent.unpriced:,.1f} h of partitions and shares do not count, because they have no price"
    if spent.others > _NEGLIGIBLE:
        yield f"{spent.others:,.1f} h are of pods of other tools, which count while they are there"
    if known.used - spent.hours > max(_NEGLIGIBLE, known.used * _RECORDED_STEP):
        yield f"{known.used:,.1f} h were counted before, of which the record has only {spent.hours:,.1f} h now"


def budget_summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """``3 budgets, 1 used up, 1 nearly, 1 limited now``, of the rows of gpuctl_budget."""
    counts = Counter(row["state"] for row in rows)
    done = Counter(row["action"] for row in rows if row["error"] is None)
    parts = [number_of(len(rows) - counts[REMOVED], "budget")]
    counts["partly"] = sum(
        row["state"] != USED_UP and any(part["state"] == USED_UP for part in (row["accelerators"] or {}).values())
        for row in rows
    )
    words = ((USED_UP, "used up"), ("partly", "partly used up"), (NEAR, "nearly"))
    parts += [f"{counts[state]} {word}" for state, word in words if counts[state]]
    parts += [f"{done[action]} {word}" for action, word in ((LIMIT, "limited now"), (LIFT, "lifted")) if done[action]]
    return ", ".join(parts)


def _by_name(tally: Tally) -> dict[str, float]:
    return {**tally.accelerators, ALL: tally.used}


def _hard(obj: Mapping[str, Any] | None) -> dict[str, str]:
    return ((obj or {}).get("spec") or {}).get("hard") or {}
