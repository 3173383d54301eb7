# SPDX-License-Identifier: BSD-2-Clause
"""A cluster: clock, store, registry, controllers and server put together."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import secrets
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from kubesim import admission, bootstrap_rbac, controllers, kinds, mixed, resources, schema
from kubesim.auth import AUTHENTICATED, MASTERS, Authenticator, Authorizer, User
from kubesim.clock import Clock, rfc3339
from kubesim.controllers import volumes
from kubesim.exec import V4, V5
from kubesim.faults import Faults
from kubesim.http import Server
from kubesim.kinds.cluster_scoped import SYSTEM_PRIORITY_CLASSES
from kubesim.metrics import history
from kubesim.metrics.exporters import Exporters
from kubesim.metrics.served import ADDONS, ServedMetrics, Value, api_service
from kubesim.nodes import fake_node
from kubesim.registry import Registry
from kubesim.request_log import RequestLog
from kubesim.rest import Rest
from kubesim.store import Store

T = TypeVar("T")
Object = dict[str, Any]
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
LAB_USER_TOKEN = "lab-user-token"  # a name of the contract, no secret
ADMIN = User("lab-admin", "lab-admin", (MASTERS, AUTHENTICATED))
LAB_USER = User("lab-user", "lab-user", (AUTHENTICATED,))
KUBERNETES_SERVICE: Object = {
    "metadata": {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
}
#: How long a call from another thread, start and stop may take, in seconds.
PATIENCE = 60


class Cluster:
    """A simulated cluster. `with Cluster(nodes=4).running() as c:` serves it from a thread of its own.

    `tls`: serve https (kubectl sends its token only then). `controllers=False`: an API server alone, which changes
    nothing by itself. `addons`: APIs beside those of Kubernetes; see ADDED in resources.py. `without`:
    API groups that are not served, as in an older Kubernetes: `{"resource.k8s.io"}` before 1.34.
    `exec_root`: run the commands of exec as processes of this machine, each container in a directory of its own below
    this one. `exec_guarded`: give these commands nothing of what pods say, and have no user whose token is public.
    `metrics`: autoscalers find all metrics at their targets; without it, there are none. `mixed_nodes`: nodes of many
    vendors beside the others (mixed.py). `behind`: as of set_clock()."""

    def __init__(
        self,
        nodes: int = 4,
        *,
        pod_start_seconds: float = 0.05,
        collect_seconds: float = 0.0,
        tls: bool = False,
        controllers: bool = True,
        addons: Collection[str] = (),
        without: Collection[str] = (),
        exec_root: Path | None = None,
        exec_guarded: bool = False,
        metrics: bool = False,
        mixed_nodes: bool = False,
        behind: float = 0,
    ) -> None:
        self.clock = Clock()
        self.clock.behind = timedelta(seconds=behind)
        self.token = secrets.token_urlsafe(24)
        self.store = Store()
        self.registry = Registry(self.store, self.clock, kinds.STRATEGIES, admission)
        self.authenticator = Authenticator(
            {self.token: ADMIN, **({} if exec_guarded else {LAB_USER_TOKEN: LAB_USER})},
            lambda namespace, name: self.registry.get("ServiceAccount", namespace, name),
            lambda: self.clock.now().timestamp(),
        )
        self.authorizer = Authorizer(self.registry.get, self.registry.list)
        self.rest = Rest(self.registry, self.authenticator, self.authorizer, lambda: self.kubelet)
        self.requests = RequestLog()
        self.faults = Faults()
        #: Programs behind the proxy subresource: (plural, namespace, name, port) -> URL.
        self.programs: dict[tuple[str, str, str, str], str] = {}
        self.controllers: dict[str, Any] = {}
        self.exporters = Exporters(self.registry)
        #: What autoscalers can ask an adapter for, with the addons custom-metrics and external-metrics.
        self.served = ServedMetrics(self.registry)
        self.addons, self.without = addons, without
        self.exec_root, self.exec_guarded = exec_root, exec_guarded
        self.exec_protocols = (V5, V4)  # servers before Kubernetes 1.30: V4 alone
        self.url = ""
        self.ca: bytes | None = None
        self._server = Server(self)
        self._nodes, self._mixed_nodes = nodes, mixed_nodes
        self._options: dict[str, dict[str, Any]] = {
            "kubelet": {"start_seconds": pod_start_seconds},
            "garbage-collector-controller": {"collect_seconds": collect_seconds},
            "horizontal-pod-autoscaler": {"metrics": metrics, "served": self.served},
            "kube-scheduler": {"ignored": mixed.EXTENDER_RESOURCES if mixed_nodes else ()},
        }
        self._tls, self._with_controllers = tls, controllers
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- running it ---

    @contextmanager
    def running(self, host: str = "127.0.0.1", port: int = 0) -> Iterator[Cluster]:
        """Serve from a thread of its own until the block ends."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="kubesim", daemon=True)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.start(host, port), loop).result(PATIENCE)
            try:
                yield self
            finally:
                asyncio.run_coroutine_threadsafe(self.stop(), loop).result(PATIENCE)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(PATIENCE)
            loop.close()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Serve from the running loop. `port` 0: any free one."""
        self._loop = self.registry.loop = self.clock.loop = asyncio.get_running_loop()
        if self._with_controllers:
            self._start_controllers()
        self._furnish()
        self.exporters.start()
        self.store.compact()
        context = None
        if self._tls:
            from kubesim import tls

            identity = tls.new_identity()
            self.ca, context = identity.certificate, identity.context
        bound = await self._server.start(host, port, context)
        self.url = f"{'https' if self._tls else 'http'}://{host}:{bound}"

    async def stop(self) -> None:
        for controller in self.controllers.values():
            controller.stop()
        await self._server.stop()

    def _start_controllers(self) -> None:
        for kind in (
            *controllers.ALL,
            *(kind for addon, kind in controllers.OF_ADDONS.items() if addon in self.addons),
        ):
            self.controllers[kind.name] = kind(self.registry, **self._options.get(kind.name, {}))
        for controller in self.controllers.values():
            controller.start()

    def _furnish(self) -> None:
        for name in NAMESPACES:
            self.registry.create("Namespace", {"metadata": {"name": name}})
        for kind, obj in (
            *bootstrap_rbac.objects(),
            *(("PriorityClass", dict(obj)) for obj in SYSTEM_PRIORITY_CLASSES),
        ):
            self.registry.create(kind, obj)
        self.registry.create("Service", copy.deepcopy(KUBERNETES_SERVICE))
        for group in (group for group, addon in ADDONS.items() if addon in self.addons):
            moment = rfc3339(self.clock.now())
            self.store.put(_complete(api_service(group, moment), moment))
        for number in range(1, self._nodes + 1):
            self.registry.create("Node", fake_node(f"node-{number}", self.clock.now()))
        for obj in mixed.mixed_objects(self.clock.now()) if self._mixed_nodes else ():
            self.registry.create(obj["kind"], obj)

    # --- for tests; safe from any thread ---

    @property
    def kubelet(self) -> Any:
        """The kubelet of all nodes: behave(…) says what becomes of pods."""
        return self.controllers["kubelet"]

    def call(self, fn: Callable[[], T]) -> T:
        """Run a function on the cluster's thread (registry and controllers are only safe there) and give its result."""
        if self._loop is None:
            raise RuntimeError("the cluster is not running")
        try:
            if asyncio.get_running_loop() is self._loop:
                return fn()
        except RuntimeError:  # no loop runs in this thread
            pass

        async def run() -> T:
            return fn()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE)

    def set_clock(self, *, behind: float = 0) -> None:
        """Let the cluster's clock be so many seconds behind this machine's: what is made meanwhile is older by that."""
        self.call(lambda: setattr(self.clock, "behind", timedelta(seconds=behind)))

    def load(self, objects: Iterable[Object]) -> int:
        """Store objects as they are, without admission, defaults or checks: for large clusters. How many there were.

        Status is kept; what a list and the controllers need (uid, creationTimestamp, zero values) is filled in."""
        given = list(objects)

        def run() -> int:
            moment = rfc3339(self.clock.now())
            for obj in given:
                self.store.put(_complete(obj, moment))
            return len(given)

        return self.call(run)

    def drive(self, **options: Any) -> int:
        """Let pods and their accelerators do what curves say; the number of the rule (README.md, Metrics)."""
        return self.call(lambda: self.exporters.profiles.add(**options))

    def release(self, number: int | None = None) -> None:
        """Take one rule of drive() back, or all."""
        self.call(lambda: self.exporters.profiles.remove(number))

    def serve_metric(self, name: str, value: Value = None) -> None:
        """Let an adapter serve a metric of pods: a number, what gives one for a pod, or its utilization in percent."""
        self.served.of_pods[name] = self.exporters.utilization if value is None else value

    def remember(self, pods: Iterable[tuple[Object, float | None]]) -> None:
        """Pods that have been (past_pod), each with when it was deleted; those of None are there, and are stored."""
        known = list(pods)
        self.load(pod for pod, deleted in known if deleted is None)
        for pod, deleted in known:
            if deleted is not None:
                self.exporters.history.observe(pod, deleted)

    def write_history(
        self,
        directory: Path,
        start: float,
        end: float,
        step: float,
        exporters: Mapping[str, tuple[Mapping[str, str], bool]],
        names: str = ".*",
    ) -> list[Path]:
        """Files of OpenMetrics text, as if Prometheus had scraped from `start` to `end` (README.md, Metrics)."""
        return history.write(directory, self.call(self.exporters.past), start, end, step, exporters, names)

    def add_storage_class(self, name: str) -> None:
        """The default storage class, by which claims are bound. Without it, they stay pending."""
        annotations = {volumes.IS_DEFAULT: "true"}
        obj = {"metadata": {"name": name, "annotations": annotations}, "provisioner": volumes.PROVISIONER}
        self.call(lambda: self.registry.create("StorageClass", obj))

    def add_nodes(self, names: Iterable[str], **options: Any) -> None:
        """Fake GPU nodes; the options are those of `fake_node`: labels, annotations, resources, taints, arch."""
        now = self.clock.now()
        self.load({**fake_node(name, now, **options), "kind": "Node"} for name in names)

    def kubeconfig(self, path: str | Path, token: str | None = None, *, namespace: str = "") -> Path:
        """Write a kubeconfig for the admin (or another token) and give its path. `namespace`: that of its context."""
        context = {"cluster": "kubesim", "user": "kubesim", **({"namespace": namespace} if namespace else {})}
        cluster: Object = {"server": self.url}
        if self.ca:
            cluster["certificate-authority-data"] = base64.b64encode(self.ca).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "kubesim",
            "clusters": [{"name": "kubesim", "cluster": cluster}],
            "users": [{"name": "kubesim", "user": {"token": token or self.token}}],
            "contexts": [{"name": "kubesim", "context": context}],
        }
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
        fresh.touch(0o600)
        fresh.write_text(json.dumps(content, indent=2) + "\n")  # JSON is YAML
        return fresh.replace(target)  # in one step: a program may be waiting for the file


def _complete(obj: Object, moment: str) -> Object:
    version = obj.get("apiVersion") or resources.by_kind(obj["kind"]).api_version
    whole = schema.read({**obj, "apiVersion": version})
    whole["metadata"].setdefault("uid", str(uuid.uuid4()))
    whole["metadata"].setdefault("creationTimestamp", moment)
    return whole
