# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""A copy of a part of the cluster that follows it: listed once, then kept up to date by watches.

Each question (a kind in a namespace) is followed by a thread of its own, all of them feed one queue, and only the
caller's thread changes the copy. So nothing here needs a lock, and nothing is read while it changes.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import ApiError, ConnectionProblem, KubeError
from ..kube.resources import Resource
from ..kube.watch import Watch

Objects = dict[str, dict[str, Any]]  # by name

_WATCH_SECONDS = 300.0  # then the server ends a watch, and it is opened anew
_SETTLING = 0.05  # seconds in which what comes together is taken together
_FIRST_DELAY = 0.2  # seconds between two looks where watching is refused; grows to the longest
_LONGEST_DELAY = 3.0
_MOST_WATCHES = 64  # more are no good to anybody: many namespaces are looked at in turn then
_PAUSE = 0.5  # seconds before the next try when a watch ends with an error; grows to the longest
_LONGEST_PAUSE = 15.0
_ENDING = 2.0  # seconds that all threads together get to end


@dataclass(frozen=True)
class WatchQuery:
    """What is asked of the server: the objects of a kind in a namespace that the selectors choose.

    ``optional``: who may not list them does without.
    """

    resource: Resource
    namespace: str
    labels: str = ""
    fields: str = ""
    optional: bool = False


class WatchCache:
    """The copy. ``ask`` fills it, ``follow`` begins to watch, ``changed`` brings it up to date.

    A context manager: no thread and no connection is left after it. ``warn`` is told, once each, that watching is
    refused and that the server cannot be reached for the moment.
    """

    def __init__(self, client: Client, warn: Callable[[str], None]) -> None:
        self._client = client
        self._warn = warn
        self._warned: set[str] = set()
        self._queue: SimpleQueue[_Message] = SimpleQueue()
        self._ended = Event()
        self._versions: dict[WatchQuery, str] = {}  # asked, and not followed yet
        self._watchers: list[_Watcher] = []
        self._copy: dict[WatchQuery, Objects] = {}
        self._departed: dict[WatchQuery, Objects] = defaultdict(dict)

    def __enter__(self) -> WatchCache:
        return self

    def __exit__(self, *unused: object) -> None:
        self._ended.set()
        for watcher in self._watchers:
            watcher.stop()
        patience = _ENDING / max(1, len(self._watchers))
        for watcher in self._watchers:
            watcher.join(patience)

    def ask(self, queries: Iterable[WatchQuery]) -> None:
        """Read all of the answers once, side by side. Raises ApiError, and ConnectionProblem."""
        queries = [query for query in queries if query not in self._copy]

        def read(query: WatchQuery) -> tuple[Objects, str] | None:
            try:
                return _listed(self._client, query)
            except ApiError as error:
                if query.optional and error.is_forbidden:
                    return None
                raise

        for query, answer in zip(queries, run_concurrently(read, queries, self._client.concurrency), strict=True):
            if answer is not None:
                self._copy[query], self._versions[query] = answer

    def follow(self) -> None:
        """Keep what was asked for up to date from here on."""
        for query, version in self._versions.items():
            crowded = len(self._watchers) >= _MOST_WATCHES
            longest = max(_LONGEST_DELAY, len(self._copy) / 10)  # at most ten requests a second, however many ask
            watcher = _Watcher(self._client, query, version, self._queue, self._ended, not crowded, longest)
            self._watchers.append(watcher)
            watcher.start()
        self._versions.clear()

    def changed(self, timeout: float) -> None:
        """Wait until something has changed, at most ``timeout`` seconds, and take all that has.

        Raises what ends the following of a question for good, a KubeError that does not pass.
        """
        try:
            self._take(self._queue.get(timeout=max(0.0, timeout)))
            time.sleep(_SETTLING)
            while True:
                self._take(self._queue.get_nowait())
        except Empty:
            return

    def objects(self, *resources: Resource) -> Iterator[dict[str, Any]]:
        """All objects of some kinds that are there now."""
        return _of_kinds(self._copy, resources)

    def deleted(self, *resources: Resource) -> Iterator[dict[str, Any]]:
        """The last states of those that went while they were watched."""
        return _of_kinds(self._departed, resources)

    def _take(self, message: _Message) -> None:
        if message.error is not None:
            raise message.error
        if message.degradation and message.degradation.topic not in self._warned:
            self._warned.add(message.degradation.topic)
            self._warn(message.degradation.text)
        if message.objects is not None:
            self._copy[message.query] = message.objects
        if message.event is not None:
            obj = message.event["object"]
            if message.event["type"] == "DELETED":
                self._copy[message.query].pop(obj["metadata"]["name"], None)
                self._departed[message.query][obj["metadata"]["name"]] = obj
            else:
                self._copy[message.query][obj["metadata"]["name"]] = obj


@dataclass(frozen=True)
class _Degradation:
    """Something that makes following worse and does not end it. Of each topic one is told."""

    topic: str
    text: str


@dataclass(frozen=True)
class _Message:
    """What a follower has to tell: everything there is now, one change, trouble, or its end."""

    query: WatchQuery
    objects: Objects | None = None
    event: Mapping[str, Any] | None = None
    degradation: _Degradation | None = None
    error: Exception | None = None


class _Watcher(Thread):
    """Watches the answer to one question, or looks again and again where watching is refused."""

    def __init__(
        self,
        client: Client,
        query: WatchQuery,
        version: str,
        queue: SimpleQueue[_Message],
        ended: Event,
        watches: bool,
        longest_delay: float,
    ) -> None:
        super().__init__(name=f"follow {query.resource.plural} in {query.namespace}", daemon=True)
        self._client = client
        self._question = query
        self._version = version
        self._queue = queue
        self._ended = ended
        self._watches = watches
        self._longest_delay = longest_delay
        self._watch: Watch | None = None

    def stop(self) -> None:
        """Called by another thread, after ``ended`` is set."""
        watch = self._watch
        if watch is not None:
            watch.stop()

    def run(self) -> None:
        try:
            self._go_on()
        except Exception as error:  # Whatever it is: the thread that waits for news must not wait for ever.
            self._tell(error=error)

    def _go_on(self) -> None:
        """Until ``ended``. Raises what trying again does not cure."""
        delay, pause = _FIRST_DELAY, _PAUSE
        while not self._ended.is_set():
            try:
                if not self._watches:
                    self._ended.wait(delay)
                    delay = min(delay * 1.5, self._longest_delay)
                    self._look()
                elif not self._version:
                    self._look()
                else:
                    self._follow()
                pause = _PAUSE
                continue
            except KubeError as error:
                if isinstance(error, ApiError) and error.status == 410:
                    self._version = ""  # What happened since then is not known any more: look anew.
                elif not error.is_transient:
                    raise
                elif isinstance(error, ConnectionProblem):
                    self._tell(degradation=_Degradation("unreachable", f"still waiting, but {error}"))
            self._ended.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _look(self) -> None:
        if not self._ended.is_set():
            objects, self._version = _listed(self._client, self._question)
            self._tell(objects=objects)

    def _follow(self) -> None:
        """One watch, to its end."""
        query, cached_client = self._question, time.monotonic()
        try:
            self._watch = self._client.watch(
                query.resource,
                query.namespace,
                self._version,
                labels=query.labels,
                fields=query.fields,
                seconds=_WATCH_SECONDS,
            )
        except ApiError as error:
            if error.status not in _REFUSED:
                raise
            self._watches = False
            self._tell(degradation=_Degradation("refused", _not_watching(query, error)))
            return
        if self._ended.is_set():  # since it was opened, so that nobody has stopped it
            self._watch.stop()
        for event in self._watch:
            self._version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self._tell(event=event)
        self._watch = None
        # Something in between that ends every watch at once shall not turn this into a storm of requests.
        self._ended.wait(max(0.0, _PAUSE - (time.monotonic() - cached_client)))

    def _tell(self, **message: Any) -> None:
        self._queue.put(_Message(self._question, **message))


def _of_kinds(answers: Mapping[WatchQuery, Objects], resources: Iterable[Resource]) -> Iterator[dict[str, Any]]:
    return (obj for query, objects in answers.items() if query.resource in resources for obj in objects.values())


def _listed(client: Client, query: WatchQuery) -> tuple[Objects, str]:
    objects, version = client.list_with_version(
        query.resource, query.namespace, labels=query.labels, fields=query.fields
    )
    return {obj["metadata"]["name"]: obj for obj in objects}, version


# We may not watch; or what stands between us and the server, or the resource itself, cannot.
_REFUSED = frozenset({403, 405, 501})


def _not_watching(query: WatchQuery, error: ApiError) -> str:
    kind = f"{query.resource.plural} in namespace {query.namespace}"
    remedy = "grant the verb watch" if error.is_forbidden else "let watches through"
    return f"{kind} cannot be watched, so the cluster is asked every few seconds; {remedy} to save requests: {error}"
