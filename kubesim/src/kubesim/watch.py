# SPDX-License-Identifier: BSD-2-Clause
"""Watching: the events of a resource after a version, as selectors see them.

Source: apiserver pkg/storage/cacher (event types under selectors, initial events, bookmarks).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from kubesim.errors import ApiError
from kubesim.options import ListOptions
from kubesim.pagination import parse_version
from kubesim.store import Event, Store, Stored, encode

#: Seconds between bookmarks of a watch that asked for them (cacher.defaultBookmarkFrequency).
BOOKMARK_SECONDS = 60.0
#: ... and so long before the end of a watch (cacheWatcher.nextBookmarkTime).
LAST_BOOKMARK_SECONDS = 2.0
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}

Selected = Callable[[Stored], bool]


class Watch:
    """A subscription to one resource, in one namespace or all. Start it before answering; then read lines()."""

    def __init__(
        self,
        store: Store,
        kind: str,
        namespace: str | None,
        options: ListOptions,
        selected: Selected,
        write: Callable[[Stored], bytes],
        bookmark: Callable[[dict[str, Any]], bytes],
    ) -> None:
        self.store, self.kind, self.options = store, kind, options
        self.prefix = f"{namespace}/" if namespace else ""
        self.namespace = namespace
        self.selected, self.write, self.bookmark = selected, write, bookmark
        self.queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self.initial: list[bytes] = []
        self._start()
        self._end = store.subscribe(self._told)

    def _start(self) -> None:
        options, version = self.options, parse_version(self.options.version)
        whole = options.initial_events or (options.initial_events is None and version == 0)
        try:
            if whole:
                found = self.store.scan(self.kind, self.namespace)
                self.initial = [_line("ADDED", self.write(s)) for s in found if self.selected(s)]
            else:
                since = version or self.store.version
                self.initial = [line for e in self.store.since(since, self.kind) if (line := self._seen(e))]
        except ApiError as error:  # too old: the stream is that one error
            self.initial = [error_line(error)]
            self.queue.put_nowait(None)
        if options.initial_events and options.bookmarks:
            self.initial.append(self._bookmark(INITIAL_EVENTS_END))

    def _told(self, event: Event) -> None:
        if event.kind == self.kind and event.new.key.startswith(self.prefix):
            self.queue.put_nowait(event)

    def stop(self) -> None:
        self._end()

    def break_off(self) -> None:
        """End the stream as if the server had closed it."""
        self.queue.put_nowait(None)

    async def lines(self, seconds: float) -> AsyncIterator[bytes]:
        """The stream, line by line, for so many seconds of real time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        for line in self.initial:
            yield line
        bookmark_at = loop.time() + BOOKMARK_SECONDS
        if loop.time() < end - LAST_BOOKMARK_SECONDS < bookmark_at:
            bookmark_at = end - LAST_BOOKMARK_SECONDS
        while (left := end - loop.time()) > 0:
            try:
                event = await asyncio.wait_for(self.queue.get(), min(left, max(bookmark_at - loop.time(), 0.0)))
            except asyncio.TimeoutError:
                if loop.time() >= bookmark_at:
                    bookmark_at += BOOKMARK_SECONDS
                    if self.options.bookmarks:
                        yield self._bookmark({})
                continue
            if event is None:
                return
            seen = self._seen(event)
            if seen:
                yield seen

    def _seen(self, event: Event) -> bytes | None:
        """An event as this watch sees it: an object that starts or stops to be selected is ADDED or DELETED."""
        if not event.new.key.startswith(self.prefix):
            return None
        now = event.type != "DELETED" and self.selected(event.new)
        before = event.old is not None and self.selected(event.old)
        if now:
            return _line("MODIFIED" if before else "ADDED", self.write(event.new))
        if not before or event.old is None:
            return None
        if event.type == "DELETED":
            return _line("DELETED", self.write(event.new))
        return _line("DELETED", self.write(_at_version(event.old, event.rv)))

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        meta: dict[str, Any] = {"resourceVersion": str(self.store.version)}
        if annotations:
            meta["annotations"] = annotations
        return _line("BOOKMARK", self.bookmark(meta))


def _at_version(old: Stored, rv: int) -> Stored:
    """The last state that was selected, with the version of the event that ended it."""
    obj = {**old.obj, "metadata": {**old.obj["metadata"], "resourceVersion": str(rv)}}
    return Stored(old.key, obj, rv)


def error_line(error: ApiError) -> bytes:
    """An error within a stream, its last event."""
    return _line("ERROR", encode(error.body))


def _line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + obj + b"}\n"
