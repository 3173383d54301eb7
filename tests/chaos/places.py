# SPDX-License-Identifier: BSD-2-Clause
"""Where cases happen: a simulated cluster, new for each case, or the one that GPUCTL_TEST_KUBECONFIG names."""

from __future__ import annotations

import fcntl
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from integration.api import PATHS, Api
from kubesim import Cluster

from .snapshot import Object, Snapshot

SYSTEM = "gpuctl-system"
PREFIX = "chaos-"
LABELS = "runwhere.ai/"
OURS = "app.kubernetes.io/managed-by=runwhere.gpuctl"
_POD_START = 0.01  # seconds
_SLOW_POD_START = 0.5
_KINDS = {
    "ClusterRole": "clusterrole",
    "ClusterRoleBinding": "clusterrolebinding",
    "Node": "node",
    "PriorityClass": "priorityclass",
    "ValidatingAdmissionPolicy": "policy",
    "ValidatingAdmissionPolicyBinding": "policybinding",
}
_NAMESPACED = {
    "ConfigMap": "configmap",
    "DaemonSet": "daemonset",
    "Deployment": "deployment",
    "HorizontalPodAutoscaler": "hpa",
    "Job": "job",
    "LimitRange": "limitrange",
    "PersistentVolumeClaim": "persistentvolumeclaim",
    "Pod": "pod",
    "ResourceQuota": "resourcequota",
    "RoleBinding": "rolebinding",
    "Secret": "secret",
    "Service": "service",
    "ServiceAccount": "serviceaccount",
    "StatefulSet": "statefulset",
}
_OF_CONTROLLERS = {
    "ControllerRevision": "/apis/apps/v1/namespaces/{}/controllerrevisions",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
}
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/pools"


@dataclass
class Place:
    """One cluster during one case. ``names`` are the words of scenarios and what they mean here."""

    api: Api
    names: Mapping[str, str]
    nodes: tuple[str, ...]
    url: str = ""
    token: str = ""
    cluster_wide: bool = True
    _cluster: Cluster | None = None

    def snapshot(self) -> Snapshot:
        objects = self._stored() if self._cluster else list(self._listed())
        words = {value: word for word, value in self.names.items()}
        return Snapshot.of(objects, words)

    def _stored(self) -> list[Object]:
        cluster = self._cluster
        assert cluster is not None
        own = set(self.names.values()) | {SYSTEM}

        return [obj for obj in cluster.objects() if _is_of_interest(obj, own)]

    def _listed(self) -> Iterator[Object]:
        own = sorted(set(self.names.values()))
        # Others use the cluster as well: of what belongs to no namespace, only what the case changes is looked at.
        for kind, path in _KINDS.items() if self.cluster_wide else ():
            for obj in self.api.list(path):
                whole = {**obj, "kind": kind}
                if _is_of_interest(whole, set(own)) and (kind != "Node" or obj["metadata"]["name"] in self.nodes):
                    yield whole
        for namespace in (*own, SYSTEM) if self.cluster_wide else own:
            found = self.api.get("namespace", namespace)
            if found is None:
                continue
            yield found
            for kind, path in _NAMESPACED.items():
                if namespace == SYSTEM and kind not in ("ConfigMap", "ServiceAccount", "RoleBinding"):
                    continue
                yield from ({**obj, "kind": kind} for obj in self.api.list(path, namespace))
            for kind, path in _OF_CONTROLLERS.items() if namespace != SYSTEM else ():
                answer = self.api.call("GET", path.format(namespace))[1]
                yield from ({**obj, "kind": kind} for obj in answer["items"])
        status, lease = self.api.call("GET", _LEASE)
        if status == 200 and self.cluster_wide:
            yield lease


def _is_of_interest(obj: Object, own: set[str]) -> bool:
    metadata, kind = obj["metadata"], obj["kind"]
    if kind == "Event":
        return False
    if metadata.get("namespace"):
        return metadata["namespace"] in own
    if kind == "Namespace":
        return metadata["name"] in own
    if kind == "Node":
        return True
    ours = (metadata.get("labels") or {}).get("app.kubernetes.io/managed-by") == "runwhere.gpuctl"
    return ours and kind in _KINDS


@contextmanager
def simulated(
    nodes: int = 4, *, slow_pods: bool = False, collect_seconds: float = 0.0, behind: float = 0
) -> Iterator[Place]:
    pod_start_seconds = _SLOW_POD_START if slow_pods else _POD_START
    simulator = Cluster(nodes, pod_start_seconds=pod_start_seconds, collect_seconds=collect_seconds, behind=behind)
    with simulator.running() as cluster:
        api = _bare_api(cluster.url, cluster.token)
        names = {"@ns": f"{PREFIX}ns", "@other": f"{PREFIX}other"}
        place = Place(
            api, names, tuple(f"node-{n}" for n in range(1, nodes + 1)), cluster.url, cluster.token, _cluster=cluster
        )
        _make_namespaces(place)
        try:
            yield place
        finally:
            api.pool.clear()


def _make_namespaces(place: Place) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place.names["@ns"]}}
    place.api.create("namespace", body)


def _bare_api(url: str, token: str) -> Api:
    """An Api without a kubeconfig file, which takes the kubernetes library longer than a case."""
    import urllib3

    api = Api.__new__(Api)
    api.server, api.headers = url.rstrip("/"), {"Authorization": f"Bearer {token}"}
    urllib3.disable_warnings()
    api.pool = urllib3.PoolManager(maxsize=8, cert_reqs="CERT_NONE", retries=False)
    return api


@contextmanager
def named(kubeconfig: Path, *, cluster_wide: bool, mark: str = "") -> Iterator[Place]:
    """The given cluster, in namespaces of the case's own, with a mark. Cases that change nodes or roles take turns."""
    import yaml

    config = yaml.safe_load(kubeconfig.read_text())
    context = next(each["context"] for each in config["contexts"] if each["name"] == config["current-context"])
    server = next(each["cluster"]["server"] for each in config["clusters"] if each["name"] == context["cluster"])
    token = next(each["user"].get("token") for each in config["users"] if each["name"] == context["user"])
    if not token:
        raise SystemExit(f"{kubeconfig}: its user has no token. Chaos needs one, because a proxy has no certificates.")
    api = _bare_api(server, token)
    mark = mark or secrets.token_hex(4)
    names = {"@ns": f"{PREFIX}{mark}-ns", "@other": f"{PREFIX}{mark}-other"}
    with _turn() if cluster_wide else nullcontext():
        nodes = tuple(sorted(node["metadata"]["name"] for node in api.list("node") if not _ours(node)))
        place = Place(api, names, nodes[:4], server, token, cluster_wide)
        roles = _cluster_roles(api) if cluster_wide else set()
        _make_namespaces(place)
        try:
            yield place
        finally:
            _clean(place, cluster_wide=cluster_wide)
            for name in _cluster_roles(api) - roles if cluster_wide else ():
                api.delete("clusterrole", name)
            api.pool.clear()


@contextmanager
def _turn() -> Iterator[None]:
    with (Path(tempfile.gettempdir()) / "gpuctl-chaos.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _cluster_roles(api: Api) -> set[str]:
    return {obj["metadata"]["name"] for obj in api.list("clusterrole", labels=OURS)}


def _clean(place: Place, *, cluster_wide: bool) -> None:
    api = place.api
    for name in place.names.values():
        for kind in ("job", "deployment", "statefulset", "daemonset", "pod"):
            api.call("DELETE", PATHS[kind].format(name), {"propagationPolicy": "Background", "gracePeriodSeconds": 0})
        api.call("DELETE", f"{PATHS['namespace']}/{name}")
    if not cluster_wide:
        return
    for name in place.nodes:
        if labels := _ours(api.get("node", name)):
            api.patch("node", name, {"metadata": {"labels": dict.fromkeys(labels)}})
    for obj in api.list("configmap", SYSTEM):
        if obj["metadata"]["name"].startswith("pool-chaos-"):
            api.delete("configmap", obj["metadata"]["name"], SYSTEM)
    for obj in api.list("clusterrolebinding", labels=OURS):
        if "chaos-ci" in obj["metadata"]["name"]:
            api.delete("clusterrolebinding", obj["metadata"]["name"])
    for obj in api.list("rolebinding", SYSTEM):
        if "chaos-ci" in obj["metadata"]["name"]:
            api.delete("rolebinding", obj["metadata"]["name"], SYSTEM)
    api.delete("serviceaccount", "chaos-ci", SYSTEM)
    # A killed run leaves it held, which is no fault of the next case.
    api.call("DELETE", _LEASE)


def _ours(node: Object) -> list[str]:
    return [key for key in node["metadata"].get("labels") or {} if key.startswith((LABELS, "chaos.example.com/"))]
