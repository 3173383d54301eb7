# SPDX-License-Identifier: BSD-2-Clause
"""The accounts of accelerators: who held, used and waited for how many of them in a range of time. Pure.

Held, busy and idle are apart: a device is held from when a pod is bound until the pod ends, whatever it does with it.
What is not measured is neither busy nor idle. Partitions and shares have rows of their own, in their own units:
how much of a device they are depends on the device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from ...accelerators.catalog import DEVICES, PARTITIONS, SHARES, Catalog, DeviceResource, catalog
from ...cluster.pod_times import Hold

GROUPS = ("job", "user", "team", "pool", "sweep", "gpu_type", "month")
NOT_KNOWN = "not known"
OTHERS = "not of gpuctl"
DEFAULT_PRICE = "default"

_COUNTED = (DEVICES, PARTITIONS, SHARES)
_HOUR = 3600.0
_ALL = 0.999  # of what was measured, but for rounding


@dataclass(frozen=True)
class Owner:
    """To whom the use of a pod is charged. What is not known is None; ``sweep`` is None for a job of none, too."""

    namespace: str
    job: str | None = None
    kind: str | None = None
    user: str | None = None
    pool: str | None = None
    sweep: str | None = None
    managed: bool = True
    yields: bool = False  # a job with priority opportunistic


@dataclass(frozen=True)
class Measured:
    """What exporters reported of a pod, in hours of its devices; None where they reported nothing."""

    held: float = 0.0
    queued: float = 0.0
    known: float | None = None  # of which the utilization is known
    idle: float = 0.0
    peak_memory: float | None = None  # bytes, on any device
    energy: float | None = None  # kWh

    def part(self, share: float) -> Measured:
        """The part of one of several pods that had the same name."""
        return replace(
            self,
            held=self.held * share,
            known=None if self.known is None else self.known * share,
            idle=self.idle * share,
            energy=None if self.energy is None else self.energy * share,
        )


@dataclass(frozen=True)
class Use:
    """What one pod used in a range. ``exact``: it is known when it began and ended."""

    owner: Owner
    held: Mapping[str, float]  # resource -> hours
    gpu_type: str | None = None
    queued: float = 0.0
    exact: bool = True
    measured: Measured = Measured()
    pod: str = ""
    uid: str = ""  # of the pod; of one that only Prometheus knows it is not known
    shared: frozenset[str] = frozenset()  # resources that are shares on its node
    given_back: int = 0  # devices, partitions and shares, when the scheduler preempted it in the range
    reclaimed: int = 0  # the same, when gpuctl_idle stopped it in the range
    reclaimed_hours: float = 0.0  # in which it stayed stopped
    month: str = ""  # of the part of the range that this is about, such as 2026-08

    @cached_property
    def counted(self) -> float:
        """Hours of devices, partitions and shares, which is what exporters report."""
        return sum(hours for row, hours in self.rows if row.kind in _COUNTED)

    @cached_property
    def rows(self) -> list[tuple[DeviceResource, float]]:
        """What it held. Where a scheduler shares devices, or the node says that it does, they are shares."""
        found = _rows_of(catalog(), tuple(self.held))
        return [(_as_on_node(row, row.resource in self.shared), self.held[row.resource]) for row in found]


def use_of_hold(hold: Hold, owner: Owner, since: float, until: float, **facts: Any) -> Use:
    """What a pod used within a range."""
    hours, queued = hold.seconds(since, until) / _HOUR, hold.queued_seconds(since, until) / _HOUR
    counted = counted_amount(hold.amounts)
    was_preempted = hold.preempted and hold.start is not None and hold.end is not None and since <= hold.end < until
    return Use(
        owner,
        {resource: hours * amount for resource, amount in hold.amounts.items()},
        queued=queued * counted,
        given_back=counted if owner.yields and was_preempted else 0,
        exact=hold.exact,
        pod=hold.name,
        uid=hold.uid,
        **facts,
    )


def counted_amount(amounts: Mapping[str, int]) -> int:
    """Devices, partitions and shares."""
    return sum(amounts[row.resource] for row in _rows_of(catalog(), tuple(amounts)) if row.kind in _COUNTED)


@lru_cache(maxsize=64)  # Pods hold the same few resources.
def _rows_of(known: Catalog, resources: tuple[str, ...]) -> list[DeviceResource]:
    return [row for row, _one in known.rows_in(dict.fromkeys(resources, 1))]


@dataclass
class UsageRow:
    """The sum of a group."""

    group: tuple[str, ...]
    accelerators: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    rows: dict[str, DeviceResource] = field(default_factory=dict)
    counted: float = 0.0
    queued: float = 0.0
    known: float = 0.0
    idle: float = 0.0
    stuck: float = 0.0
    peak_memory: float | None = None
    energy: float | None = None
    cost: float | None = None
    unpriced: float = 0.0
    estimated: float = 0.0
    opportunistic: float = 0.0
    given_back: int = 0
    reclaimed: int = 0
    reclaimed_hours: float = 0.0
    jobs: set[tuple[str, str | None]] = field(default_factory=set)
    pods: set[tuple[str, str, str]] = field(default_factory=set)  # namespace, name, uid

    def add(self, use: Use, prices: Mapping[str, float]) -> None:
        for row, hours in use.rows:
            self.accelerators[row.resource, row.kind] += hours
            self.rows[row.resource] = row
            if row.kind in _COUNTED:
                price = price_of(row, use.gpu_type, prices)
                self.cost = self.cost if price is None else (self.cost or 0.0) + price * hours
                self.unpriced += hours if price is None else 0.0
        counted, measured = use.counted, use.measured
        self.counted += counted
        self.estimated += 0.0 if use.exact else counted
        self.opportunistic += counted if use.owner.yields else 0.0
        self.given_back += use.given_back
        self.reclaimed += use.reclaimed
        self.reclaimed_hours += use.reclaimed_hours
        self.queued += use.queued
        # Samples are as long as their interval, so they may come to a little more than what was held.
        known = min(measured.known or 0.0, counted)
        idle = min(measured.idle, known)
        self.known += known
        self.idle += idle
        self.stuck += idle if idle >= known * _ALL else 0.0
        self.peak_memory = _combine_known(self.peak_memory, measured.peak_memory, max)
        self.energy = _combine_known(self.energy, measured.energy, lambda one, other: one + other)
        if use.owner.managed and counted:
            self.jobs.add((use.owner.namespace, use.owner.job))
        if counted:
            self.pods.add((use.owner.namespace, use.pod, use.uid))

    def result(self, names: Sequence[str], *, has_prices: bool, is_measured: bool) -> dict[str, Any]:
        """As the module returns it. What is not measured is None, never 0."""
        whole = sum(hours for (_resource, kind), hours in self.accelerators.items() if kind == DEVICES)
        known = is_measured and (self.known > 0 or not self.counted)
        return {
            **dict(zip(names, self.group, strict=True)),
            "gpu_hours": _rounded_hours(whole),
            "accelerators": [
                {**self.rows[resource].columns, "counts": kind, "hours": _rounded_hours(hours)}
                for (resource, kind), hours in sorted(self.accelerators.items())
            ],
            "held_hours": _rounded_hours(self.counted),
            "busy_hours": _rounded_hours(self.known - self.idle) if known else None,
            "idle_hours": _rounded_hours(self.idle) if known else None,
            "stuck_hours": _rounded_hours(self.stuck) if known else None,
            "queued_hours": _rounded_hours(self.queued),
            "coverage": round(min(1.0, self.known / self.counted), 4) if is_measured and self.counted else None,
            "estimated_hours": _rounded_hours(self.estimated),
            "opportunistic_hours": _rounded_hours(self.opportunistic),
            "gpus_given_back": self.given_back,
            "gpus_reclaimed": self.reclaimed,
            "reclaimed_hours": _rounded_hours(self.reclaimed_hours),
            "peak_memory_bytes": None if self.peak_memory is None else int(self.peak_memory),
            "energy_kwh": _rounded_hours(self.energy),
            "cost": (round(self.cost or 0.0, 2) if self.cost is not None or not self.counted else None)
            if has_prices
            else None,
            "unpriced_hours": _rounded_hours(self.unpriced) if has_prices else None,
            "jobs": len(self.jobs),
            "pods": len(self.pods),
        }


def usage_rows(
    uses: Iterable[Use], group_by: Sequence[str], prices: Mapping[str, float]
) -> tuple[list[UsageRow], UsageRow]:
    """The groups, those that held most first, those of each month after the other, and the sum of all."""
    groups: dict[tuple[str, ...], UsageRow] = {}
    total = UsageRow(())
    for use in uses:
        key = tuple(group_name(use, name) for name in group_by)
        groups.setdefault(key, UsageRow(key)).add(use, prices)
        total.add(use, prices)
    month = group_by.index("month") if "month" in group_by else None
    return sorted(
        groups.values(), key=lambda row: ("" if month is None else row.group[month], -row.counted, row.group)
    ), total


def group_name(use: Use, group: str) -> str:
    """The value of a group, as it is shown."""
    owner = use.owner
    if not owner.managed and group in ("job", "user", "sweep"):
        return OTHERS
    values: dict[str, str | None] = {
        "job": f"{owner.namespace}/{owner.job}" if owner.job else None,
        "user": owner.user,
        "team": owner.namespace,
        "pool": owner.pool,
        "sweep": f"{owner.namespace}/{owner.sweep}" if owner.sweep else "none",
        "gpu_type": use.gpu_type,
        "month": use.month,
    }
    return values[group] or NOT_KNOWN


def price_of(row: DeviceResource, gpu_type: str | None, prices: Mapping[str, float]) -> float | None:
    """The price of an hour: of the resource, else for whole devices of their type, else the default one."""
    named = {name.lower(): price for name, price in prices.items()}
    names = [row.resource, *([row.partition] if row.partition else [])]
    if row.kind == DEVICES:
        names = [*([gpu_type] if gpu_type else []), row.resource, DEFAULT_PRICE]
    return next((named[name.lower()] for name in names if name.lower() in named), None)


def with_measurements(uses: Iterable[Use], measured: Mapping[tuple[str, str], Measured], slack: float) -> list[Use]:
    """The uses with what exporters reported of their pods, by namespace and pod.

    Pods of a StatefulSet have the same name one after the other, and share what was reported by how long each held.
    Where the end of a pod is unknown, and Prometheus has seen it hold for over ``slack`` hours longer, that counts.
    """
    by_pod: dict[tuple[str, str], list[Use]] = defaultdict(list)
    for use in uses:
        by_pod[use.owner.namespace, use.pod].append(use)
    found: list[Use] = []
    for key, own in by_pod.items():
        reported = measured.get(key)
        found += own if reported is None else _measured_uses(own, reported, slack)
    return found


def _measured_uses(own: Sequence[Use], reported: Measured, slack: float) -> list[Use]:
    missing = reported.held - sum(use.counted for use in own)
    longest = max((use for use in own if not use.exact and use.counted), key=lambda use: use.counted, default=None)
    if longest is not None and missing > slack:
        factor = (longest.counted + missing) / longest.counted
        longer = replace(longest, held={resource: hours * factor for resource, hours in longest.held.items()})
        own = [longer if use is longest else use for use in own]
    held = sum(use.counted for use in own)
    return [replace(use, measured=reported.part(use.counted / held)) for use in own] if held else list(own)


def _as_on_node(row: DeviceResource, is_shared: bool) -> DeviceResource:
    return replace(row, kind=SHARES) if is_shared and row.kind == DEVICES else row


def _combine_known(one: float | None, other: float | None, both: Callable[[float, float], float]) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return both(one, other)


def _rounded_hours(hours: float | None) -> float | None:
    return None if hours is None else round(hours, 4)
