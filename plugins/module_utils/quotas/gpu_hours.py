# SPDX-License-Identifier: BSD-2-Clause
"""Budgets of GPU-hours: their periods, and what is recorded of their use. Pure.

The ResourceQuota of a quota has the budget in an annotation, and a further one, of gpuctl_budget, what is used in a
period. Its limits are empty until the budget is used up. While only that of an accelerator is, another ResourceQuota
limits that one. Tenants may list all of them, and write none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ..kube.times import time_as_text
from ..labels import DNS_LABEL, GPU_HOURS, GPU_HOURS_UNTIL, QUOTA, is_managed

Object = Mapping[str, Any]
REFUSE, LOW_PRIORITY, STOP_IDLE = "refuse", "low_priority", "stop_idle"
MOST_HOURS = 1e12  # what is recorded of runs may be anything
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


class HoursBudget(NamedTuple):
    """As the manifest of a quota has it; ``warn_at`` in percent. ``accelerators``: the limits of some, by name."""

    limit: int
    per: str
    warn_at: int
    then: str
    accelerators: tuple[tuple[str, int], ...] = ()

    def period(self, now: datetime) -> tuple[datetime, datetime]:
        """From when to when, by the calendar: everybody knows when a month ends, and no period drifts."""
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        if self.per == "month":
            first = day.replace(day=1)
            return first, (first + timedelta(days=31)).replace(day=1)
        first = day - timedelta(days=day.weekday()) if self.per == "week" else day
        return first, first + timedelta(days=7 if self.per == "week" else 1)

    def object_name(self, now: datetime, accelerator: str = "") -> str:
        """The ResourceQuota of the period, or of one accelerator in it. A refusal of the API server names it, and so
        says until when it holds, and for what."""
        until, of = self.period(now)[1], f"-of-{accelerator}" if accelerator else ""
        return f"{GPU_HOURS_UNTIL}{until:%Y-%m-%d}{'-low' if self.then == LOW_PRIORITY else ''}{of}"


class Tally(NamedTuple):
    """What was used of a budget in the period of its object, and when that was counted."""

    used: float
    at: str
    accelerators: Mapping[str, float] = {}
    per: str = ""


def budget_of(resource_quota: Object) -> HoursBudget | None:
    """The budget that a quota of ours declares; None for what is none, since a person may have edited it."""
    if not is_managed(resource_quota) or QUOTA not in (resource_quota["metadata"].get("labels") or {}):
        return None
    found = _annotation(resource_quota)
    limit: Any = found.get("limit")
    warn_at = str(found.get("warn_at", "")).removesuffix("%")
    known = found.get("per") in ("day", "week", "month") and found.get("then") in (REFUSE, LOW_PRIORITY, STOP_IDLE)
    if not (known and warn_at.isascii() and warn_at.isdigit()):
        return None
    own = found.get("accelerators", {})
    if not isinstance(own, dict) or not all(map(_is_limit, (limit, *own.values()))):
        return None
    if not all(re.fullmatch(DNS_LABEL, name) for name in own):
        return None
    return HoursBudget(limit, found["per"], int(warn_at[:3]), found["then"], tuple(sorted(own.items())))


def is_budget_object(resource_quota: Object) -> bool:
    """Whether it is one of gpuctl_budget, of any period."""
    return is_managed(resource_quota) and resource_quota["metadata"]["name"].startswith(GPU_HOURS_UNTIL)


def tally_of(resource_quotas: Iterable[Object], budget: HoursBudget, now: datetime) -> Tally | None:
    """The highest one of the period: what is used never becomes less. After ``then`` has changed, there are two. One of
    another ``per``, whose period ended on the same day, does not count."""
    name = budget.object_name(now).removesuffix("-low")
    own = (obj for obj in resource_quotas if obj["metadata"]["name"].removesuffix("-low") == name)
    found = [tally for obj in own if is_budget_object(obj) and (tally := _tally(obj))]
    tallies = [tally for tally in found if tally.per in ("", budget.per)]
    names = sorted({name for each in tallies for name in each.accelerators})
    most = {name: max(each.accelerators.get(name, 0.0) for each in tallies) for name in names}
    return max(tallies, key=lambda each: each[:2])._replace(accelerators=most) if tallies else None


def gpu_hours_row(resource_quota: Object, namespace_quotas: Iterable[Object], now: datetime) -> dict[str, Any] | None:
    """The budget of a quota, and what was left of it when gpuctl_budget last counted; None without a budget."""
    budget = budget_of(resource_quota)
    return budget_row(budget, tally_of(namespace_quotas, budget, now), now) if budget else None


def budget_row(budget: HoursBudget, tally: Tally | None, now: datetime) -> dict[str, Any]:
    """As modules return it."""
    since, until = budget.period(now)
    own = tally.accelerators if tally else {}
    return {
        "limit": budget.limit,
        "per": budget.per,
        "then": budget.then,
        **_used(budget.limit, tally.used if tally else None),
        "since": time_as_text(since),
        "until": time_as_text(until),
        "counted_at": tally and tally.at,
        "accelerators": {name: {"limit": limit, **_used(limit, own.get(name))} for name, limit in budget.accelerators},
    }


def _used(limit: int, used: float | None) -> dict[str, float | None]:
    if used is None:
        return dict.fromkeys(("used", "left", "percent"))
    return {"used": used, "left": round(max(0.0, limit - used), 1), "percent": round(100 * used / limit, 1)}


def _is_limit(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_HOURS


def _is_hours(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MOST_HOURS  # NaN is not.


def _tally(obj: Object) -> Tally | None:
    found = _annotation(obj)
    used: Any = found.get("used")
    at, own = found.get("at"), found.get("accelerators")
    if not _is_hours(used) or not isinstance(at, str) or not _TIME.fullmatch(at):
        return None
    own = own if isinstance(own, dict) else {}
    hours = {name: float(value) for name, value in own.items() if _is_hours(value)}
    return Tally(float(used), at, hours, str(found.get("per", "")))


def _annotation(obj: Object) -> dict[str, Any]:
    text = (obj["metadata"].get("annotations") or {}).get(GPU_HOURS, "")
    try:
        found = json.loads(text) if len(text) < 10_000 else {}
    except (ValueError, RecursionError):
        found = {}
    return found if isinstance(found, dict) else {}
