# SPDX-License-Identifier: BSD-2-Clause
"""Events as controllers record them, in the older form (source, count) and the newer one (series).

Source: client-go tools/record/events_cache.go (EventCorrelator: equal events are counted in one object; more than ten
alike in ten minutes become one "(combined from similar events)") and tools/events/event_recorder.go (the scheduler's).
"""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kubesim.clock import rfc3339, rfc3339_micro
from kubesim.errors import ApiError

from .base import Object

if TYPE_CHECKING:
    from datetime import datetime

    from kubesim.registry import Registry

_sequence = itertools.count()
SIMILAR_MAX = 10
SIMILAR_WINDOW = timedelta(minutes=10)
SERIES_WINDOW = timedelta(minutes=6)
CACHE_MAX = 4096


class EventRecorder:
    """Records events of one component in the form of core/v1, counting repetitions."""

    def __init__(self, registry: Registry, component: str, host: str = "") -> None:
        self.registry = registry
        self.source = {"component": component} | ({"host": host} if host else {})
        self._names: dict[tuple[str, ...], str] = {}
        self._similar: dict[tuple[str, ...], tuple[datetime, set[str]]] = {}

    def event(self, about: Object, event_type: str, reason: str, message: str, field_path: str = "") -> None:
        """Record; failures (a namespace that goes away) are ignored, as recorders do."""
        involved = reference(about, field_path)
        group = (involved["uid"], field_path, event_type, reason)
        if self._too_many_alike(group, message):
            message, key = f"(combined from similar events): {message}", (*group, "")
        else:
            key = (*group, message)
        try:
            if not self._counted_up(about, key, message):
                self._names[key] = self._created(about, involved, event_type, reason, message)
        except ApiError:
            return
        forget_oldest(self._names)
        forget_oldest(self._similar)

    def _too_many_alike(self, group: tuple[str, ...], message: str) -> bool:
        now = self.registry.clock.now()
        since, messages = self._similar.get(group, (now, set()))
        if now - since > SIMILAR_WINDOW:
            messages = set()
        messages.add(message)
        self._similar[group] = (now, messages)
        return len(messages) >= SIMILAR_MAX

    def _counted_up(self, about: Object, key: tuple[str, ...], message: str) -> bool:
        name = self._names.get(key)
        if name is None:
            return False

        def count_up(event: Object) -> None:
            event["count"] = event.get("count", 1) + 1
            event["message"] = message
            event["lastTimestamp"] = rfc3339(self.registry.clock.now())

        namespace = event_namespace(about)
        return self.registry.modify("Event", namespace, name, count_up, manager=self.source["component"]) is not None

    def _created(self, about: Object, involved: Object, event_type: str, reason: str, message: str) -> str:
        now = rfc3339(self.registry.clock.now())
        event = new_event(self.registry, about, involved, event_type, reason, message) | {
            "source": dict(self.source),
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "eventTime": None,
            "reportingComponent": self.source["component"],
            "reportingInstance": self.source.get("host", ""),
        }
        self.registry.create("Event", event, manager=self.source["component"])
        return str(event["metadata"]["name"])


class SeriesRecorder:
    """Records events as events.k8s.io/v1 does: eventTime and action, repetitions in `series`."""

    def __init__(self, registry: Registry, component: str, instance: str) -> None:
        self.registry = registry
        self.component = component
        self.instance = instance
        self._series: dict[tuple[str, ...], tuple[str, datetime]] = {}

    def event(self, about: Object, event_type: str, reason: str, action: str, message: str) -> None:
        involved = reference(about)
        key = (involved["uid"], event_type, reason, action, message)
        try:
            self._repeat_or_create(about, involved, key)
        except ApiError:
            return
        forget_oldest(self._series)

    def _repeat_or_create(self, about: Object, involved: Object, key: tuple[str, ...]) -> None:
        now = self.registry.clock.now()
        name, last = self._series.get(key, ("", now))
        if name and now - last < SERIES_WINDOW:

            def repeat(event: Object) -> None:
                count = event.get("series", {}).get("count", 1) + 1
                event["series"] = {"count": count, "lastObservedTime": rfc3339_micro(now)}

            if self.registry.modify("Event", event_namespace(about), name, repeat, manager=self.component) is not None:
                self._series[key] = (name, now)
                return
        _, event_type, reason, action, message = key
        event = new_event(self.registry, about, involved, event_type, reason, message) | {
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": rfc3339_micro(now),
            "action": action,
            "reportingComponent": self.component,
            "reportingInstance": self.instance,
        }
        self.registry.create("Event", event, manager=self.component)
        self._series[key] = (event["metadata"]["name"], now)


def reference(obj: Object, field_path: str = "") -> Object:
    """The ObjectReference to an object (client-go tools/reference GetReference)."""
    metadata = obj["metadata"]
    fields = {
        "kind": obj["kind"],
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "apiVersion": obj["apiVersion"],
        "resourceVersion": metadata.get("resourceVersion", ""),
        "fieldPath": field_path,
    }
    return {name: value for name, value in fields.items() if value or name == "uid"}


def event_namespace(about: Object) -> str:
    return str(about["metadata"].get("namespace") or "default")


def new_event(
    registry: Registry, about: Object, involved: Object, event_type: str, reason: str, message: str
) -> Object:
    """The part of an event that both forms share; named <object>.<time in hex>, never twice the same."""
    stamp = int(registry.clock.now().timestamp() * 1_000_000) * 1000 + next(_sequence) % 1_000_000
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about['metadata']['name']}.{stamp:x}", "namespace": event_namespace(about)},
        "involvedObject": involved,
        "reason": reason,
        "message": message,
        "type": event_type,
    }


def forget_oldest(cache: dict[Any, Any]) -> None:
    """Bound a cache that is kept in order of insertion (lru.New(4096) in the correlator)."""
    while len(cache) > CACHE_MAX:
        del cache[next(iter(cache))]
