# SPDX-License-Identifier: BSD-2-Clause
"""A cluster: clock, store, registry, controllers and server put together."""

from __future__ import annotations

import asyncio
import copy
import importlib
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import yaml

from kubesim import bootstrap_rbac
from kubesim.auth import Authenticator, Authorizer, User
from kubesim.clock import Clock
from kubesim.faults import Faults
from kubesim.http import Server
from kubesim.kinds.cluster_scoped import SYSTEM_PRIORITY_CLASSES
from kubesim.nodes import fake_node
from kubesim.registry import Registry
from kubesim.request_log import RequestLog
from kubesim.rest import Rest
from kubesim.store import Store

T = TypeVar("T")
Object = dict[str, Any]
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
LAB_USER_TOKEN = "lab-user-token"
ADMIN = User("lab-admin", "lab-admin", ("system:masters", "system:authenticated"))
LAB_USER = User("lab-user", "lab-user", ("system:authenticated",))


class Cluster:
    """A simulated cluster. `with Cluster(nodes=4).running() as c:` serves it from a thread of its own."""

    def __init__(self, nodes: int = 4, *, clock: Clock | None = None, pod_start_seconds: float = 0.05, controllers: bool = True) -> None:
        self.clock = clock or Clock()
        self.token = secrets.token_urlsafe(24)
        self.authenticator = Authenticator({self.token: ADMIN, LAB_USER_TOKEN: LAB_USER})
        self.store = Store()
        kinds, admission = importlib.import_module("kubesim.kinds"), importlib.import_module("kubesim.admission")
        self.registry = Registry(self.store, self.clock, kinds.STRATEGIES, admission)
        self.authorizer = Authorizer(self.registry.get, self.registry.list)
        self.rest = Rest(self.registry, self.authenticator, self.authorizer, lambda: self.kubelet)
        self.requests = RequestLog()
        self.faults = Faults()
        self.control: Any = SimpleNamespace()
        self.server = Server(self)
        self.controllers: dict[str, Any] = {}
        self.url = ""
        self._nodes, self._start_seconds, self._with_controllers = nodes, pod_start_seconds, controllers
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def kubelet(self) -> Any:
        return self.controllers["kubelet"]

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Serve from the running loop."""
        self._loop = self.registry.loop = self.clock.loop = asyncio.get_running_loop()
        self._start_controllers()
        self._furnish()
        self.store.compact()
        self.url = f"http://{host}:{await self.server.start(host, port)}"

    def _start_controllers(self) -> None:
        if not self._with_controllers:
            return
        for kind in importlib.import_module("kubesim.controllers").ALL:
            options = {"start_seconds": self._start_seconds} if kind.name == "kubelet" else {}
            self.controllers[kind.name] = kind(self.registry, **options)
        for controller in self.controllers.values():
            controller.start()

    def _furnish(self) -> None:
        for name in NAMESPACES:
            self.registry.create("Namespace", {"metadata": {"name": name}})
        for kind, obj in bootstrap_rbac.objects():
            self.registry.create(kind, obj)
        for priority_class in SYSTEM_PRIORITY_CLASSES:
            self.registry.create("PriorityClass", copy.deepcopy(priority_class), manager="kube-apiserver")
        for number in range(1, self._nodes + 1):
            self.registry.create("Node", fake_node(f"node-{number}", self.clock.now()))

    def kubeconfig(self, path: str | Path) -> Path:
        """Write a kubeconfig that leads here as admin, and return its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "kubesim",
            "clusters": [{"name": "kubesim", "cluster": {"server": self.url}}],
            "users": [{"name": "kubesim", "user": {"token": self.token}}],
            "contexts": [{"name": "kubesim", "context": {"cluster": "kubesim", "user": "kubesim"}}],
        }
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(config))
        path.chmod(0o600)
        return path

    async def stop(self) -> None:
        for controller in self.controllers.values():
            controller.stop()
        await self.server.stop()

    @contextmanager
    def running(self, host: str = "127.0.0.1", port: int = 0) -> Iterator[Cluster]:
        """Serve from a thread of its own until the block ends."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="kubesim", daemon=True)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.start(host, port), loop).result(60)
            try:
                yield self
            finally:
                asyncio.run_coroutine_threadsafe(self.stop(), loop).result(60)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()

    def call(self, fn: Callable[[], T]) -> T:
        """Run a function on the cluster's thread (registry and controllers are only safe there) and give its result."""
        if self._loop is None:
            raise RuntimeError("the cluster is not running")

        async def run() -> T:
            return fn()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(60)
