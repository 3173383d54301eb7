# SPDX-License-Identifier: BSD-2-Clause
"""The API resources that the collection reads and writes, and their URL paths.

The paths are fixed because every resource below is GA since Kubernetes 1.23 or earlier, except those of devices and
policies: discovery would cost three requests per task for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

Object = Mapping[str, Any]  # of any kind, as the API server has it


@dataclass(frozen=True)
class Resource:
    """A kind: its group and version, its plural in URLs and whether it is namespaced."""

    kind: str
    api_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The URL path of one object; without ``name`` of the list, without ``namespace`` in all namespaces."""
        prefix = "/apis" if "/" in self.api_version else "/api"
        place = ("namespaces", namespace) if self.namespaced and namespace else ()
        return "/".join([prefix, self.api_version, *place, self.plural, *([name] if name else [])])


_ADMISSION = "admissionregistration.k8s.io/v1"  # policies are GA since 1.30
_AUTHORIZATION = "authorization.k8s.io/v1"
_DEVICES = "resource.k8s.io/v1"  # GA since 1.34; read and written only where devices are claimed
_RBAC = "rbac.authorization.k8s.io/v1"

ADMISSION_POLICY = Resource("ValidatingAdmissionPolicy", _ADMISSION, "validatingadmissionpolicies", namespaced=False)
ADMISSION_POLICY_BINDING = Resource(
    "ValidatingAdmissionPolicyBinding", _ADMISSION, "validatingadmissionpolicybindings", namespaced=False
)
API_SERVICE = Resource("APIService", "apiregistration.k8s.io/v1", "apiservices", namespaced=False)
CLUSTER_ROLE = Resource("ClusterRole", _RBAC, "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Resource("ClusterRoleBinding", _RBAC, "clusterrolebindings", namespaced=False)
CONFIG_MAP = Resource("ConfigMap", "v1", "configmaps")
CONTROLLER_REVISION = Resource("ControllerRevision", "apps/v1", "controllerrevisions")
CRON_JOB = Resource("CronJob", "batch/v1", "cronjobs")
DAEMON_SET = Resource("DaemonSet", "apps/v1", "daemonsets")
DEPLOYMENT = Resource("Deployment", "apps/v1", "deployments")
DEVICE_CLASS = Resource("DeviceClass", _DEVICES, "deviceclasses", namespaced=False)
EVENT = Resource("Event", "v1", "events")
HORIZONTAL_POD_AUTOSCALER = Resource("HorizontalPodAutoscaler", "autoscaling/v2", "horizontalpodautoscalers")
JOB = Resource("Job", "batch/v1", "jobs")
LEASE = Resource("Lease", "coordination.k8s.io/v1", "leases")
LIMIT_RANGE = Resource("LimitRange", "v1", "limitranges")
MUTATING_WEBHOOKS = Resource(
    "MutatingWebhookConfiguration", _ADMISSION, "mutatingwebhookconfigurations", namespaced=False
)
NAMESPACE = Resource("Namespace", "v1", "namespaces", namespaced=False)
NETWORK_POLICY = Resource("NetworkPolicy", "networking.k8s.io/v1", "networkpolicies")
NODE = Resource("Node", "v1", "nodes", namespaced=False)
PERSISTENT_VOLUME = Resource("PersistentVolume", "v1", "persistentvolumes", namespaced=False)
PERSISTENT_VOLUME_CLAIM = Resource("PersistentVolumeClaim", "v1", "persistentvolumeclaims")
POD = Resource("Pod", "v1", "pods")
POD_DISRUPTION_BUDGET = Resource("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets")
PRIORITY_CLASS = Resource("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", namespaced=False)
RESOURCE_CLAIM = Resource("ResourceClaim", _DEVICES, "resourceclaims")
RESOURCE_CLAIM_TEMPLATE = Resource("ResourceClaimTemplate", _DEVICES, "resourceclaimtemplates")
RESOURCE_QUOTA = Resource("ResourceQuota", "v1", "resourcequotas")
RESOURCE_SLICE = Resource("ResourceSlice", _DEVICES, "resourceslices", namespaced=False)
SECRET = Resource("Secret", "v1", "secrets")
ROLE = Resource("Role", _RBAC, "roles")
ROLE_BINDING = Resource("RoleBinding", _RBAC, "rolebindings")
RUNTIME_CLASS = Resource("RuntimeClass", "node.k8s.io/v1", "runtimeclasses", namespaced=False)
SELF_SUBJECT_ACCESS_REVIEW = Resource(
    "SelfSubjectAccessReview", _AUTHORIZATION, "selfsubjectaccessreviews", namespaced=False
)
SELF_SUBJECT_REVIEW = Resource("SelfSubjectReview", "authentication.k8s.io/v1", "selfsubjectreviews", namespaced=False)
SERVICE = Resource("Service", "v1", "services")
SERVICE_ACCOUNT = Resource("ServiceAccount", "v1", "serviceaccounts")
STATEFUL_SET = Resource("StatefulSet", "apps/v1", "statefulsets")
STORAGE_CLASS = Resource("StorageClass", "storage.k8s.io/v1", "storageclasses", namespaced=False)

# Kueue is optional, and its version varies: see read_admissions in jobs/job_plans.py.
KUEUE_WORKLOAD = Resource("Workload", "kueue.x-k8s.io/v1beta1", "workloads")
KUEUE_VERSION = "kueue.x-k8s.io/v1beta2"  # of all that is written for pools with queues; served since Kueue 0.15
ADMISSION_CHECK = Resource("AdmissionCheck", KUEUE_VERSION, "admissionchecks", namespaced=False)
CLUSTER_QUEUE = Resource("ClusterQueue", KUEUE_VERSION, "clusterqueues", namespaced=False)
COHORT = Resource("Cohort", KUEUE_VERSION, "cohorts", namespaced=False)
LOCAL_QUEUE = Resource("LocalQueue", KUEUE_VERSION, "localqueues")
MULTIKUEUE_CLUSTER = Resource("MultiKueueCluster", KUEUE_VERSION, "multikueueclusters", namespaced=False)
MULTIKUEUE_CONFIG = Resource("MultiKueueConfig", KUEUE_VERSION, "multikueueconfigs", namespaced=False)
RESOURCE_FLAVOR = Resource("ResourceFlavor", KUEUE_VERSION, "resourceflavors", namespaced=False)
SUBJECT_ACCESS_REVIEW = Resource("SubjectAccessReview", _AUTHORIZATION, "subjectaccessreviews", namespaced=False)
TOPOLOGY = Resource("Topology", KUEUE_VERSION, "topologies", namespaced=False)
VALIDATING_WEBHOOKS = Resource(
    "ValidatingWebhookConfiguration", _ADMISSION, "validatingwebhookconfigurations", namespaced=False
)

# Of operators, which are optional too. Where their kinds are missing, what asks for them says so.
_MONITORING = "monitoring.coreos.com/v1"
ALERTMANAGER = Resource("Alertmanager", _MONITORING, "alertmanagers")
ALERTMANAGER_CONFIG = Resource("AlertmanagerConfig", "monitoring.coreos.com/v1alpha1", "alertmanagerconfigs")
GRAFANA_DASHBOARD = Resource("GrafanaDashboard", "grafana.integreatly.org/v1beta1", "grafanadashboards")
POD_MONITOR = Resource("PodMonitor", _MONITORING, "podmonitors")
PROMETHEUS = Resource("Prometheus", _MONITORING, "prometheuses")
PROMETHEUS_RULE = Resource("PrometheusRule", _MONITORING, "prometheusrules")
SCALED_OBJECT = Resource("ScaledObject", "keda.sh/v1alpha1", "scaledobjects")
SERVICE_MONITOR = Resource("ServiceMonitor", _MONITORING, "servicemonitors")

VOLCANO_VERSION = "scheduling.volcano.sh/v1beta1"  # Volcano is optional, too.
POD_GROUP = Resource("PodGroup", VOLCANO_VERSION, "podgroups")
QUEUE = Resource("Queue", VOLCANO_VERSION, "queues", namespaced=False)
VOLCANO_TOPOLOGY_VERSION = "topology.volcano.sh/v1alpha1"
HYPER_NODE = Resource("HyperNode", VOLCANO_TOPOLOGY_VERSION, "hypernodes", namespaced=False)
NATIVE_VERSION = "scheduling.k8s.io/v1alpha2"  # of Kubernetes itself. BY_KIND has Volcano's PodGroup, not this one's.

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"  # Finished pods hold no resources.

BY_KIND = {value.kind: value for value in tuple(globals().values()) if isinstance(value, Resource)}


def resource_of(obj: dict[str, Any]) -> Resource:
    """The resource of an object, in the object's version. Raises KeyError for any other kind."""
    return replace(BY_KIND[obj["kind"]], api_version=obj["apiVersion"])
