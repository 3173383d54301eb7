# SPDX-License-Identifier: BSD-2-Clause
"""The range of time that curves of a job cover: what the options say, within the life of the job. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timezone

from ...given_times import InvalidTime, duration, moment
from ...kube.times import time_as_text

MOST_STEPS = 11_000
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
_POINTS = 120  # as many as a screen shows
_DEFAULT_LENGTH = 86_400.0
_LONGEST = 366 * 86_400.0


@dataclass(frozen=True)
class Life:
    """When a job was created, and when it has ended, in seconds since 1970."""

    created: float
    ended: float | None = None


@dataclass(frozen=True)
class MetricsRange:
    """Seconds since 1970, and between two points."""

    start: float
    end: float
    step: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def steps(self) -> int:
        return math.floor(self.seconds / self.step + 1e-9) + 1

    @property
    def first(self) -> float:
        """The time of the first point; the last one is at the end."""
        return self.end - (self.steps - 1) * self.step


def metrics_range(start: str | None, end: str | None, step: str | None, life: Life | None, now: float) -> MetricsRange:
    """The range of the options. Without a start, it is the last day of it, or what the job has lived of that.

    Raises InvalidTime.
    """
    last = moment("end", end, now) if end else now
    first = moment("start", start, now) if start else None
    if first is not None and first >= last:
        raise InvalidTime(f"O(start) is not before O(end): {as_text(first)}, {as_text(last)}. Correct one of them.")
    if last > now:
        last = max(now, first or now)
    if life is not None:
        last, first = _life_within(life, first, last, now)
    if first is None:
        first = last - _DEFAULT_LENGTH
        first = max(first, life.created) if life else first
    if last - first > _LONGEST:
        raise InvalidTime("the range is longer than a year. Choose a later O(start) or an earlier O(end).")
    return MetricsRange(first, last, _step_seconds(step, last - first))


def as_text(time: float) -> str:
    return time_as_text(datetime.fromtimestamp(time, timezone.utc))


def _life_within(life: Life, first: float | None, last: float, now: float) -> tuple[float, float | None]:
    ended = life.ended if life.ended is not None else now
    if last < life.created:
        raise InvalidTime(
            f"the range ends before the job was created: {as_text(last)}, {as_text(life.created)}. Choose a later "
            f"O(end)."
        )
    if first is not None and first > ended:
        raise InvalidTime(
            f"the range starts after the job has ended: {as_text(first)}, {as_text(ended)}. Choose an earlier O(start)."
        )
    return min(last, max(ended, life.created)), None if first is None else max(first, life.created)


def _step_seconds(text: str | None, seconds: float) -> float:
    if not text or text == "auto":
        return float(next((step for step in _STEPS if seconds / step <= _POINTS), _STEPS[-1]))
    step = duration("step", text)
    if seconds / step > MOST_STEPS * 10:
        raise InvalidTime(f"O(step): {text} makes too many points of this range. Choose a longer one, or V(auto).")
    return step
