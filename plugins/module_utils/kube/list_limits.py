# SPDX-License-Identifier: BSD-2-Clause
"""Lists that a server would go on with for ever, or until the memory is full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

from .errors import ListTooLarge
from .limits import LIST_MEMORY, LIST_PAGES, LIST_SECONDS, TOKEN_LENGTH, size_text

LimitsT = TypeVar("LimitsT", bound="ListLimits")


class ListsInProgress:
    """The lists that are being read from one server, and the memory that they take together."""

    def __init__(self, server: str, clock: Callable[[], float]) -> None:
        self._server = server
        self.clock = clock
        self.opened: list[ListLimits] = []
        self.lock = Lock()

    @contextmanager
    def open(self, path: str, whole: bool, kind: type[LimitsT]) -> Iterator[LimitsT]:
        """``whole``: all objects of the list are kept until its end."""
        limits = kind(self, f"GET {self._server}{path}", whole)
        self.opened.append(limits)
        try:
            yield limits
        finally:
            self.opened.remove(limits)

    @property
    def memory(self) -> int:
        return sum(each.memory for each in self.opened)


class ListLimits:
    """One list. Its methods raise ListTooLarge."""

    def __init__(self, lists: ListsInProgress, request: str, whole: bool) -> None:
        self.lists = lists
        self.request = request
        self._whole = whole
        self._began = lists.clock()
        self._tokens: set[str] = set()
        self.memory = 0

    def begin_page(self, token: str) -> None:
        if token in self._tokens:
            raise ListTooLarge(self.request, "one page for the same continue token")
        if len(token) > TOKEN_LENGTH:
            raise ListTooLarge(self.request, f"{TOKEN_LENGTH} characters of a continue token")
        if len(self._tokens) >= LIST_PAGES:
            raise ListTooLarge(self.request, f"{LIST_PAGES} pages")
        if self.lists.clock() - self._began > LIST_SECONDS:
            raise ListTooLarge(self.request, f"what can be read in {LIST_SECONDS:g} s")
        self._tokens.add(token)

    def weigh(self, memory: int) -> None:
        """Count what a page takes in memory."""
        if self._whole:
            self.memory += memory
            if self.lists.memory > LIST_MEMORY:
                raise ListTooLarge(self.request, f"{size_text(LIST_MEMORY)} of objects")
