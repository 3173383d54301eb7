# SPDX-License-Identifier: BSD-2-Clause
"""The table of served resources."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from kubesim.errors import qualified

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)
STATUS_VERBS = ("get", "patch", "update")


@dataclass(frozen=True)
class Subresource:
    """A subresource as discovery lists it; group and version only where its kind is of another group version."""

    name: str
    kind: str = ""
    verbs: tuple[str, ...] = STATUS_VERBS
    group: str = ""
    version: str = ""


@dataclass(frozen=True)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    #: Field selectors beyond metadata.name and metadata.namespace (pkg/apis/*/v1/conversion.go), as label -> path.
    field_labels: dict[str, str] = field(default_factory=dict, hash=False)
    #: rest.RESTUpdateStrategy.AllowCreateOnUpdate: PUT of a missing object creates it.
    create_on_update: bool = False
    #: registry.Store.ReturnDeletedObject: DELETE answers with the object instead of a Status.
    returns_deleted: bool = False
    #: The warning that every answer about this resource carries (apiserver pkg/endpoints/deprecation).
    deprecated: str = ""
    #: The part beside Kubernetes that serves it, where a cluster has that.
    addon: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def qualified(self) -> str:
        return qualified(self.group, self.plural)

    @property
    def has_status(self) -> bool:
        return self.subresource("status") is not None

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"


STATUS = Subresource("status")
SCALE = Subresource("scale", "Scale", group="autoscaling", version="v1")
_ALL = ("all",)


def _core(plural: str, kind: str, **more: object) -> Resource:
    return Resource("", "v1", plural, kind, **more)  # type: ignore[arg-type]


_PROXIED = ("create", "delete", "get", "patch", "update")
_POD_SUBRESOURCES = (
    Subresource("eviction", "Eviction", CREATE_ONLY, "policy", "v1"),
    Subresource("exec", "PodExecOptions", ("create", "get")),
    Subresource("log", "Pod", ("get",)),
    Subresource("proxy", "PodProxyOptions", _PROXIED),
    STATUS,
)
_POD_FIELDS = {
    "spec.nodeName": "spec.nodeName",
    "spec.restartPolicy": "spec.restartPolicy",
    "spec.schedulerName": "spec.schedulerName",
    "spec.serviceAccountName": "spec.serviceAccountName",
    "spec.hostNetwork": "spec.hostNetwork",
    "status.phase": "status.phase",
    "status.podIP": "status.podIP",
    "status.podIPs": "status.podIP",
    "status.nominatedNodeName": "status.nominatedNodeName",
}
_EVENT_FIELDS = {
    **{f"involvedObject.{name}": f"involvedObject.{name}" for name in
       ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")},
    "reason": "reason",
    "reportingComponent": "reportingComponent",
    "source": "source.component",
    "type": "type",
}  # fmt: skip

RESOURCES: tuple[Resource, ...] = (
    _core("configmaps", "ConfigMap", short_names=("cm",)),
    _core("endpoints", "Endpoints", short_names=("ep",), create_on_update=True,
          deprecated="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    _core("events", "Event", short_names=("ev",), field_labels=_EVENT_FIELDS, create_on_update=True),
    _core("limitranges", "LimitRange", short_names=("limits",), create_on_update=True),
    _core(
        "namespaces", "Namespace", namespaced=False, short_names=("ns",), field_labels={"status.phase": "status.phase"},
        verbs=tuple(v for v in ALL_VERBS if v != "deletecollection"), returns_deleted=True,
        subresources=(Subresource("finalize", verbs=("update",)), STATUS),
    ),
    _core(
        "nodes", "Node", namespaced=False, short_names=("no",), subresources=(STATUS,),
        field_labels={"spec.unschedulable": "spec.unschedulable"},
    ),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",), subresources=(STATUS,),
          returns_deleted=True),
    _core("pods", "Pod", short_names=("po",), categories=_ALL, subresources=_POD_SUBRESOURCES, field_labels=_POD_FIELDS,
          returns_deleted=True),
    _core("resourcequotas", "ResourceQuota", short_names=("quota",), subresources=(STATUS,), create_on_update=True,
          returns_deleted=True),
    _core("secrets", "Secret", field_labels={"type": "type"}),
    _core("serviceaccounts", "ServiceAccount", short_names=("sa",), returns_deleted=True,
          subresources=(Subresource("token", "TokenRequest", CREATE_ONLY, "authentication.k8s.io", "v1"),)),
    _core(
        "services", "Service", short_names=("svc",), categories=_ALL, create_on_update=True,
        subresources=(Subresource("proxy", "ServiceProxyOptions", _PROXIED), STATUS),
        verbs=ALL_VERBS, returns_deleted=True,
        field_labels={"spec.clusterIP": "spec.clusterIP", "spec.type": "spec.type"},
    ),
    Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False,
             subresources=(STATUS,)),
    Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings",
             "ValidatingAdmissionPolicyBinding", False),
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision"),
    Resource("apps", "v1", "daemonsets", "DaemonSet", short_names=("ds",), categories=_ALL, subresources=(STATUS,)),
    Resource("apps", "v1", "deployments", "Deployment", short_names=("deploy",), categories=_ALL,
             subresources=(SCALE, STATUS)),
    Resource("apps", "v1", "replicasets", "ReplicaSet", short_names=("rs",), categories=_ALL,
             subresources=(SCALE, STATUS)),
    Resource("apps", "v1", "statefulsets", "StatefulSet", short_names=("sts",), categories=_ALL,
             subresources=(SCALE, STATUS)),
    Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False, verbs=CREATE_ONLY),
    Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, verbs=CREATE_ONLY),
    Resource("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=CREATE_ONLY),
    Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False,
             verbs=CREATE_ONLY),
    Resource("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False,
             verbs=CREATE_ONLY),
    Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, verbs=CREATE_ONLY),
    Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", short_names=("hpa",),
             categories=_ALL, subresources=(STATUS,)),
    Resource("batch", "v1", "cronjobs", "CronJob", short_names=("cj",), categories=_ALL, subresources=(STATUS,)),
    Resource("batch", "v1", "jobs", "Job", categories=_ALL, subresources=(STATUS,),
             field_labels={"status.successful": "status.succeeded"}),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", create_on_update=True),
    Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", False, subresources=(STATUS,)),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",)),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",),
             subresources=(STATUS,)),
    Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False,
             create_on_update=True),
    Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False, create_on_update=True),
    Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", create_on_update=True),
    Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", create_on_update=True),
    Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, returns_deleted=True),
    Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", subresources=(STATUS,), returns_deleted=True),
    Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", returns_deleted=True),
    Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False, returns_deleted=True,
             field_labels={"spec.nodeName": "spec.nodeName", "spec.driver": "spec.driver"}),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, short_names=("pc",),
             create_on_update=True),
    Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, short_names=("sc",),
             returns_deleted=True),
)  # fmt: skip

#: What only clusters with more than Kubernetes serve.
ADDED: tuple[Resource, ...] = (
    Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", short_names=("wl",), subresources=(STATUS,),
             addon="kueue"),
    # Only in discovery, as gpuctl and kubectl look there for it.
    Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, verbs=("get",), addon="metrics"),
    Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", False, short_names=("cq",),
             subresources=(STATUS,), addon="kueue"),
    Resource("kueue.x-k8s.io", "v1beta2", "cohorts", "Cohort", False, subresources=(STATUS,), addon="kueue"),
    Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", short_names=("lq",), subresources=(STATUS,),
             addon="kueue"),
    Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", False, short_names=("rf",),
             addon="kueue"),
    Resource("kueue.x-k8s.io", "v1beta2", "topologies", "Topology", False, addon="kueue"),
    Resource("kueue.x-k8s.io", "v1beta2", "admissionchecks", "AdmissionCheck", False, short_names=("ac",),
             subresources=(STATUS,), addon="kueue"),
    Resource("kueue.x-k8s.io", "v1beta2", "multikueueclusters", "MultiKueueCluster", False, short_names=("mkc",),
             subresources=(STATUS,), addon="kueue"),
    Resource("kueue.x-k8s.io", "v1beta2", "multikueueconfigs", "MultiKueueConfig", False, short_names=("mkconf",),
             addon="kueue"),
    Resource("monitoring.coreos.com", "v1", "alertmanagers", "Alertmanager", addon="prometheus-operator"),
    Resource("monitoring.coreos.com", "v1", "podmonitors", "PodMonitor", addon="prometheus-operator"),
    Resource("monitoring.coreos.com", "v1", "prometheuses", "Prometheus", addon="prometheus-operator"),
    Resource("monitoring.coreos.com", "v1", "prometheusrules", "PrometheusRule", addon="prometheus-operator"),
    Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor", addon="prometheus-operator"),
    Resource("monitoring.coreos.com", "v1alpha1", "alertmanagerconfigs", "AlertmanagerConfig",
             addon="prometheus-operator"),
    Resource("grafana.integreatly.org", "v1beta1", "grafanadashboards", "GrafanaDashboard", addon="grafana-operator"),
    Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject", addon="keda"),
    # metrics/served.py
    Resource("custom.metrics.k8s.io", "v1beta2", "pods", "MetricValueList", verbs=("get",), addon="custom-metrics"),
    Resource("external.metrics.k8s.io", "v1beta1", "metrics", "ExternalMetricValueList", verbs=("get",),
             addon="external-metrics"),
    Resource("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", False, short_names=("hn",), addon="volcano",
             subresources=(STATUS,)),
    Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", short_names=("pg",), addon="volcano"),
    Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", False, short_names=("q",), subresources=(STATUS,),
             addon="volcano"),
    Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", addon="native-gangs"),
    # Only in discovery: the versions before v1, where they are switched on.
    Resource("resource.k8s.io", "v1beta1", "deviceclasses", "DeviceClass", False, verbs=("get",), addon="beta-claims"),
    Resource("resource.k8s.io", "v1beta2", "deviceclasses", "DeviceClass", False, verbs=("get",), addon="beta-claims"),
)  # fmt: skip

_ALL_RESOURCES = (*RESOURCES, *ADDED)
_BY_PATH = {(r.group, r.version, r.plural): r for r in _ALL_RESOURCES}
_BY_KIND = {r.kind: r for r in reversed(_ALL_RESOURCES)}
_BY_VERSION = {(r.api_version, r.kind): r for r in ADDED}

#: Group versions that every cluster serves, preferred version of a group first.
GROUP_VERSIONS: tuple[tuple[str, str], ...] = tuple(dict.fromkeys((r.group, r.version) for r in RESOURCES))


def served(addons: Collection[str], without: Collection[str] = ()) -> tuple[Resource, ...]:
    """What a cluster with these parts beside Kubernetes, and without these groups or PLURAL.GROUPs of it, serves."""
    return tuple(r for r in _ALL_RESOURCES if is_served(r, addons, without))


def is_served(resource: Resource, addons: Collection[str], without: Collection[str]) -> bool:
    if resource.addon:
        return resource.addon in addons
    return resource.group not in without and resource.qualified not in without


def find(group: str, version: str, plural: str) -> Resource | None:
    return _BY_PATH.get((group, version, plural))


def by_kind(kind: str, api_version: str = "") -> Resource:
    """The resource a kind is stored as; KeyError for an unknown kind. PodGroups are of Volcano or of Kubernetes."""
    return _BY_VERSION.get((api_version, kind)) or _BY_KIND[kind]


def stored_kinds() -> list[str]:
    """The kinds that have objects."""
    return list(dict.fromkeys(r.kind for r in _ALL_RESOURCES if "list" in r.verbs))
