# SPDX-License-Identifier: BSD-2-Clause
"""DefaultTolerationSeconds: pods stay five minutes on a node that fails, unless they say otherwise.

Source: plugin/pkg/admission/defaulttolerationseconds/admission.go.
"""

from __future__ import annotations

from kubesim.admission.request import AdmissionRequest

SECONDS = 300
TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def admit(request: AdmissionRequest) -> None:
    if request.obj is None or not request.concerns("Pod", "CREATE", "UPDATE"):
        return
    spec = request.obj["spec"]
    tolerated = spec.get("tolerations") or []
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
        for key in TAINTS
        if not any(t.get("key", "") in ("", key) and t.get("effect", "") in ("", "NoExecute") for t in tolerated)
    ]
    if missing:
        spec["tolerations"] = [*tolerated, *missing]
