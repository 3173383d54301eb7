# SPDX-License-Identifier: BSD-2-Clause
"""A local copy of some objects: listed once, then kept up to date by watches (as an informer of client-go does).

Each query (a kind in a namespace) has a thread that puts changes into one queue; only the caller's thread takes them
out and applies them. So the copy needs no lock.

Proxies end watches, hold them back, or answer them with a page. So a watch that brings nothing is followed by a list.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from ..kube.answer import estimated_memory
from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import AnswerTooLarge, ApiError, ConnectionProblem, KubeError, as_sentence, if_allowed
from ..kube.limits import LIST_MEMORY, QUEUED_MEMORY, size_text
from ..kube.resources import Resource
from ..kube.watch import Watch
from .polling import backoff

Key = tuple[str, str]  # namespace ("" for what has none), name
Objects = dict[Key, dict[str, Any]]

_WATCH_SECONDS = 300.0  # then the server ends a watch; client-go asks for 5 to 10 minutes (tools/cache/reflector.go)
_LONGEST_TURN = 1.0  # seconds in which changes are applied, before the caller looks at its clock again
_SETTLING = 0.05  # seconds to wait for changes that come together
_FIRST_DELAY = 0.2  # seconds between two lists where watches are refused or bring nothing; grows to the longest
_LONGEST_DELAY = 3.0
_MAX_WATCHES = 64  # further queries are polled
_SHORTEST_WATCH = 0.5  # seconds from one to the next
_STOP_TIMEOUT = 2.0  # seconds that all threads together get to end
_REFUSED = frozenset({403, 405, 501})  # watching is forbidden, or a proxy or the resource does not support it


def _whole_object(obj: dict[str, Any]) -> dict[str, Any]:
    return obj


@dataclass(frozen=True)
class WatchQuery:
    """The objects of a kind in a namespace, or in all, that match the selectors. ``optional``: may be forbidden.

    ``slim`` leaves what is kept of each, ``metadata`` with namespace and name at least.
    """

    resource: Resource
    namespace: str | None
    labels: str = ""
    fields: str = ""
    optional: bool = False
    slim: Callable[[dict[str, Any]], dict[str, Any]] = _whole_object

    @property
    def title(self) -> str:
        """``pods in namespace ml``."""
        return f"{self.resource.plural}{f' in namespace {self.namespace}' if self.namespace else ''}"


class WatchCache:
    """The copy: ``add`` lists more of it, ``watch`` starts to watch, ``wait_for_change`` brings it up to date.
    ``refresh`` lists all of it again, for decisions that the events so far are not enough for.

    A context manager: no thread and no connection is left after it. ``warn`` is called once when watching is refused,
    and once when the server cannot be reached.
    """

    def __init__(self, client: Client, warn: Callable[[str], None]) -> None:
        self.client = client
        self._warn_once = warn
        self._warned: set[str] = set()
        self._changes = _Changes()
        self.submit = self._changes.put
        self.stopped = self._changes.stopped
        self._versions: dict[WatchQuery, str] = {}  # listed, and not watched yet
        self._watchers: list[_Watcher] = []
        self._copy: dict[WatchQuery, Objects] = {}
        self._deleted: dict[WatchQuery, Objects] = defaultdict(dict)
        self._memory: dict[WatchQuery, dict[Key, int]] = defaultdict(dict)  # of objects that watches brought
        self._total_memory = 0

    def __enter__(self) -> WatchCache:
        return self

    def __exit__(self, *unused: object) -> None:
        self.stopped.set()
        for watcher in self._watchers:
            watcher.stop()
        for watcher in self._watchers:
            watcher.join(_STOP_TIMEOUT / len(self._watchers))

    def add(self, queries: Iterable[WatchQuery]) -> None:
        """List the objects of new queries, concurrently. Raises ApiError and ConnectionProblem."""
        for query, objects, version in self._read_lists([query for query in queries if query not in self._copy]):
            self._copy[query], self._versions[query] = objects, version

    def refresh(self) -> None:
        """List everything again. Raises ApiError and ConnectionProblem."""
        self.client.begin_task()  # Whatever the outages before: these requests count.
        self.wait_for_change(0)  # What the queue has is older than the lists.
        for query, objects, _version in self._read_lists(list(self._copy)):
            self.replace(query, objects)

    def watch(self) -> None:
        """Start to watch what was listed."""
        for query, version in self._versions.items():
            watches = len(self._watchers) < _MAX_WATCHES
            longest = max(_LONGEST_DELAY, len(self._copy) / 10)  # at most ten requests a second by all threads
            watcher = _Watcher(self, query, version, watches, longest)
            self._watchers.append(watcher)
            watcher.start()
        self._versions.clear()

    def wait_for_change(self, timeout: float) -> None:
        """Wait for a change, at most ``timeout`` seconds, and apply all changes to the copy.

        If they never end, those of a second. Raises the error that ended a watch finally, a KubeError that is not
        transient.
        """
        try:
            self._changes.take(max(0.0, timeout))()
            time.sleep(_SETTLING)
            end = time.monotonic() + _LONGEST_TURN
            while time.monotonic() < end:
                self._changes.take(0)()
        except Empty:
            return

    def objects(self, *resources: Resource) -> Iterator[dict[str, Any]]:
        """The objects of some kinds."""
        return _of_kinds(self._copy, resources)

    def deleted(self, *resources: Resource) -> Iterator[dict[str, Any]]:
        """The last states of those that were deleted while they were watched."""
        return _of_kinds(self._deleted, resources)

    def is_read(self, query: WatchQuery) -> bool:
        """Whether the query was listed: not, if it may be forbidden and is."""
        return query in self._copy

    def forget_deleted(self) -> None:
        """Keep no longer what was deleted: for a copy that has no end."""
        for query, objects in self._deleted.items():
            for key in objects:
                if key not in self._copy[query]:
                    self._total_memory -= self._memory[query].pop(key, 0)
            objects.clear()

    def _read_lists(self, queries: list[WatchQuery]) -> Iterator[tuple[WatchQuery, Objects, str]]:
        """The objects and the version of each query's list; those that may be forbidden and are, are left out."""

        def read(query: WatchQuery) -> tuple[Objects, str] | None:
            answer = partial(_listed, self.client, query)
            return if_allowed(answer, None) if query.optional else answer()

        for query, answer in zip(queries, run_concurrently(read, queries, self.client.concurrency), strict=True):
            if answer is not None:
                yield query, *answer

    # The changes that watchers put into the queue, applied by the caller's thread.

    def replace(self, query: WatchQuery, objects: Objects) -> None:
        self._copy[query] = objects
        memory = self._memory[query]
        for key in [key for key in memory if key not in self._deleted[query]]:
            self._total_memory -= memory.pop(key)

    def change(self, query: WatchQuery, event: Mapping[str, Any], memory: int) -> None:
        """Raises AnswerTooLarge if watches have brought more objects than a list may have."""
        obj = event["object"]
        key = _object_key(obj)
        is_readable = self.client.is_readable(query.resource, obj)
        if is_readable and query.slim is not _whole_object:
            obj = query.slim(obj)
            memory = estimated_memory(json.dumps(obj).encode())
        self._total_memory += memory - self._memory[query].get(key, 0)
        self._memory[query][key] = memory
        if self._total_memory > LIST_MEMORY:
            raise AnswerTooLarge(f"watching {query.resource.plural}", f"{size_text(LIST_MEMORY)} of objects")
        if not is_readable:
            self._copy[query].pop(key, None)
        elif event["type"] == "DELETED":
            self._copy[query].pop(key, None)
            self._deleted[query][key] = obj
        else:
            self._copy[query][key] = obj

    def warn_once(self, topic: str, text: str) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            self._warn_once(text)


class _Changes:
    """A queue between the watches and the caller. A watch waits while the events that wait for the caller take up too
    much memory."""

    def __init__(self) -> None:
        self.stopped = Event()
        self._queue: SimpleQueue[tuple[Callable[[], None], int]] = SimpleQueue()
        self._memory = 0
        self._lock = Lock()

    def put(self, change: Callable[[], None], memory: int = 0) -> None:
        while memory and self._memory > QUEUED_MEMORY and not self.stopped.wait(_SETTLING):
            pass
        self._add_memory(memory)
        self._queue.put((change, memory))

    def take(self, timeout: float) -> Callable[[], None]:
        """Raises Empty."""
        change, memory = self._queue.get(timeout=timeout) if timeout else self._queue.get_nowait()
        self._add_memory(-memory)
        return change

    def _add_memory(self, memory: int) -> None:
        with self._lock:
            self._memory += memory


class _Watcher(Thread):
    """Keeps the answer to one query up to date: by a watch, or by polling where watching is refused."""

    def __init__(self, cache: WatchCache, query: WatchQuery, version: str, watches: bool, longest_delay: float) -> None:
        super().__init__(name=f"watch {query.title}", daemon=True)
        self._cache, self._submit, self._stopped = cache, cache.submit, cache.stopped
        self._query = query
        self._version = version
        self._watches = watches
        self._longest_delay = longest_delay
        self._watch: Watch | None = None

    def stop(self) -> None:
        """For another thread, which has set ``stopped`` before."""
        if (watch := self._watch) is not None:
            watch.stop()

    def run(self) -> None:
        try:
            self._keep_up_to_date()
        except Exception as error:  # Whatever it is: the caller's thread must not wait for ever.
            self._submit(partial(raise_error, error))

    def _keep_up_to_date(self) -> None:
        """Until ``stopped``. Raises errors that are not transient."""
        new_delays = partial(backoff, _FIRST_DELAY, 1.5, self._longest_delay)
        delays = new_delays()
        while not self._stopped.is_set():
            try:
                if not self._version:
                    self._list_all()
                if self._watches and self._watch_once():
                    delays = new_delays()
                    continue
            except KubeError as error:
                # 410 Gone: etcd no longer has the changes since this version; it is compacted every 5 minutes.
                expired = isinstance(error, ApiError) and error.status == 410
                if not expired and not error.is_transient:
                    raise
                if isinstance(error, ConnectionProblem):
                    self._warn_once("unreachable", f"still waiting, but {error}")
                self._cache.client.begin_task()  # A wait may outlast an outage that is too long for other tasks.
            self._version = ""  # A watch that brought nothing may hide what has happened: list again.
            self._stopped.wait(next(delays))

    def _list_all(self) -> None:
        if not self._stopped.is_set():
            objects, self._version = _listed(self._cache.client, self._query)
            self._submit(partial(self._cache.replace, self._query, objects))

    def _watch_once(self) -> bool:
        """One watch, to its end; whether events came until then."""
        query, began, brought = self._query, time.monotonic(), False
        try:
            self._watch = self._cache.client.watch(
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
            hint = "Grant the verb watch" if error.is_forbidden else "Let watch requests pass"
            text = f"{query.title} cannot be watched and are polled instead: {as_sentence(error)}"
            self._warn_once("refused", f"{text} {hint} to save requests.")
            return False
        watch = self._watch
        if self._stopped.is_set():  # before the watch existed
            watch.stop()
        for event in watch:
            brought = True
            # Also that of a BOOKMARK, which has nothing else: a quiet watch is resumed without a new list.
            self._version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self._submit(partial(self._cache.change, query, event, watch.memory), watch.memory)
        self._watch = None
        if not brought or watch.silent:
            return False
        # A proxy that ends every watch after an event must not cause a storm of requests.
        self._stopped.wait(max(0.0, _SHORTEST_WATCH - (time.monotonic() - began)))
        return True

    def _warn_once(self, topic: str, text: str) -> None:
        self._submit(partial(self._cache.warn_once, topic, text))


def raise_error(error: Exception) -> None:
    """What a thread submits in place of a change, to fail in the task's own thread."""
    raise error


def _of_kinds(answers: Mapping[WatchQuery, Objects], resources: Iterable[Resource]) -> Iterator[dict[str, Any]]:
    return (obj for query, objects in answers.items() if query.resource in resources for obj in objects.values())


def _listed(client: Client, query: WatchQuery) -> tuple[Objects, str]:
    slim = None if query.slim is _whole_object else query.slim
    objects, version = client.list_with_version(
        query.resource, query.namespace, labels=query.labels, fields=query.fields, slim=slim
    )
    return {_object_key(obj): obj for obj in objects}, version


def _object_key(obj: Mapping[str, Any]) -> Key:
    metadata = obj["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata["name"])
