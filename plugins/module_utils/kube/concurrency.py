# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Several requests under way at once: how many that may be, and the one way to do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")


def concurrency_argument_spec() -> dict[str, dict[str, Any]]:
    """The option of every module that writes many objects; documented in the doc fragment ``concurrency``."""
    return {"concurrency": {"type": "int", "default": 10}}


def side_by_side(work: Callable[[T], R], items: Iterable[T], concurrency: int) -> list[R]:
    """What ``work`` makes of each item, in the order of the items, with at most ``concurrency`` of them at a time.

    Nothing new is begun after an exception; it is raised when what is under way has finished.
    """
    return cast("list[R]", side_by_side_until(lambda result: False, work, items, concurrency))


def side_by_side_until(
    stops: Callable[[R], bool], work: Callable[[T], R], items: Iterable[T], concurrency: int
) -> list[R | None]:
    """The same; nothing new is begun after a result that ``stops`` either. None stands for items not begun."""
    # Here: a task that needs one request at a time shall not pay.
    from concurrent.futures import ThreadPoolExecutor, wait

    items = list(items)
    stopped = False

    def begin(item: T) -> R | None:
        nonlocal stopped
        if stopped:
            return None
        try:
            result = work(item)
        except BaseException:
            stopped = True
            raise
        stopped = stopped or stops(result)
        return result

    if len(items) < 2 or concurrency == 1:
        return [begin(item) for item in items]
    pool = ThreadPoolExecutor(max_workers=min(concurrency, len(items)))
    try:
        futures = [pool.submit(begin, item) for item in items]
        wait(futures)
    except BaseException:  # Not of ``work``, whose are in the futures: the task's time is over, or somebody ends it.
        stopped = True
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return [future.result() for future in futures]
