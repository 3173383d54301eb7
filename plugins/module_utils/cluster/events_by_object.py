# SPDX-License-Identifier: BSD-2-Clause
"""Events by what they are about. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ..kube.resources import Object


class EventsByObject:
    """So that those of a namespace are not searched for each of its jobs."""

    def __init__(self, events: Iterable[Object]) -> None:
        self._events = [*events]
        self._numbers: dict[tuple[Any, Any], list[int]] = defaultdict(list)
        for number, event in enumerate(self._events):
            involved, namespace = event.get("involvedObject") or {}, event["metadata"].get("namespace")
            kind, name = involved.get("kind"), str(involved.get("name", ""))
            self._numbers[namespace, involved.get("uid")].append(number)
            if kind in ("Pod", "ReplicaSet"):
                self._numbers[namespace, (kind, name if kind == "Pod" else name.rpartition("-")[0])].append(number)

    def of(self, workload: Object, pod_names: Iterable[str]) -> list[Object]:
        """Those about a workload, its ReplicaSets and its pods, in the order in which they were given."""
        metadata = workload["metadata"]
        owned = [("ReplicaSet", metadata["name"])] if workload["kind"] == "Deployment" else []
        about = [metadata["uid"], *owned, *(("Pod", name) for name in pod_names)]
        numbers = {number for each in about for number in self._numbers.get((metadata["namespace"], each), ())}
        return [self._events[number] for number in sorted(numbers)]
