# SPDX-License-Identifier: BSD-2-Clause
"""NamespaceLifecycle: nothing is created where there is no namespace, or one that is going; some never go.

Source: staging/src/k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go.
"""

from __future__ import annotations

from kubesim import errors
from kubesim.admission.request import AdmissionRequest

IMMORTAL = ("default", "kube-system", "kube-public")


def admit(request: AdmissionRequest) -> None:
    if request.resource.kind == "Namespace":
        if request.operation == "DELETE" and request.name in IMMORTAL:
            raise request.forbidden("this namespace may not be deleted")
        return
    if not request.namespace or request.operation == "DELETE":
        return
    namespace = request.registry.get("Namespace", None, request.namespace)
    if namespace is None:
        raise errors.not_found("", "namespaces", request.namespace)
    if request.operation == "CREATE" and namespace["status"].get("phase") == "Terminating":
        text = f"unable to create new content in namespace {request.namespace} because it is being terminated"
        refusal = request.forbidden(text)
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {request.namespace} is being terminated",
            "field": "metadata.namespace",
        }
        refusal.details = (refusal.details or {}) | {"causes": [cause]}
        raise refusal
