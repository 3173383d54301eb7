# SPDX-License-Identifier: BSD-2-Clause
"""The time of a cluster. Tests of controllers put a clock in its place that they move themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Protocol


class Handle(Protocol):
    def cancel(self) -> None: ...


class Clock:
    """This machine's time, less `behind`; call_later needs the running loop of the cluster (set by Cluster.start)."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.behind = timedelta()

    def now(self) -> datetime:
        return datetime.now(timezone.utc) - self.behind

    def call_later(self, seconds: float, fn: Callable[[], object]) -> Handle:
        loop = self.loop or asyncio.get_running_loop()
        return loop.call_later(max(0.0, seconds), fn)


def rfc3339(moment: datetime) -> str:
    """metav1.Time as JSON: whole seconds, UTC."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """metav1.MicroTime as JSON."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def rfc3339_nano(moment: datetime) -> str:
    """The timestamp of a log line (pkg/kubelet/kuberuntime/logs, timeFormatOut): always nine digits."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


def parse_time(text: str) -> datetime:
    """Read a time of the API; ValueError when it is none."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def human_duration(seconds: float) -> str:
    """apimachinery pkg/util/duration, HumanDuration: at most two units, coarser the longer it is."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = whole // 3600
    if hours < 8:
        left = minutes % 60
        return f"{hours}h{left}m" if left else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days, left = divmod(hours, 24)
    if days < 8:
        return f"{days}d{left}h" if left else f"{days}d"
    if days < 365 * 2:
        return f"{days}d"
    years, left = divmod(days, 365)
    return (f"{years}y{left}d" if left else f"{years}y") if years < 8 else f"{years}y"
