# SPDX-License-Identifier: BSD-2-Clause
"""A cluster without server and thread, for tests of controllers: time and work move when the test says so."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

from kubesim import admission
from kubesim.controllers import ALL, OF_ADDONS
from kubesim.controllers.kubelet import Kubelet
from kubesim.kinds import STRATEGIES
from kubesim.nodes import fake_node
from kubesim.registry import Registry
from kubesim.store import Store
from manual_clock import ManualClock

Object = dict[str, Any]


class Simulation:
    def __init__(self, nodes: int = 4, *, addons: Collection[str] = (), **resources: str) -> None:
        self.clock = ManualClock()
        self.registry = Registry(Store(), self.clock, STRATEGIES, admission)
        self._due: deque[Callable[[], object]] = deque()
        self.registry.loop = self  # type: ignore[assignment]
        added = [OF_ADDONS[addon] for addon in addons]
        self.controllers: dict[str, Any] = {kind.name: kind(self.registry) for kind in (*ALL, *added)}
        self.controllers["job-controller"].makes_groups = "native-gangs" in addons
        for controller in self.controllers.values():
            controller.start()
        self.create("Namespace", "default", namespace="")
        for number in range(1, nodes + 1):
            self.registry.create("Node", fake_node(f"node-{number}", self.clock.now(), resources=resources))
        self.settle()

    @property
    def kubelet(self) -> Kubelet:
        kubelet: Kubelet = self.controllers["kubelet"]
        return kubelet

    def call_soon(self, fn: Callable[[], object]) -> None:
        self._due.append(fn)

    def settle(self) -> None:
        """Do all that can be done without time passing."""
        while self._due:
            self._due.popleft()()

    def advance(self, seconds: float) -> None:
        """Let time pass; what becomes due is done at its time."""
        limit = self.clock.now() + timedelta(seconds=seconds)
        self.settle()
        while self.clock.next_due(limit):
            self.settle()

    def create(
        self, kind: str, name: str, spec: Object | None = None, *, namespace: str = "default", **more: Any
    ) -> Object:
        metadata = {"name": name, **more.pop("metadata", {})} | ({"namespace": namespace} if namespace else {})
        body = {"metadata": metadata, **({"spec": spec} if spec is not None else {}), **more}
        created = self.registry.create(kind, copy.deepcopy(body))
        self.settle()
        return created

    def get(self, kind: str, name: str, namespace: str = "default") -> Object:
        found = self.registry.get(kind, namespace, name)
        assert found is not None, f"no {kind} {namespace}/{name}"
        return found

    def change(
        self, kind: str, name: str, fn: Callable[[Object], object], namespace: str = "default", **more: Any
    ) -> None:
        self.registry.modify(kind, namespace, name, fn, **more)
        self.settle()

    def pods(self, **labels: str) -> list[Object]:
        return self.registry.list("Pod", "default", labels)

    def events(self, about: str) -> list[tuple[str, str]]:
        """(reason, message) of the events about an object, in the order they were first recorded."""
        found = [e for e in self.registry.list("Event", "default") if e["involvedObject"]["name"] == about]
        found.sort(key=lambda event: int(event["metadata"]["name"].rpartition(".")[2], 16))
        return [(event["reason"], event["message"]) for event in found]


def pod_spec(**more: Any) -> Object:
    resources = more.pop("requests", None)
    container: Object = {"name": "main", "image": "busybox:1.36"}
    if resources:
        container["resources"] = {"limits": resources, "requests": resources}
    return {"containers": [container], **more}
