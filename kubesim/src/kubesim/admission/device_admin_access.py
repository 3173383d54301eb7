# SPDX-License-Identifier: BSD-2-Clause
"""Only namespaces of administrators may have claims of devices that others use.

No plugin in Kubernetes: the strategies of claims and their templates ask (pkg/registry/resource/utils.go).
"""

from __future__ import annotations

from kubesim import errors, field
from kubesim.admission.request import AdmissionRequest

LABEL = "resource.kubernetes.io/admin-access"
WHY = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"


def check(request: AdmissionRequest) -> None:
    if request.obj is None or request.operation != "CREATE":
        return
    if request.resource.kind == "ResourceClaim":
        spec = request.obj["spec"]
    elif request.resource.kind == "ResourceClaimTemplate":
        spec = request.obj["spec"]["spec"]
    else:
        return
    wanted = [
        index
        for index, one in enumerate(spec["devices"].get("requests") or ())
        if (one.get("exactly") or {}).get("adminAccess")
    ]
    if not wanted:
        return
    namespace = request.registry.get("Namespace", None, request.namespace) or {"metadata": {}}
    if (namespace["metadata"].get("labels") or {}).get(LABEL) != "true":
        found = [field.forbidden(f"spec.devices.requests[{index}].adminAccess", WHY) for index in wanted]
        raise errors.invalid(request.resource.kind, request.name, found, request.resource.group)
