# SPDX-License-Identifier: BSD-2-Clause
"""Events by what they are about. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from ..kube.resources import Object
from .related import is_about_pod, is_about_workload


class EventsByObject:
    """So that those of a namespace are not searched for each of its jobs."""

    def __init__(self, events: Iterable[Object]) -> None:
        self._events = [*events]
        self._numbers: dict[tuple[Any, str | None], list[int]] = defaultdict(list)
        for number, event in enumerate(self._events):
            involved, namespace = event.get("involvedObject") or {}, event["metadata"].get("namespace")
            name = str(involved.get("name", ""))
            for text in (involved.get("uid"), name, name.rpartition("-")[0]):
                self._numbers[namespace, text].append(number)

    def of(self, workload: Object, pod_names: Collection[str]) -> list[Object]:
        """Those about a workload, its ReplicaSets and its pods, in the order in which they were given."""
        metadata = workload["metadata"]
        namespace, texts = metadata["namespace"], (metadata["uid"], metadata["name"], *pod_names)
        numbers = {number for text in texts for number in self._numbers.get((namespace, text), ())}
        return [
            event
            for event in (self._events[number] for number in sorted(numbers))
            if is_about_workload(event, workload) or is_about_pod(event, namespace, pod_names)
        ]
