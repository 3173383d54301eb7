# SPDX-License-Identifier: BSD-2-Clause
"""How many things are under way at once, in which order the answers come, and when it ends."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.concurrency import (
    run_concurrently,
    run_concurrently_until,
)


@pytest.mark.parametrize(("concurrency", "items", "together"), [(1, 5, 1), (3, 5, 3), (10, 4, 4), (10, 1, 1)])
def test_as_many_are_under_way_as_may_be(concurrency: int, items: int, together: int) -> None:
    """Each waits for as many others as there should be: fewer would never meet."""
    everybody, lock = threading.Barrier(together), threading.Lock()
    now, most = 0, 0

    def work(item: int) -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        if item < together:
            everybody.wait(10)
        with lock:
            now -= 1
        return item * item

    assert run_concurrently(work, range(items), concurrency) == [item * item for item in range(items)]
    assert most == together


@pytest.mark.parametrize("concurrency", [1, 2])
def test_nothing_new_is_begun_after_a_result_that_stops(concurrency: int) -> None:
    """With two at a time the second one is under way when the first one stops: it is finished and told."""
    begun, second = [], threading.Event()

    def work(item: str) -> str:
        begun.append(item)
        if item == "b":
            second.set()
        elif concurrency == 2:
            assert second.wait(10)
        return item

    found = run_concurrently_until(lambda result: True, work, "abcdef", concurrency)
    assert found == [*"abcdef"[:concurrency], *[None] * (6 - concurrency)]
    assert sorted(begun) == [*"abcdef"[:concurrency]]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_an_exception_ends_it_too(concurrency: int) -> None:
    def work(item: int) -> int:
        begun.append(item)
        if item == 0:
            raise LookupError("the first")
        gate.wait(0.2)
        return item

    begun: list[int] = []
    gate = threading.Event()
    with pytest.raises(LookupError, match="the first"):
        run_concurrently(work, range(100), concurrency)
    assert len(begun) <= 2 * concurrency
