# SPDX-License-Identifier: BSD-2-Clause
"""What a task shows while it runs: how far it is, and lines that it prints itself.

A module process can show nothing before it ends; the action plugins have a screen (plugin_utils/terminal.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from threading import Lock
from typing import Protocol, TypeAlias

from .kube.limits import size_text
from .manifest.problems import number_of
from .printable import one_line

Line: TypeAlias = "str | Callable[[], str]"
"""A string, or a function that returns one: it is only called if a line is due."""
Report: TypeAlias = "Callable[[Line], object]"

QUIET = 2.0  # seconds without a line: most tasks are done by then
RARELY = 30.0  # seconds between two lines where each stays


class ProgressReporter:
    """Shows a line about a task, at most every ``interval`` seconds. May be called at any time, from any thread.

    It needs no thread of its own: code that waits or works calls it as often as there is something to say.
    """

    def __init__(
        self,
        show: Callable[[str], object] = lambda line: None,
        interval: float = RARELY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._show = show
        self._interval = interval
        self._clock = clock
        self._due = clock() + QUIET
        self._lock = Lock()

    def __call__(self, line: Line) -> float:
        """Returns the seconds until the next line is due."""
        with self._lock:
            left = self._due - self._clock()
            if left > 0:
                return left
            self._due = self._clock() + self._interval
        self._show(one_line(line if isinstance(line, str) else line()))
        return self._interval


def silent(line: Line) -> None:
    """Reports nothing."""


class Counter:
    """Reports how many of several things are done: ``120 of 450 jobs created``."""

    def __init__(self, report: Report, number: int, noun: str, verb: str) -> None:
        self._report = report
        self._number = number
        self._what = f"of {number_of(number, noun)} {verb}"
        self._done = 0
        self._lock = Lock()

    def add(self, number: int = 1) -> None:
        with self._lock:
            self._done += number
        if self._number > 1:
            self._report(lambda: f"{self._done} {self._what}")


class ByteCounter:
    """Reports how much is copied: ``120 MiB of 450 MiB copied``. For one thread."""

    def __init__(self, report: Report, size: int) -> None:
        self._report = report
        self._size = size
        self._done = 0

    def add(self, size: int) -> None:
        self._done += size
        self._report(lambda: f"{size_text(self._done)} of {size_text(self._size)} copied")


class LiveScreen(Protocol):
    """Where a task may print while it runs. ``changes``: the last line can be replaced, as on a terminal."""

    changes: bool
    colors: bool

    def print(self, lines: Iterable[str]) -> None:
        """Print lines that stay."""

    def show(self, line: str) -> None:
        """Show a line that the next one replaces."""

    def said_on_interrupt(self, text: str) -> AbstractContextManager[None]:
        """Print a line if a person ends the task with Ctrl-C."""
