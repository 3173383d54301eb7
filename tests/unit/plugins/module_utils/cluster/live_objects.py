# SPDX-License-Identifier: BSD-2-Clause
"""Small live objects, as the API server returns them, for tests."""

from __future__ import annotations

from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import (
    Node,
    slim_node,
    slim_pod,
    with_use,
)

GIB = 1024**3
POOL, GPU_TYPE, GPU = "runwhere.ai/pool", "runwhere.ai/gpu-type", "nvidia.com/gpu"
LABELS = {"app": "x", "runwhere.ai/job-type": "training", "app.kubernetes.io/managed-by": "runwhere.gpuctl"}
NO_POOL = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": POOL, "operator": "DoesNotExist"}]}]
        }
    }
}


def node(
    name: str = "n1",
    *,
    labels: dict[str, str] | None = None,
    gpu: int = 8,
    cpu: str = "64",
    memory: str = "512Gi",
    ready: str = "True",
    cordoned: bool = False,
    taints: list[dict[str, str]] | None = None,
    **allocatable: str,
) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory, **({GPU: str(gpu)} if gpu else {}), **allocatable}
    spec: dict[str, Any] = {"unschedulable": True} if cordoned else {}
    return {
        "metadata": {"name": name, "labels": labels or {}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {**spec, **({"taints": taints} if taints else {})},
        "status": {
            "allocatable": amounts,
            "capacity": dict.fromkeys(amounts, "999"),
            "conditions": [
                {
                    "type": "Ready",
                    "status": ready,
                    "lastHeartbeatTime": "2026-01-01T00:05:00Z",
                    "lastTransitionTime": "2026-01-01T00:04:00Z",
                    "message": "kubelet is ready." if ready == "True" else "Kubelet stopped posting node status.",
                }
            ],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }


def pod(
    name: str = "x-1",
    *,
    gpu: int = 0,
    cpu: str = "1",
    memory: str = "1Gi",
    labels: dict[str, str] | None = None,
    namespace: str = "ml",
    status: dict[str, Any] | None = None,
    deleted: bool = False,
    share: int = 0,
    **spec: Any,
) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    requests |= {GPU: str(gpu)} if gpu else {}
    requests |= {"aliyun.com/gpu-mem": str(share)} if share else {}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "labels": LABELS if labels is None else labels,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **({"deletionTimestamp": "2026-01-01T00:00:01Z"} if deleted else {}),
    }
    containers = [{"name": "main", "image": "reg/ml:v1", "resources": {"requests": requests}}]
    return {"metadata": metadata, "spec": {"containers": containers, **spec}, "status": status or {"phase": "Pending"}}


def container(**fields: Any) -> dict[str, Any]:
    """One entry of containerStatuses."""
    return {"name": "main", "image": "reg/ml:v1", "ready": False, "restartCount": 0, **fields}


def with_container(phase: str = "Pending", **fields: Any) -> dict[str, Any]:
    """The status of a pod with one container."""
    return {"phase": phase, "containerStatuses": [container(**fields)]}


def unscheduled(message: str = "0/2 nodes are available: 2 Insufficient x.") -> dict[str, Any]:
    return {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}],
    }


def workload(
    kind: str = "Job", *, labels: dict[str, str] | None = None, status: Any = None, **spec: Any
) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": pod()["spec"]["containers"]}}
    metadata = {
        "name": "x",
        "namespace": "ml",
        "uid": "uid-of-x",
        "generation": 1,
        "labels": {**LABELS, **(labels or {})},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    base = {"parallelism": 1, "completions": 1} if kind == "Job" else {"replicas": 2}
    return {"kind": kind, "metadata": metadata, "spec": {**base, "template": template, **spec}, "status": status or {}}


def event(reason: str, message: str, kind: str = "Pod", name: str = "x-1", **fields: Any) -> dict[str, Any]:
    involved = {"kind": kind, "name": name, "uid": "uid-of-x" if kind in ("Job", "Deployment") else f"uid-{name}"}
    metadata = {"name": "e", "namespace": "ml", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "involvedObject": involved, "reason": reason, "message": message, **fields}


def accounted(nodes: list[dict[str, Any]], pods: list[dict[str, Any]] | None = None) -> list[Node]:
    """Nodes with what the pods take of them, as reasons get them."""
    return with_use([slim_node(obj) for obj in nodes], [slim_pod(obj) for obj in pods or ()])
