# SPDX-License-Identifier: BSD-2-Clause
"""Check again and again until a condition is met or the time is up: for what is not worth a watch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


def poll(
    condition: Callable[[], T],
    timeout: float,
    delays: Iterator[float],
    *,
    immediate: bool = True,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """The first answer of ``condition`` that is true; after ``timeout`` seconds its last answer, which is false.

    ``delays`` are the seconds between two calls; the last one is cut short so that the last call is at the deadline.
    Unless ``immediate``, the first delay comes before the first call.
    """
    deadline = clock() + timeout
    if not immediate:
        sleep(min(next(delays), timeout))
    while True:
        answer = condition()
        left = deadline - clock()
        if answer or left <= 0:
            return answer
        sleep(min(next(delays), left))


def backoff(first: float, growth: float = 1.0, longest: float = math.inf) -> Iterator[float]:
    """Delays in seconds without end, each ``growth`` times the one before it, up to ``longest``."""
    while True:
        yield first
        first = min(first * growth, longest)
