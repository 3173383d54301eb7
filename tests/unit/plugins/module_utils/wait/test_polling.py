# SPDX-License-Identifier: BSD-2-Clause
"""When polling reads, how long it sleeps in between, and what it returns."""

from __future__ import annotations

from itertools import islice

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.polling import backoff, poll


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.naps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)

    def now(self) -> float:
        return sum(self.naps)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_first_true_answer_is_returned(clock: Clock) -> None:
    answers = iter((0, 0, 3))
    assert poll(lambda: next(answers), 10, backoff(0.5, 2.0), sleep=clock.sleep, clock=clock.now) == 3
    assert clock.naps == [0.5, 1.0]


def test_it_does_not_sleep_when_the_condition_is_met_at_once(clock: Clock) -> None:
    assert poll(lambda: True, 0, backoff(1), sleep=clock.sleep, clock=clock.now)
    assert clock.naps == []


def test_after_the_timeout_the_last_answer_is_returned(clock: Clock) -> None:
    calls: list[float] = []

    def never() -> bool:
        calls.append(clock.now())
        return False

    assert not poll(never, 2.5, backoff(1), sleep=clock.sleep, clock=clock.now)
    assert calls == [0, 1, 2, 2.5], "the last call is at the deadline"


def test_the_first_call_can_be_delayed(clock: Clock) -> None:
    assert poll(clock.now, 10, backoff(0.25), immediate=False, sleep=clock.sleep, clock=clock.now) == 0.25


def test_delays_grow_to_the_longest_one() -> None:
    assert list(islice(backoff(1, 2, 5), 5)) == [1, 2, 4, 5, 5]
