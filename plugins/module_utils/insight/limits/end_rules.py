# SPDX-License-Identifier: BSD-2-Clause
"""When a notebook or a service has to end, what is done about it, and how it is said. Pure.

What its annotations say is its tenant's. A limit that is none does not count, and that of the pool holds for all of its
jobs, whatever they were submitted with. A job is only paused some time after a warning, which is recorded on it: so
neither a limit that an administrator adds, nor a schedule that was interrupted, ends anything without notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ...accelerators.hardware import PoolHardware
from ...cluster.declared import Declared
from ...cluster.time_limits import (
    declared_seconds,
    noted_seconds,
    noted_time,
    period_start,
    span_text,
)
from ...given_times import seconds_of
from ...jobs.objects.time_limit import pool_limits
from ...kube.times import time_as_text
from ...labels import END_WARNED_AT, EXTENDED_LIMIT, TIME_LIMIT, pool_of_workload
from ...manifest.problems import number_of

NOTHING, WARN, PAUSE = "none", "warn", "pause"


@dataclass(frozen=True)
class Limit:
    """How long a job may run, in seconds. ``pool`` is the one whose limit that is, "" if it is the job's own.
    ``extended``: by gpuctl_extend."""

    seconds: int
    pool: str = ""
    extended: bool = False

    def __str__(self) -> str:
        whose = f" (pool {self.pool})" if self.pool else " (extended)" if self.extended else ""
        return f"{span_text(self.seconds)}{whose}"


@dataclass(frozen=True)
class ServiceEnd:
    """When a job ends: at the end of its limit, or later, when it has had its warning for long enough."""

    limit: Limit
    since: datetime
    at: datetime
    warned_at: datetime | None
    action: str


def pool_of(workload: Mapping[str, Any], declared: Declared) -> tuple[str, PoolHardware]:
    """The pool of a job and what it declares; nothing for one that is not declared, as the nodes without a pool."""
    pool = pool_of_workload(workload)
    return pool, declared.hardware(pool) if pool in declared.pools else PoolHardware()


def limit_of(workload: Mapping[str, Any], kind: str, pool: str, hardware: PoolHardware) -> Limit | None:
    """The limit that counts: that of the job or else of the pool, with what it was extended to, and at most the pool's
    maximum."""
    default, most = (seconds_of(text) if text else None for text in pool_limits(kind, hardware))
    own = declared_seconds(workload)
    declared = own or default
    if declared is None:
        return None
    limit = Limit(declared, "" if own else pool)
    if (extended := noted_seconds(workload, EXTENDED_LIMIT) or 0) > declared:
        limit = Limit(extended, extended=True)
    return Limit(most, pool) if most and limit.seconds > most else limit


def service_end(workload: Mapping[str, Any], limit: Limit, warn_before: float, now: datetime) -> ServiceEnd:
    """When a job ends, and what is to be done about it now. ``warn_before``: seconds, 0 for no warnings."""
    since, notice = period_start(workload, now), timedelta(seconds=warn_before)
    end = since + timedelta(seconds=limit.seconds)
    warned_at = noted_time(workload, END_WARNED_AT) if warn_before else None
    if warned_at and not max(since, end - notice) <= warned_at <= now:  # of another end, or written by someone else
        warned_at = None
    action = NOTHING
    if warn_before and not warned_at:
        action = WARN if now >= end - notice else NOTHING
    elif now >= max(end, warned_at + notice if warned_at else end):
        action = PAUSE
    earliest = (warned_at or now) + notice
    return ServiceEnd(limit, since, max(end, earliest) if action == WARN or warned_at else end, warned_at, action)


def end_reason(end: ServiceEnd) -> str:
    """``ends at 2026-12-01T18:40:00Z, at its time limit of 8h``"""
    if end.action == PAUSE:
        return f"reached its time limit of {end.limit} at {time_as_text(end.at)}"
    return f"ends at {time_as_text(end.at)}, at its time limit of {end.limit}"


def no_limit_reason(workload: Mapping[str, Any]) -> str | None:
    """Why a job with a limit has none that counts; None for one without."""
    if TIME_LIMIT not in (workload["metadata"].get("annotations") or {}):
        return None
    return f"never ends: its annotation {TIME_LIMIT} is no time limit, and its pool has none. Submit it again"


def expire_summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """``3 jobs with a time limit, 1 paused, 1 warned of``, of the rows of gpuctl_expire."""
    if not rows:
        return "no notebook or service has a time limit"
    parts = [f"{number_of(len(rows), 'job')} with a time limit"]
    for action, word in ((PAUSE, "paused"), (WARN, "warned of")):
        if count := sum(row["action"] == action and row["error"] is None for row in rows):
            parts.append(f"{count} {word}")
    return ", ".join(parts)
