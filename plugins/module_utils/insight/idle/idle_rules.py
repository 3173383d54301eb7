# SPDX-License-Identifier: BSD-2-Clause
"""Whether a job uses its accelerators, and what follows. What is not known counts as use. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from ...accelerators.catalog import DEVICES, PARTITIONS, SHARES, catalog
from ...cluster.nodes import devices_of
from ...cluster.related import is_unfinished
from ...kube.times import read_time
from ...manifest.problems import number_of

NOTHING, WARN, CLEAR, PAUSE = "none", "warn", "clear", "pause"
LEAST_COVERAGE = 0.9


@dataclass(frozen=True)
class IdlePolicy:
    """The options. Times are in seconds, ``below`` is a ratio. ``source`` is the policy that has set one of them,
    ``used_up_until`` the end of the used-up budget of GPU-hours that says stop_idle."""

    idle_for: float
    below: float
    grace: float
    acts: bool  # annotate, not only report
    pauses: bool
    names: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()
    source: str = ""
    used_up_until: str = ""


class PodUsage(NamedTuple):
    """What Prometheus knows of a pod: the highest utilization of any device, and the hours of which it is known."""

    peak: float | None = None
    hours: float = 0.0


@dataclass(frozen=True)
class HeldDevices:
    """The devices that the pods of a job hold, and since when. ``pods``: the hours of the devices of each, in the time
    that is looked at."""

    devices: int
    since: datetime
    pods: Mapping[str, float]


@dataclass(frozen=True)
class IdleFinding:
    """What is known of a job. ``reason`` says why it counts as idle or not."""

    idle: bool
    reason: str
    peak: float | None = None
    coverage: float | None = None


def held_devices(pods: Iterable[Mapping[str, Any]], seconds: float, now: datetime) -> HeldDevices | None:
    """What the pods hold, of which the last ``seconds`` are looked at; None if they hold no devices."""
    held = [
        (pod, count)
        for pod in pods
        if (count := measured_devices(pod)) and pod["spec"].get("nodeName") and is_unfinished(pod)
    ]
    starts = [_last_start(pod) for pod, _count in held]
    if not held or any(start is None for start in starts):
        return None
    known = [start for start in starts if start is not None]
    hours = {
        pod["metadata"]["name"]: count * max(min(seconds, (now - start).total_seconds()), 0) / 3600
        for (pod, count), start in zip(held, known, strict=True)
    }
    return HeldDevices(sum(count for _pod, count in held), min(known), hours)


def judge_use(held: HeldDevices, usage: Mapping[str, PodUsage], policy: IdlePolicy, now: datetime) -> IdleFinding:
    """Whether the devices have been idle for the whole time."""
    age = (now - held.since).total_seconds()
    if age < policy.idle_for:
        return IdleFinding(False, f"runs for {span(age)} only, less than {span(policy.idle_for)}")
    found = {pod: usage.get(pod, PodUsage()) for pod in held.pods}
    covered = {pod: min(found[pod].hours, hours) / hours if hours else 0.0 for pod, hours in held.pods.items()}
    coverage = round(min(covered.values()), 3)  # of the pod of which least is known: it may be the one that works
    peaks = [each.peak for each in found.values() if each.peak is not None]
    peak = round(max(peaks), 4) if peaks else None
    if peak is not None and peak >= policy.below:
        return IdleFinding(
            False, f"utilization of up to {percent(peak)} in the last {span(policy.idle_for)}", peak, coverage
        )
    if coverage < LEAST_COVERAGE or peak is None:
        whose = f" of pod {min(covered, key=covered.__getitem__)}" if len(covered) > 1 else ""
        text = f"utilization{whose} is known for {percent(coverage)} of the last {span(policy.idle_for)} only"
        return IdleFinding(False, f"{text}, and what is not known counts as use", peak, coverage)
    return IdleFinding(True, f"at most {percent(peak)} utilization in the last {span(policy.idle_for)}", peak, coverage)


def is_exempt(name: str, kind: str, uid: str, policy: IdlePolicy, exempt_uids: Collection[str]) -> str | None:
    """Why a job is left alone; None if it is not."""
    if kind in policy.kinds:
        return f"kind {kind} is exempt"
    if pattern := next((pattern for pattern in policy.names if fnmatchcase(name, pattern)), None):
        return f"name is exempt: {pattern}"
    return "its labels are exempt" if uid in exempt_uids else None


def next_action(
    finding: IdleFinding, warning: str | None, policy: IdlePolicy, now: datetime, since: datetime | None = None
) -> str:
    """What is done about a job; ``warning`` is the one that was recorded (``warning_text``). One from before its
    containers started or its notebook was used, at ``since``, is of an earlier time."""
    if not policy.acts:
        return NOTHING
    if not finding.idle:
        return CLEAR if warning is not None else NOTHING
    warned_at, _space, until = (warning or "").partition(" ")
    warned = _parse_time(warned_at)
    if warned is None or warned > now or (since and warned < since):
        return WARN
    # The owner was only notified that the job is idle, not that it will be paused.
    if not policy.pauses and policy.used_up_until not in ("", until):
        return WARN
    is_due = (now - warned).total_seconds() >= policy.grace
    return PAUSE if is_due and (policy.pauses or policy.used_up_until) else NOTHING


def warning_text(now: str, policy: IdlePolicy) -> str:
    """When a job was warned of, and the end of the used-up budget if that was the reason."""
    return f"{now} {policy.used_up_until}".strip()


def span(seconds: float) -> str:
    """``45 s``, ``90 min``, ``5 h``, ``3 days``: in the largest unit that gives at least 2."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds)} s"


def percent(ratio: float) -> str:
    return f"{ratio * 100:.3g} %"


def measured_devices(pod: Mapping[str, Any]) -> int:
    """Whole devices, partitions and shares, each of which an exporter measures."""
    rows = catalog().rows_in(devices_of(pod))
    return sum(amount for row, amount in rows if row.kind in (DEVICES, PARTITIONS, SHARES))


def _last_start(pod: Mapping[str, Any]) -> datetime | None:
    """When its containers were last started: a new run of a program has not used anything yet."""
    states = [status.get("state") or {} for status in (pod.get("status") or {}).get("containerStatuses") or ()]
    running = [text for state in states if (text := (state.get("running") or {}).get("startedAt"))]
    times = [time for text in running if (time := _parse_time(text))]
    return max(times, default=None)


def _parse_time(text: str | None) -> datetime | None:
    try:
        return read_time(text) if text else None
    except ValueError:
        return None


def idle_summary(rows: Sequence[Mapping[str, Any]], findings: Sequence[Mapping[str, Any]] = ()) -> str:
    """``2 idle jobs with 5 accelerators, 1 paused; 3 other findings``, of the rows and findings of gpuctl_idle."""
    others = _findings_summary(findings)
    if not rows:
        return f"no job holds accelerators{others}"
    idle = [row for row in rows if row["idle"]]
    devices = number_of(sum(row["devices"] or 0 for row in idle), "accelerator")
    parts = [f"{number_of(len(idle), 'idle job')} with {devices}" if idle else "no idle jobs"]
    for action, word in ((WARN, "warned of"), (PAUSE, "paused"), (CLEAR, "no longer idle")):
        if count := sum(row["action"] == action and row["error"] is None for row in rows):
            parts.append(f"{count} {word}")
    return ", ".join(parts) + others


def _findings_summary(findings: Sequence[Mapping[str, Any]]) -> str:
    """``; 3 other findings, 1 paused, which frees 4 accelerators``"""
    done = [row for row in findings if row["error"] is None]
    words = ((WARN, "warned of"), (PAUSE, "paused"), ("stop", "deleted"), (CLEAR, "well again"))
    counts = [(sum(row["action"] == action for row in done), word) for action, word in words]
    freed = sum(row["gpus"] for row in done if row["action"] in (PAUSE, "stop"))
    parts = [f"{count} {word}" for count, word in counts if count]
    parts += [f"which frees {number_of(freed, 'accelerator')}"] if freed else []
    return "; " + ", ".join([number_of(len(findings), "other finding"), *parts]) if findings else ""
