# SPDX-License-Identifier: BSD-2-Clause
"""A clock that a test moves."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from kubesim.clock import Clock, Handle


class _Timer:
    def __init__(self, fn: Callable[[], object]) -> None:
        self.fn: Callable[[], object] | None = fn

    def cancel(self) -> None:
        self.fn = None


class ManualClock(Clock):
    """Stands still until next_due() moves it to the next callback."""

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
