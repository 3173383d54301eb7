# SPDX-License-Identifier: BSD-2-Clause
"""ServiceAccount: the account that a pod names exists. Pods get neither the default account nor a token here.

Source: plugin/pkg/admission/serviceaccount/admission.go.
"""

from __future__ import annotations

from kubesim.admission.request import AdmissionRequest


def admit(request: AdmissionRequest) -> None:
    if request.obj is None or not request.concerns("Pod", "CREATE"):
        return
    name = request.obj["spec"].get("serviceAccountName")
    if name and request.registry.get("ServiceAccount", request.namespace, name) is None:
        text = f'error looking up service account {request.namespace}/{name}: serviceaccount "{name}" not found'
        raise request.forbidden(text)
