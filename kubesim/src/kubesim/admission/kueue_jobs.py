# SPDX-License-Identifier: BSD-2-Clause
"""What Kueue's webhook adds to a Job in the queue of a MultiKueue manager: another controller than that of Kubernetes.

Source: kubernetes-sigs/kueue pkg/controller/jobframework/defaults.go (ApplyDefaultForManagedBy).
"""

from __future__ import annotations

from kubesim.admission.request import AdmissionRequest

_QUEUE, _MULTIKUEUE = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/multikueue"


def admit(request: AdmissionRequest) -> None:
    if request.obj is None or not request.concerns("Job", "CREATE"):
        return
    name = (request.obj["metadata"].get("labels") or {}).get(_QUEUE)
    local = request.registry.get("LocalQueue", request.namespace, name) if name else None
    queue = request.registry.get("ClusterQueue", None, local["spec"]["clusterQueue"]) if local else None
    for each in ((queue or {}).get("spec") or {}).get("admissionChecksStrategy", {}).get("admissionChecks") or ():
        check = request.registry.get("AdmissionCheck", None, each["name"])
        if check and check["spec"].get("controllerName") == _MULTIKUEUE:
            request.obj["spec"]["managedBy"] = _MULTIKUEUE
