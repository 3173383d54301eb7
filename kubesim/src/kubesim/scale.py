# SPDX-License-Identifier: BSD-2-Clause
"""The subresource scale of a workload, as requests see it and admission, too.

Source: pkg/registry/apps/*/storage (ScaleREST).
"""

from __future__ import annotations

from typing import Any

from kubesim.resources import Resource
from kubesim.selectors import selector_text

Object = dict[str, Any]
SCALE_RESOURCE = Resource("autoscaling", "v1", "scales", "Scale")


def scale_of(obj: Object) -> Object:
    """autoscaling/v1 Scale of a workload; numbers that are 0 are left out as in every int32 with omitempty."""
    meta, replicas = obj["metadata"], obj["spec"].get("replicas", 0)
    status: Object = {"replicas": obj.get("status", {}).get("replicas", 0)}
    selector = selector_text(obj["spec"].get("selector"))
    if selector:
        status["selector"] = selector
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in names if name in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }
