# SPDX-License-Identifier: BSD-2-Clause
"""How many calls run at once, the order of their results, and what stops them."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.concurrency import (
    run_concurrently,
    run_concurrently_until,
)


@pytest.mark.parametrize(("concurrency", "items", "expected"), [(1, 5, 1), (3, 5, 3), (10, 4, 4), (10, 1, 1)])
def test_the_limit_is_used_and_kept(concurrency: int, items: int, expected: int) -> None:
    """The calls wait for each other: fewer than the limit at a time would never finish."""
    barrier, lock = threading.Barrier(expected), threading.Lock()
    now, most = 0, 0

    def work(item: int) -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        if item < expected:
            barrier.wait(10)
        with lock:
            now -= 1
        return item * item

    assert run_concurrently(work, range(items), concurrency) == [item * item for item in range(items)]
    assert most == expected


@pytest.mark.parametrize("concurrency", [1, 2])
def test_no_call_starts_after_a_result_that_stops(concurrency: int) -> None:
    """With two at a time the second call is running when the first one stops: its result is kept."""
    started, second = [], threading.Event()

    def work(item: str) -> str:
        started.append(item)
        if item == "b":
            second.set()
        elif concurrency == 2:
            assert second.wait(10)
        return item

    found = run_concurrently_until(lambda result: True, work, "abcdef", concurrency)
    assert found == [*"abcdef"[:concurrency], *[None] * (6 - concurrency)]
    assert sorted(started) == [*"abcdef"[:concurrency]]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_no_call_starts_after_an_exception(concurrency: int) -> None:
    def work(item: int) -> int:
        started.append(item)
        if item == 0:
            raise LookupError("the first")
        gate.wait(0.2)
        return item

    started: list[int] = []
    gate = threading.Event()
    with pytest.raises(LookupError, match="the first"):
        run_concurrently(work, range(100), concurrency)
    assert len(started) <= 2 * concurrency
