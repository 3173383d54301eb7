# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The API resources that the collection reads and writes, and where the server keeps them.

Fixed paths instead of discovery: every resource below is GA since Kubernetes 1.23 or earlier, so asking the server
for them would cost three requests per task and tell nothing new.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Resource(NamedTuple):
    """One kind: its group and version, its plural in URLs and whether it lives in a namespace."""

    kind: str
    api_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The URL path of one object; of the collection without ``name``, in all namespaces without ``namespace``."""
        prefix = "/apis" if "/" in self.api_version else "/api"
        parts = [prefix, self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        return "/".join(parts)


CLUSTER_ROLE = Resource("ClusterRole", "rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Resource(
    "ClusterRoleBinding", "rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False
)
CONFIG_MAP = Resource("ConfigMap", "v1", "configmaps")
DEPLOYMENT = Resource("Deployment", "apps/v1", "deployments")
EVENT = Resource("Event", "v1", "events")
HORIZONTAL_POD_AUTOSCALER = Resource("HorizontalPodAutoscaler", "autoscaling/v2", "horizontalpodautoscalers")
JOB = Resource("Job", "batch/v1", "jobs")
LEASE = Resource("Lease", "coordination.k8s.io/v1", "leases")
LIMIT_RANGE = Resource("LimitRange", "v1", "limitranges")
NAMESPACE = Resource("Namespace", "v1", "namespaces", namespaced=False)
NODE = Resource("Node", "v1", "nodes", namespaced=False)
PERSISTENT_VOLUME_CLAIM = Resource("PersistentVolumeClaim", "v1", "persistentvolumeclaims")
POD = Resource("Pod", "v1", "pods")
PRIORITY_CLASS = Resource("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", namespaced=False)
RESOURCE_QUOTA = Resource("ResourceQuota", "v1", "resourcequotas")
SECRET = Resource("Secret", "v1", "secrets")
ROLE_BINDING = Resource("RoleBinding", "rbac.authorization.k8s.io/v1", "rolebindings")
SERVICE = Resource("Service", "v1", "services")
SERVICE_ACCOUNT = Resource("ServiceAccount", "v1", "serviceaccounts")
STATEFUL_SET = Resource("StatefulSet", "apps/v1", "statefulsets")

# Kueue is installed or not, and serves this one in the versions that it likes: see cluster/kueue.py.
KUEUE_WORKLOAD = Resource("Workload", "kueue.x-k8s.io/v1beta1", "workloads")

_BY_KIND = {
    resource.kind: resource
    for resource in (
        CLUSTER_ROLE,
        CLUSTER_ROLE_BINDING,
        CONFIG_MAP,
        DEPLOYMENT,
        EVENT,
        HORIZONTAL_POD_AUTOSCALER,
        JOB,
        KUEUE_WORKLOAD,
        LEASE,
        LIMIT_RANGE,
        NAMESPACE,
        NODE,
        PERSISTENT_VOLUME_CLAIM,
        POD,
        PRIORITY_CLASS,
        RESOURCE_QUOTA,
        SECRET,
        ROLE_BINDING,
        SERVICE,
        SERVICE_ACCOUNT,
        STATEFUL_SET,
    )
}


def resource_of(obj: dict[str, Any]) -> Resource:
    """The resource of a Kubernetes object, in its own version. Raises KeyError for a kind that is not used here."""
    return _BY_KIND[obj["kind"]]._replace(api_version=obj["apiVersion"])
