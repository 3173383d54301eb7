# SPDX-License-Identifier: BSD-2-Clause
"""A cluster: a server, what answers its requests, and controllers; and what tests ask of it."""

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

from kubesim import bootstrap_rbac, controllers, mixed, resources, schema, versions
from kubesim.backend import Backend
from kubesim.clock import rfc3339
from kubesim.controllers import volumes
from kubesim.http import Server
from kubesim.kinds.cluster_scoped import SYSTEM_PRIORITY_CLASSES
from kubesim.metrics import history
from kubesim.metrics.served import ADDONS, Value, api_service
from kubesim.nodes import fake_node
from kubesim.subresources import AUDIENCE
from kubesim.versions import NEWEST

T = TypeVar("T")
Object = dict[str, Any]
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
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
    vendors beside the others (mixed.py). `behind`: as of set_clock(). `version`: of Kubernetes, such as "1.31", which
    serves less and drops fields (versions.py); `gates_off`: feature gates of it that are switched off."""

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
        version: str = NEWEST,
        gates_off: Collection[str] = (),
    ) -> None:
        release = versions.release(version, frozenset(gates_off))
        self._backend = backend = Backend(addons, without, exec_root, exec_guarded, release)
        backend.clock.behind = timedelta(seconds=behind)
        self.token, self.registry, self.requests = backend.token, backend.registry, backend.requests
        self.faults, self.programs, self.served = backend.faults, backend.programs, backend.served
        self.ca: bytes | None = None
        self._server = Server(backend)
        self._controllers: dict[str, Any] = {}
        self._nodes, self._mixed_nodes = nodes, mixed_nodes
        self._options: dict[str, dict[str, Any]] = {
            "kubelet": {"start_seconds": pod_start_seconds},
            "garbage-collector-controller": {"collect_seconds": collect_seconds},
            "horizontal-pod-autoscaler": {"metrics": metrics},
            "job-controller": {"makes_groups": "native-gangs" in addons and "WorkloadWithJob" not in gates_off},
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
        self._loop = self.registry.loop = self._backend.clock.loop = asyncio.get_running_loop()
        if self._with_controllers:
            self._start_controllers()
        self._furnish()
        self._backend.exporters.start()
        self._backend.store.compact()
        context = None
        if self._tls:
            from kubesim import tls

            identity = tls.new_identity()
            self.ca, context = identity.certificate, identity.context
        bound = await self._server.start(host, port, context)
        self._backend.url = f"{'https' if self._tls else 'http'}://{host}:{bound}"

    async def stop(self) -> None:
        for controller in self._controllers.values():
            controller.stop()
        await self._server.stop()

    def _start_controllers(self) -> None:
        for kind in (
            *controllers.ALL,
            *(kind for addon, kind in controllers.OF_ADDONS.items() if addon in self._backend.addons),
        ):
            self._controllers[kind.name] = kind(self.registry, **self._options.get(kind.name, {}))
        self._backend.kubelet = self._controllers["kubelet"]
        for controller in self._controllers.values():
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
        for group in (group for group, addon in ADDONS.items() if addon in self._backend.addons):
            moment = rfc3339(self._backend.clock.now())
            self._backend.store.put(_complete(api_service(group, moment), moment))
        now, kubelet = self._backend.clock.now(), self._backend.release.git_version
        for number in range(1, self._nodes + 1):
            self.registry.create("Node", fake_node(f"node-{number}", now, kubelet=kubelet))
        for obj in mixed.mixed_objects(now, kubelet=kubelet) if self._mixed_nodes else ():
            if resources.is_served(resources.by_kind(obj["kind"]), (), self._backend.without):
                self.registry.create(obj["kind"], obj)

    # --- for tests; safe from any thread ---

    @property
    def url(self) -> str:
        """Where it is served; empty before it is."""
        return self._backend.url

    @property
    def exec_protocols(self) -> tuple[str, ...]:
        """The protocols of exec; servers before Kubernetes 1.30 know `v4.channel.k8s.io` alone."""
        return self._backend.exec_protocols

    @exec_protocols.setter
    def exec_protocols(self, protocols: tuple[str, ...]) -> None:
        self._backend.exec_protocols = protocols

    @property
    def kubelet(self) -> Any:
        """The kubelet of all nodes: behave(…) says what becomes of pods. Without controllers, a test may set one of its
        own, which serves logs."""
        return self._backend.kubelet

    @kubelet.setter
    def kubelet(self, kubelet: Any) -> None:
        self._backend.kubelet = kubelet

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
        self.call(lambda: setattr(self._backend.clock, "behind", timedelta(seconds=behind)))

    def load(self, objects: Iterable[Object]) -> int:
        """Store objects as they are, without admission, defaults or checks: for large clusters. How many there were.

        Status is kept; what a list and the controllers need (uid, creationTimestamp, zero values) is filled in."""
        given = list(objects)

        def run() -> int:
            moment = rfc3339(self._backend.clock.now())
            for obj in given:
                self._backend.store.put(_complete(obj, moment))
            return len(given)

        return self.call(run)

    def unload(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object at once, without grace period and finalizers: the opposite of load()."""
        self.call(lambda: self._backend.store.remove(kind, namespace or None, name))

    def objects(self) -> list[Object]:
        """All objects of all kinds. They are shared: copy before you change one."""
        return self.call(lambda: list(self._backend.store.everything()))

    def service_account_token(self, namespace: str, name: str, seconds: int = 3600) -> str:
        """A token of a service account that exists, as TokenRequest gives them."""

        def issue() -> str:
            account = self.registry.require(resources.by_kind("ServiceAccount"), namespace, name)
            return self._backend.authenticator.issue(account.obj["metadata"], [AUDIENCE], seconds)

        return self.call(issue)

    def break_watches(self) -> None:
        """End all open watches, as an API server does that restarts. Clients go on from the version they have."""
        self.call(self._server.break_watches)

    def drive(self, **options: Any) -> int:
        """Let pods and their accelerators do what curves say; the number of the rule (README.md, Metrics)."""
        return self.call(lambda: self._backend.exporters.profiles.add(**options))

    def release(self, number: int | None = None) -> None:
        """Take one rule of drive() back, or all."""
        self.call(lambda: self._backend.exporters.profiles.remove(number))

    def serve_metric(self, name: str, value: Value = None) -> None:
        """Let an adapter serve a metric of pods: a number, what gives one for a pod, or its utilization in percent."""
        self.served.of_pods[name] = self._backend.exporters.utilization if value is None else value

    def remember(self, pods: Iterable[tuple[Object, float | None]]) -> None:
        """Pods that have been (past_pod), each with when it was deleted; those of None are there, and are stored."""
        known = list(pods)
        self.load(pod for pod, deleted in known if deleted is None)
        for pod, deleted in known:
            if deleted is not None:
                self._backend.exporters.history.observe(pod, deleted)

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
        return history.write(directory, self.call(self._backend.exporters.past), start, end, step, exporters, names)

    def add_storage_class(self, name: str) -> None:
        """The default storage class, by which claims are bound. Without it, they stay pending."""
        annotations = {volumes.IS_DEFAULT: "true"}
        obj = {"metadata": {"name": name, "annotations": annotations}, "provisioner": volumes.PROVISIONER}
        self.call(lambda: self.registry.create("StorageClass", obj))

    def add_nodes(self, names: Iterable[str], **options: Any) -> None:
        """Fake GPU nodes; the options are those of `fake_node`: labels, annotations, resources, taints, arch."""
        now = self._backend.clock.now()
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
