# SPDX-License-Identifier: BSD-2-Clause
"""The time of a cluster: the real one, or one that a test moves."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Protocol


class Handle(Protocol):
    def cancel(self) -> None: ...


class Clock:
    """Wall-clock time; call_later needs the running loop of the cluster (set by Cluster.start)."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def call_later(self, seconds: float, fn: Callable[[], object]) -> Handle:
        loop = self.loop or asyncio.get_running_loop()
        return loop.call_later(max(0.0, seconds), fn)


class _Timer:
    def __init__(self, fn: Callable[[], object]) -> None:
        self.fn: Callable[[], object] | None = fn

    def cancel(self) -> None:
        self.fn = None


class ManualClock(Clock):
    """Stands still until next_due() moves it to the next callback, for tests of controllers without a server."""

    def __init__(self, start: datetime | None = None) -> None:
        super().__init__()
        self._now = start or datetime(2026, 1, 1, tzinfo=timezone.utc)
        self._timers: list[tuple[datetime, int, _Timer]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        return self._now

    def call_later(self, seconds: float, fn: Callable[[], object]) -> Handle:
        timer = _Timer(fn)
        heapq.heappush(self._timers, (self._now + timedelta(seconds=max(0.0, seconds)), next(self._order), timer))
        return timer

    def next_due(self, limit: datetime) -> bool:
        """Move to the next timer not after `limit` and run it; False when there is none (time is `limit` then)."""
        if not self._timers or self._timers[0][0] > limit:
            self._now = max(self._now, limit)
            return False
        due, _, timer = heapq.heappop(self._timers)
        self._now = max(self._now, due)
        if timer.fn is not None:
            timer.fn()
        return True


def rfc3339(moment: datetime) -> str:
    """metav1.Time as JSON: whole seconds, UTC."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """metav1.MicroTime as JSON."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """Read a time of the API; ValueError when it is none."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
