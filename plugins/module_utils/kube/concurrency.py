# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Several requests in flight at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")


def run_concurrently(work: Callable[[T], R], items: Iterable[T], concurrency: int) -> list[R]:
    """What ``work`` makes of each item, in the order of the items, with at most ``concurrency`` of them at a time.

    Nothing new is begun after an exception; it is raised when what is under way has finished.
    """
    return cast("list[R]", run_concurrently_until(lambda result: False, work, items, concurrency))


def run_concurrently_until(
    stops: Callable[[R], bool], work: Callable[[T], R], items: Iterable[T], concurrency: int
) -> list[R | None]:
    """The same; nothing new is begun after a result that ``stops`` either. None stands for items not begun."""
    # Here: a task that needs one request at a time shall not pay.
    from concurrent.futures import ThreadPoolExecutor, wait

    items = list(items)
    results: list[R | None] = [None] * len(items)
    problems: dict[int, BaseException] = {}
    to_begin, stopped = iter(range(len(items))), False

    def take_turns() -> None:
        """Begin one item after the other: to hand each to the pool by itself costs more than many an item takes.

        Threads do not get the same item, because ``next`` of a range is one step of the interpreter.
        """
        nonlocal stopped
        while not stopped and (number := next(to_begin, None)) is not None:
            try:
                result = results[number] = work(items[number])
            except BaseException as problem:
                problems[number], stopped = problem, True
            else:
                stopped = stopped or stops(result)

    threads = min(concurrency, len(items))
    if threads < 2:
        take_turns()
    else:
        pool = ThreadPoolExecutor(max_workers=threads)
        try:
            wait([pool.submit(take_turns) for _thread in range(threads)])
        except BaseException:  # The task's time is over, or somebody ends it; those of ``work`` are in ``problems``.
            stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()
    if problems:
        raise problems[min(problems)]
    return results
