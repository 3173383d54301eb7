# SPDX-License-Identifier: BSD-2-Clause
"""Run several requests at once, up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")


def run_concurrently(
    work: Callable[[T], R], items: Iterable[T], concurrency: int, done: Callable[[], object] = lambda: None
) -> list[R]:
    """The results of ``work`` for all items, in their order, with at most ``concurrency`` calls at a time.

    After an exception no further call starts; it is raised once the running ones have returned. ``done`` is called
    after each call, in its thread.
    """
    return cast("list[R]", run_concurrently_until(lambda result: False, work, items, concurrency, done))


def run_concurrently_until(
    stops: Callable[[R], bool],
    work: Callable[[T], R],
    items: Iterable[T],
    concurrency: int,
    done: Callable[[], object] = lambda: None,
) -> list[R | None]:
    """Like ``run_concurrently``, but a result that ``stops`` also prevents further calls: None for their items."""
    # Imported here because many tasks send one request at a time.
    items = list(items)
    results: list[R | None] = [None] * len(items)
    problems: dict[int, BaseException] = {}
    pending, stopped = iter(range(len(items))), False

    def run_pending() -> None:
        # A future for each item would cost more than most items take. ``next`` of a range iterator is atomic.
        nonlocal stopped
        while not stopped and (number := next(pending, None)) is not None:
            try:
                result = results[number] = work(items[number])
                done()
            except BaseException as problem:
                problems[number], stopped = problem, True
            else:
                stopped = stopped or stops(result)

    threads = min(concurrency, len(items))
    if threads < 2:
        run_pending()
    else:
        pool = ThreadPoolExecutor(max_workers=threads)
        try:
            wait([pool.submit(run_pending) for _thread in range(threads)])
        except BaseException:  # A timeout or an interrupt of the task; those of ``work`` are in ``problems``.
            stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()
    if problems:
        raise problems[min(problems)]
    return results
