# SPDX-License-Identifier: BSD-2-Clause
"""What was used of budgets of GPU-hours, and the ResourceQuotas that follow from it. Pure.

A further ResourceQuota limits what a used-up budget no longer has: of several, the tightest counts
(plugin/pkg/admission/resourcequota, CheckRequest), and gpuctl_quota never looks at it. It admits no new pods, and ends
none. What is recorded in it is kept, so that an account that may write the history of its namespace cannot lift it.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
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
from ..usage.gpu_usage import DEFAULT_PRICE, UsageRow, Use, usage_rows

Object = dict[str, Any]
OK, NEAR, USED_UP, REMOVED = "ok", "near", "used_up", "removed"
NOTHING, COUNT, LIMIT, LIFT = "none", "count", "limit", "lift"
_RECORDED_STEP = 0.01  # of the limit: what is used is recorded in steps, so that a task is mostly only a read
_SPARED = ("low", OPPORTUNISTIC)  # what goes on with low_priority
_NEGLIGIBLE = 0.05  # hours


class Spent(NamedTuple):
    """The hours of a namespace in a period, in those of the default price. ``running``: of pods that go on. Beside
    them, those of partitions and shares without a price, of pods whose end is estimated, and of other tools' pods."""

    hours: float = 0.0
    running: float = 0.0
    unpriced: float = 0.0
    estimated: float = 0.0
    others: float = 0.0


@dataclass(frozen=True)
class Account:
    """The budget of a namespace. Without ``quota``, there is none any more. ``objects`` are those of gpuctl_budget."""

    namespace: str
    quota: Object | None
    objects: tuple[Object, ...]
    now: datetime
    spent: Spent = field(default_factory=Spent)
    offered: frozenset[str] = frozenset()  # the keys of ResourceQuotas for what the cluster offers
    recorded_since: float = math.inf
    error: str | None = None

    @cached_property
    def budget(self) -> HoursBudget | None:
        return budget_of(self.quota) if self.quota else None

    @cached_property
    def tally(self) -> Tally:
        """What is to be recorded: what is recorded already, if little was used since and it means the same."""
        recorded = tally_of(self.objects, self.budget, self.now) if self.budget else None
        hours = round(min(max(self.spent.hours, recorded.used if recorded else 0.0), MOST_HOURS), 1)
        step = self.budget.limit * _RECORDED_STEP if self.budget else 0.0
        if recorded and hours - recorded.used < step and self._state_at(hours) == self._state_at(recorded.used):
            return recorded
        return Tally(hours, time_as_text(self.now))

    @property
    def state(self) -> str:
        return self._state_at(self.tally.used)

    def _state_at(self, used: float) -> str:
        if self.budget is None:
            return REMOVED
        if used >= self.budget.limit:
            return USED_UP
        return NEAR if used >= self.budget.limit * self.budget.warn_at / 100 else OK

    @cached_property
    def plan(self) -> Plan:
        """The object of the period before those of others: a namespace is not without it in between."""
        left = {obj["metadata"]["name"]: obj for obj in self.objects}
        steps = []
        if self.budget:
            live = left.pop(self.budget.object_name(self.now), None)
            steps.append(step_for(self._desired(self.budget, live), live))
        steps += [Step(Action.DELETE, {}, obj) for obj in left.values() if not is_terminating(obj)]
        return Plan(self._quota_name or "", self.namespace, "budget", tuple(steps))

    def _desired(self, budget: HoursBudget, live: Object | None) -> Object:
        hard: dict[str, str] = {}
        scope = None
        if budget.then == LOW_PRIORITY:
            spared = [priority_class_name(priority) for priority in _SPARED]
            scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": spared}]}
        if self.state == USED_UP:
            own = (self.quota or {}).get("spec", {}).get("hard") or {}
            named = {key for key in own if key.endswith(QUOTA_OF_CLASS) or catalog().row(key.partition(".")[2])}
            # Nodes come and go. What was limited stays so.
            keys = named | self.offered | _hard(live).keys()
            # Only pods have a priority: a quota with a scope counts no claims of devices.
            hard = {key: "0" for key in sorted(keys) if not (scope and key.endswith(QUOTA_OF_CLASS))}
        return {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {
                "name": budget.object_name(self.now),
                "namespace": self.namespace,
                "labels": {MANAGED_BY: FIELD_MANAGER},
                "annotations": {GPU_HOURS: json.dumps(self.tally._asdict())},
            },
            "spec": sparse({"hard": hard, "scopeSelector": scope}),
        }

    @property
    def action(self) -> str:
        before, after = any(map(_hard, self.objects)), any(_hard(step.desired) for step in self.plan.steps)
        if before == after:
            return COUNT if self.plan.changed else NOTHING
        return LIMIT if after else LIFT

    @property
    def _quota_name(self) -> str | None:
        return quota_name_of(self.quota) if self.quota else None

    @property
    def row(self) -> dict[str, Any]:
        """As the module returns it: with what is counted now, which is recorded in steps."""
        used = min(max(self.spent.hours, self.tally.used), MOST_HOURS)
        known = Tally(round(used, 1), time_as_text(self.now))
        return {
            "name": self._quota_name,
            "namespace": self.namespace,
            **(budget_row(self.budget, known, self.now) if self.budget else dict.fromkeys(_BUDGET_FIELDS)),
            "running_hours": round(self.spent.running, 1),
            "ended_hours": round(max(0.0, self.spent.hours - self.spent.running), 1),
            "state": self.state,
            "action": self.action,
            "notes": list(_doubts(self, known)) if self.budget else [],
            "error": self.error,
        }


_BUDGET_FIELDS = ("limit", "per", "then", "used", "left", "percent", "since", "until", "counted_at")


def accounts_of(
    resource_quotas: Iterable[Object],
    seen: Seen,
    prices: Mapping[str, float],
    classes: Iterable[str],
    now: datetime,
) -> list[Account]:
    """An account for each namespace with a budget, and for each that is left of one. ``classes``: DeviceClasses."""
    by_namespace: dict[str, list[Object]] = defaultdict(list)
    for obj in resource_quotas:
        by_namespace[obj["metadata"]["namespace"]].append(obj)
    spent: dict[datetime, dict[str, Spent]] = {}
    offered = frozenset(_offered_keys(seen, classes))
    accounts = []
    for namespace, found in sorted(by_namespace.items()):
        objects = tuple(obj for obj in found if is_budget_object(obj))
        # There are two after a race of two tasks, which both were told of.
        budgets = [(budget, obj) for obj in found if (budget := budget_of(obj)) and not is_terminating(obj)]
        if not budgets:
            if objects:
                accounts.append(Account(namespace, None, objects, now))
            continue
        budget, quota = min(budgets, key=lambda each: each[0])
        since = budget.period(now)[0]
        if since not in spent:
            spent[since] = spent_by_namespace(seen, since, now, prices)
        own = spent[since].get(namespace, Spent())
        recorded_since = seen.recorded_since.get(namespace, math.inf)
        accounts.append(Account(namespace, quota, objects, now, own, offered, recorded_since))
    return accounts


def spent_by_namespace(seen: Seen, since: datetime, now: datetime, prices: Mapping[str, float]) -> dict[str, Spent]:
    """What was used in a period, as gpuctl_usage_info counts it."""
    start, end = since.timestamp(), now.timestamp()
    uses = uses_of(seen, start, end)
    holding = replace(seen, pods=[pod for pod in seen.pods if pod.hold.end is None], runs=[])

    def by_team(some: Iterable[Use]) -> dict[str, UsageRow]:
        return {row.group[0]: row for row in usage_rows(some, ["team"], prices)[0]}

    running, others = by_team(uses_of(holding, start, end)), by_team(use for use in uses if not use.owner.managed)
    none = UsageRow(())
    return {
        team: Spent(
            _hours(row, prices), _hours(running.get(team, none), prices), row.unpriced, row.estimated,
            _hours(others.get(team, none), prices),
        )
        for team, row in by_team(uses).items()
    }  # fmt: skip


def _hours(row: UsageRow, prices: Mapping[str, float]) -> float:
    """In hours of the default price: one of a device that costs twice as much counts twice."""
    return (row.cost or 0.0) / prices[DEFAULT_PRICE]


def _offered_keys(seen: Seen, classes: Iterable[str]) -> Iterator[str]:
    """The keys of a ResourceQuota that limit all accelerators of the cluster."""
    yield catalog().profiles[DEFAULT_ACCELERATOR].device.quota_key
    for node in (seen.nodes or {}).values():
        yield from (row.quota_key for resource in node.allocatable if (row := catalog().row(resource)))
    yield from map(device_class_key, classes)


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
    parts += [f"{counts[state]} {word}" for state, word in ((USED_UP, "used up"), (NEAR, "nearly")) if counts[state]]
    parts += [f"{done[action]} {word}" for action, word in ((LIMIT, "limited now"), (LIFT, "lifted")) if done[action]]
    return ", ".join(parts)


def _hard(obj: Mapping[str, Any] | None) -> dict[str, str]:
    return ((obj or {}).get("spec") or {}).get("hard") or {}
