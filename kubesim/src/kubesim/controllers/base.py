# SPDX-License-Identifier: BSD-2-Clause
"""What all controllers have in common: they watch kinds, queue keys, and reconcile one key at a time.

Source of the manner: client-go util/workqueue (one entry per key, exponential retry), controller-runtime's Reconciler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, ClassVar

from kubesim.clock import Handle
from kubesim.errors import ApiError

if TYPE_CHECKING:
    from kubesim.registry import Registry

Object = dict[str, Any]
Key = tuple[str, str]  # namespace, name

#: Keys reconciled before the loop gets its turn again, so that requests are answered while a big backlog is worked off.
BATCH = 50
#: Objects up to which an owner is looked at with each of their changes.
SMALL = 50


class Controller:
    """Subclasses name the kinds they watch, turn events into keys (observe) and act on a key (reconcile)."""

    name: ClassVar[str]
    watches: ClassVar[tuple[str, ...]]
    #: Seconds before a failed key is tried again; doubled with each failure (workqueue.DefaultControllerRateLimiter).
    retry_base: ClassVar[float] = 0.005
    retry_max: ClassVar[float] = 1000.0

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.clock = registry.clock
        self._ready: dict[Hashable, None] = {}
        self._timers: dict[Hashable, tuple[float, Handle]] = {}
        self._failures: dict[Hashable, int] = {}
        self._draining = False
        self._running = False
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Watch from now on, and look at everything that is there already."""
        self._running = True
        self._unsubscribe = self.registry.subscribe(self._dispatch)
        for kind in self.watches:
            for obj in self.registry.list(kind):
                self.observe("ADDED", kind, obj, None)

    def stop(self) -> None:
        self._running = False
        self._unsubscribe()
        for _, handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        self._ready.clear()

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        raise NotImplementedError

    def reconcile(self, key: Any) -> None:
        raise NotImplementedError

    def enqueue(self, key: Hashable, after: float = 0.0) -> None:
        """Reconcile `key` soon, or in `after` seconds; of several delays the earliest counts."""
        if not self._running:
            return
        if after <= 0:
            self._ready[key] = None
            if not self._draining:
                self._draining = True
                self.registry.loop.call_soon(self._drain)
            return
        due = self.clock.now().timestamp() + after
        planned = self._timers.get(key)
        if planned is not None:
            if planned[0] <= due:
                return
            planned[1].cancel()
        self._timers[key] = (due, self.clock.call_later(after, lambda: self._timer_fired(key)))

    def _timer_fired(self, key: Hashable) -> None:
        self._timers.pop(key, None)
        self.enqueue(key)

    def _dispatch(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if self._running and kind in self.watches:
            self.observe(event, kind, obj, old)

    def _drain(self) -> None:
        for _ in range(BATCH):
            if not self._ready:
                break
            key = next(iter(self._ready))
            del self._ready[key]
            self._reconcile_or_retry(key)
        self._draining = bool(self._ready) and self._running
        if self._draining:
            self.registry.loop.call_soon(self._drain)

    def _reconcile_or_retry(self, key: Hashable) -> None:
        try:
            self.reconcile(key)
        except ApiError as error:
            logging.getLogger(f"kubesim.{self.name}").debug("%s: %s", key, error.message)
        except Exception:
            logging.getLogger(f"kubesim.{self.name}").exception("reconciling %s", key)
        else:
            self._failures.pop(key, None)
            return
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.enqueue(key, min(self.retry_base * 2 ** min(failures - 1, 30), self.retry_max))


def batch_delay(objects: int) -> float:
    """Seconds to collect changes before an owner of so many objects is looked at again.

    A look costs as much as there are objects: without a delay the starts of n pods would cost n * n. The job controller
    collects for a second (SyncJobBatchPeriod); here small owners are looked at at once."""
    return 0.0 if objects < SMALL else min(objects / 1000, 1.0)


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def counted(**numbers: int) -> dict[str, int]:
    """Status counters as Go's omitempty writes them: those that are not 0."""
    return {name: number for name, number in numbers.items() if number}


def set_condition(conditions: list[Object], new: Object) -> bool:
    """Put a condition into the list by its type, with its lastTransitionTime if its status stays; True if changed."""
    for index, old in enumerate(conditions):
        if old["type"] != new["type"]:
            continue
        if all(old.get(field) == new.get(field) for field in ("status", "reason", "message", "observedGeneration")):
            return False
        if old["status"] == new["status"] and "lastTransitionTime" in old:
            new = new | {"lastTransitionTime": old["lastTransitionTime"]}
        conditions[index] = new
        return True
    conditions.append(new)
    return True


def find_condition(obj: Object, condition_type: str) -> Object | None:
    condition: Object
    for condition in obj.get("status", {}).get("conditions") or ():
        if condition["type"] == condition_type:
            return condition
    return None
