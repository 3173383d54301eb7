# SPDX-License-Identifier: BSD-2-Clause
"""The real prometheus-adapter beside a real control plane, and exporters that see the pods of that cluster."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubesim import Cluster

from tools.local_server import free_port

from .api import PATHS, Api, eventually

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
GROUP = "custom.metrics.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
VERSIONS = ("v1beta1", "v1beta2")  # that prometheus-adapter serves
#: The path of the program, for the tests that need it.
PROGRAM = os.environ.get("GPUCTL_TEST_PROMETHEUS_ADAPTER", "")


@contextmanager
def exporters_of(api: Api, namespace: str) -> Iterator[Cluster]:
    """A simulated cluster without controllers, which has the nodes of a real one and the pods of a namespace."""
    with Cluster(nodes=0, controllers=False, tls=True).running() as cluster:
        cluster.add_nodes([node["metadata"]["name"] for node in api.list("node")])
        ended = threading.Event()

        def follow() -> None:
            while not ended.wait(1):
                _copy_pods(api, namespace, cluster)

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield cluster
        finally:
            ended.set()
            thread.join(30)


def _copy_pods(api: Api, namespace: str, cluster: Cluster) -> None:
    there = {pod["metadata"]["name"]: {**pod, "kind": "Pod"} for pod in api.list("pod", namespace)}
    known = cluster.call(lambda: [pod["metadata"]["name"] for pod in cluster.registry.list("Pod", namespace)])
    for name in known:
        if name not in there:
            cluster.unload("Pod", namespace, name)
    cluster.load(there.values())


@contextmanager
def adapter(
    directory: Path, kubeconfig: Path, api: Api, prometheus: str, rules: Sequence[Mapping[str, Any]], namespace: str
) -> Iterator[Path]:
    """Run it with these rules, registered in the API server. Gives the path of its log.

    The server finds it by a Service of the type ExternalName, so it need not run in the cluster. An API server that was
    started without a certificate for its proxy asks as an anonymous user, who so may read the namespace's metrics.
    """
    config, port = directory / "adapter.yaml", free_port()
    config.write_text(json.dumps({"rules": list(rules)}))  # JSON is YAML
    command = [
        PROGRAM,
        f"--config={config}",
        f"--prometheus-url={prometheus}",
        "--metrics-relist-interval=5s",
        "--metrics-max-age=1m",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={directory / 'adapter'}",
        *(f"--{use}-kubeconfig={kubeconfig}" for use in ("lister", "authentication", "authorization")),
        "--authentication-tolerate-lookup-failure",
        "--authorization-always-allow-paths=/*",
    ]
    log = directory / "adapter.log"
    rule = {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["get"]}
    anonymous = {"kind": "User", "name": "system:anonymous", "apiGroup": _RBAC}
    reference = {"kind": "Role", "name": "metrics", "apiGroup": _RBAC}
    api.create("role", {"metadata": {"name": "metrics"}, "rules": [rule]}, namespace)
    api.create(
        "rolebinding", {"metadata": {"name": "metrics"}, "roleRef": reference, "subjects": [anonymous]}, namespace
    )
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        with registered(api, namespace, port):
            yield log
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def registered(api: Api, namespace: str, port: int, host: str = "localhost") -> Iterator[None]:
    """APIServices for a server on this machine; taken back in any case, as namespaces cannot be deleted meanwhile."""
    service = {"metadata": {"name": "prometheus-adapter"}, "spec": {"type": "ExternalName", "externalName": host}}
    api.create("service", service, namespace)
    names = [f"{version}.{GROUP}" for version in VERSIONS]
    try:
        for priority, (name, version) in enumerate(zip(names, VERSIONS, strict=True), 100):
            spec = {
                "group": GROUP,
                "version": version,
                "service": {"name": "prometheus-adapter", "namespace": namespace, "port": port},
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": priority,
            }
            status, answer = api.call("POST", SERVICES, {"metadata": {"name": name}, "spec": spec})
            assert status == 201, answer
        yield
    finally:
        for name in names:
            api.call("DELETE", f"{SERVICES}/{name}")
        api.call("DELETE", f"{PATHS['service'].format(namespace)}/prometheus-adapter")


def wait_until_available(api: Api, log: Path) -> None:
    def states() -> list[Any]:
        found = [api.call("GET", f"{SERVICES}/{version}.{GROUP}")[1] for version in VERSIONS]
        return [one for obj in found for one in (obj.get("status") or {}).get("conditions") or [{"status": "?"}]]

    try:
        eventually(lambda: all(one["status"] == "True" for one in states()), 90)
    except AssertionError:
        raise AssertionError(f"{states()}\n{log.read_text()[-3000:]}") from None
