# SPDX-License-Identifier: BSD-2-Clause
"""What every namespace gets: the ServiceAccount "default" and the ConfigMap "kube-root-ca.crt".

Source: pkg/controller/serviceaccount/serviceaccounts_controller.go, pkg/controller/certificates/rootcacertpublisher.
"""

from __future__ import annotations

from kubesim.errors import ApiError

from .base import Controller, Object

ACCOUNT, CA_CONFIG_MAP = "default", "kube-root-ca.crt"
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
CA = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"


class ServiceAccountController(Controller):
    name = "service-account-controller"
    watches = ("Namespace", "ServiceAccount", "ConfigMap")

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        metadata = obj["metadata"]
        if kind == "Namespace" and event != "DELETED":
            self.enqueue(metadata["name"])
        elif event == "DELETED" and metadata["name"] in (ACCOUNT, CA_CONFIG_MAP):
            self.enqueue(metadata["namespace"])

    def reconcile(self, key: str) -> None:
        namespace = self.registry.get("Namespace", None, key)
        if namespace is None or "deletionTimestamp" in namespace["metadata"]:
            return
        self._ensure("ServiceAccount", {"metadata": {"name": ACCOUNT, "namespace": key}})
        annotations = {"kubernetes.io/description": DESCRIPTION}
        metadata = {"name": CA_CONFIG_MAP, "namespace": key, "annotations": annotations}
        self._ensure("ConfigMap", {"metadata": metadata, "data": {"ca.crt": CA}})

    def _ensure(self, kind: str, obj: Object) -> None:
        metadata = obj["metadata"]
        if self.registry.get(kind, metadata["namespace"], metadata["name"]) is None:
            try:
                self.registry.create(kind, obj)
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
