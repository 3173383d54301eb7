# SPDX-License-Identifier: BSD-2-Clause
"""What etcd is to the API server: objects, one counter of versions, and the recent past.

Objects are shared, never copied: callers must not change what they get from here.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kubesim.errors import expired

#: Events kept for watches and for lists at an older version.
HISTORY = 100_000


class Stored:
    """One version of an object, and its JSON once it was asked for."""

    __slots__ = ("_item", "key", "obj", "rv")

    def __init__(self, key: str, obj: dict[str, Any], rv: int) -> None:
        self.key, self.obj, self.rv = key, obj, rv
        self._item: bytes | None = None

    @property
    def item(self) -> bytes:
        """The JSON as an entry of a typed list: without apiVersion and kind."""
        if self._item is None:
            self._item = encode({k: v for k, v in self.obj.items() if k not in ("apiVersion", "kind")})
        return self._item

    @property
    def json(self) -> bytes:
        """The JSON of the object by itself."""
        head = encode({"kind": self.obj["kind"], "apiVersion": self.obj["apiVersion"]})
        return head[:-1] + b"," + self.item[1:] if len(self.item) > 2 else head


def encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class Event:
    """A committed write. `old` is the version before it, None for ADDED; for DELETED `new` is the last state."""

    type: str
    kind: str
    new: Stored
    old: Stored | None

    @property
    def rv(self) -> int:
        return self.new.rv


Subscriber = Callable[[Event], None]


def key_of(namespace: str | None, name: str) -> str:
    """Keys sort as etcd's do: by the text namespace/name."""
    return f"{namespace}/{name}" if namespace else name


class Store:
    def __init__(self, history: int = HISTORY) -> None:
        self.version = 1
        #: Nothing before this version is known any more.
        self.oldest = 1
        self._objects: dict[str, dict[str, Stored]] = {}
        self._keys: dict[str, list[str]] = {}
        self._history: deque[Event] = deque()
        self._limit = history
        self._subscribers: list[Subscriber] = []
        self._pending: deque[Event] = deque()
        self._notifying = False

    def get(self, kind: str, namespace: str | None, name: str) -> Stored | None:
        return self._objects.get(kind, {}).get(key_of(namespace, name))

    def scan(self, kind: str, namespace: str | None = None, first: str = "") -> Iterator[Stored]:
        """All objects of a kind, or of a kind in a namespace, in the order of their keys, from the key `first` on."""
        objects, keys = self._objects.get(kind, {}), self._keys.get(kind, [])
        start, end = bisect_left(keys, first), len(keys)
        if namespace:
            # '0' follows '/': everything that starts with "namespace/" lies before "namespace0"
            start = max(start, bisect_left(keys, f"{namespace}/"))
            end = bisect_left(keys, f"{namespace}0")
        return (objects[key] for key in keys[start:end])

    def everything(self) -> Iterator[dict[str, Any]]:
        """All objects of all kinds."""
        return (stored.obj for objects in self._objects.values() for stored in objects.values())

    def count(self, kind: str) -> int:
        return len(self._objects.get(kind, ()))

    def put(self, obj: dict[str, Any]) -> Stored:
        """Store a new version: sets its resourceVersion (the object is the store's from here on)."""
        kind, meta = obj["kind"], obj["metadata"]
        key = key_of(meta.get("namespace"), meta["name"])
        objects = self._objects.setdefault(kind, {})
        old = objects.get(key)
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        stored = objects[key] = Stored(key, obj, self.version)
        if old is None:
            insort(self._keys.setdefault(kind, []), key)
        self._commit(Event("MODIFIED" if old else "ADDED", kind, stored, old))
        return stored

    def remove(self, kind: str, namespace: str | None, name: str) -> Stored | None:
        """Remove an object; the event carries its last state with a new resourceVersion."""
        key = key_of(namespace, name)
        old = self._objects.get(kind, {}).pop(key, None)
        if old is None:
            return None
        keys = self._keys[kind]
        del keys[bisect_left(keys, key)]
        self.version += 1
        last = {**old.obj, "metadata": {**old.obj["metadata"], "resourceVersion": str(self.version)}}
        self._commit(Event("DELETED", kind, Stored(key, last, self.version), old))
        return old

    def compact(self) -> None:
        """Forget the past: older versions answer 410 from here on."""
        self._history.clear()
        self.oldest = self.version

    # --- the past ---

    def since(self, rv: int, kind: str) -> list[Event]:
        """The events of a kind after a version; 410 when they are not known any more."""
        if rv < self.oldest:
            raise expired(f"too old resource version: {rv} ({self.oldest})")
        found: list[Event] = []
        for event in reversed(self._history):
            if event.rv <= rv:
                break
            if event.kind == kind:
                found.append(event)
        return found[::-1]

    def at(self, rv: int, kind: str, namespace: str | None = None) -> list[Stored]:
        """The objects of a kind as they were at a version: the present with all later events undone."""
        later = self.since(rv, kind)
        current = {stored.key: stored for stored in self.scan(kind, namespace)}
        prefix = f"{namespace}/" if namespace else ""
        for event in reversed(later):
            if not event.new.key.startswith(prefix):
                continue
            if event.old is None:
                current.pop(event.new.key, None)
            else:
                current[event.new.key] = event.old
        return [current[key] for key in sorted(current)]

    # --- telling others ---

    def subscribe(self, fn: Subscriber) -> Callable[[], None]:
        """fn(event) after each write, in order; gives the function that ends it."""
        self._subscribers.append(fn)
        return lambda: self._subscribers.remove(fn)

    def _commit(self, event: Event) -> None:
        self._history.append(event)
        if len(self._history) > self._limit:
            self.oldest = self._history.popleft().rv
        self._pending.append(event)
        if self._notifying:  # a subscriber wrote: its event comes after the one that is being delivered
            return
        self._notifying = True
        try:
            while self._pending:
                event = self._pending.popleft()
                for fn in list(self._subscribers):
                    fn(event)
        finally:
            self._notifying = False
