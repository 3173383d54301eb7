# SPDX-License-Identifier: BSD-2-Clause
"""Direct requests to the cluster, independent of the code under test."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import urllib3
from kubernetes import config
from kubernetes.client import Configuration

if TYPE_CHECKING:
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import Feature

PATHS = {
    "clusterrole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "clusterrolebinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "deviceclass": "/apis/resource.k8s.io/v1/deviceclasses",
    "namespace": "/api/v1/namespaces",
    "node": "/api/v1/nodes",
    "priorityclass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "policy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "policybinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "resourceslice": "/apis/resource.k8s.io/v1/resourceslices",
    "configmap": "/api/v1/namespaces/{}/configmaps",
    "daemonset": "/apis/apps/v1/namespaces/{}/daemonsets",
    "deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "hpa": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    "job": "/apis/batch/v1/namespaces/{}/jobs",
    "limitrange": "/api/v1/namespaces/{}/limitranges",
    "persistentvolumeclaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "pod": "/api/v1/namespaces/{}/pods",
    "resourceclaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "resourceclaimtemplate": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates",
    "resourcequota": "/api/v1/namespaces/{}/resourcequotas",
    "role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "rolebinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "secret": "/api/v1/namespaces/{}/secrets",
    "service": "/api/v1/namespaces/{}/services",
    "serviceaccount": "/api/v1/namespaces/{}/serviceaccounts",
    "statefulset": "/apis/apps/v1/namespaces/{}/statefulsets",
}


class Api:
    """A cluster by its kubeconfig; ``call`` returns status and body."""

    def __init__(self, kubeconfig: str) -> None:
        settings = Configuration()
        config.load_kube_config(kubeconfig, client_configuration=settings)
        self.server = settings.host.rstrip("/")
        self._settings = settings
        token = settings.get_api_key_with_prefix("authorization") or settings.get_api_key_with_prefix("BearerToken")
        self.headers = {"Authorization": token} if token else {}
        self.pool = self._open_pool(cert_file=settings.cert_file, key_file=settings.key_file)

    def with_token(self, token: str) -> Api:
        """The same cluster with a token instead of the credentials of the kubeconfig."""
        other = copy.copy(self)
        other.headers = {"Authorization": f"Bearer {token}"}
        other.pool = self._open_pool()
        return other

    def connection_variables(self) -> dict[str, str]:
        """The connection as environment variables of the modules; none without a token."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token:
            return {}
        ca_cert = self._settings.ssl_ca_cert
        return {
            "K8S_AUTH_HOST": self.server,
            "K8S_AUTH_API_KEY": token,
            "K8S_AUTH_VERIFY_SSL": str(self._settings.verify_ssl),
            **({"K8S_AUTH_SSL_CA_CERT": ca_cert} if ca_cert else {}),
        }

    def _open_pool(self, **identity: str | None) -> urllib3.PoolManager:
        return urllib3.PoolManager(
            maxsize=16,
            cert_reqs="CERT_REQUIRED" if self._settings.verify_ssl else "CERT_NONE",
            ca_certs=self._settings.ssl_ca_cert,
            **identity,
        )

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> tuple[int, Any]:
        headers = {**self.headers, "Content-Type": content_type, "User-Agent": "someone-else"}
        payload = None if body is None else json.dumps(body)
        response = self.pool.request(method, self.server + path, body=payload, headers=headers)
        if response.data == b"404 page not found\n":  # of a group that is not served
            return response.status, None
        return response.status, json.loads(response.data or b"null")

    def get(self, kind: str, name: str, namespace: str = "") -> Any:
        status, body = self.call("GET", f"{PATHS[kind].format(namespace)}/{name}")
        return body if status == 200 else None

    def list(self, kind: str, namespace: str = "", labels: str = "") -> list[dict[str, Any]]:
        status, body = self.call("GET", f"{PATHS[kind].format(namespace)}?labelSelector={labels}")
        assert status == 200, body
        return list(body["items"])

    def create(self, kind: str, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        status, answer = self.call("POST", PATHS[kind].format(namespace), body)
        assert status == 201, answer
        return dict(answer)

    def patch(self, kind: str, name: str, body: dict[str, Any], namespace: str = "", missing_ok: bool = False) -> bool:
        """A strategic merge patch, as ``kubectl edit`` and ``kubectl set image`` send it. False: no such object."""
        path = f"{PATHS[kind].format(namespace)}/{name}"
        status, answer = self.call("PATCH", path, body, "application/strategic-merge-patch+json")
        assert status == 200 or (status == 404 and missing_ok), answer
        return bool(status == 200)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        self.call("DELETE", f"{PATHS[kind].format(namespace)}/{name}", {"propagationPolicy": "Background"})


def require(api: Api, feature: Feature) -> None:
    """Skip the test on a cluster that does not serve the API of a feature."""
    # Here: the demo has no collection on its path.
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import since

    if api.call("GET", f"/apis/{feature.api}/{feature.plurals[0] if feature.plurals else ''}".rstrip("/"))[0] == 404:
        pytest.skip(since(feature))


def eventually(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Poll until the condition is true, and return its value. On a busy machine a playbook takes 30 s to start."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {value!r}"
        time.sleep(0.1)
    return value
