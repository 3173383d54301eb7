# SPDX-License-Identifier: BSD-2-Clause
"""The types of the API: what a field may hold, how its list merges, and what Go's JSON does with it.

Read from the OpenAPI definitions that the package kubernetes-validate ships. What those do not say (which scalars Go
holds by pointer, so that `0` and `""` survive `omitempty`; which fields are always written) is in the tables below,
from k8s.io/api */types.go.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from kubesim import quantity

VERSION = "v1.36.0-local"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."


class DecodeError(ValueError):
    """A value does not fit its Go type; the text is what Go's decoder says."""


class Misfit(DecodeError):
    """json.UnmarshalTypeError: names the JSON value, the innermost struct, the path of fields, the Go type."""

    def __init__(self, value: Any, path: str, go: str) -> None:
        super().__init__(value)
        self.what = _json_kind(value, go)
        self.path = "".join(part.split("]")[-1] for part in path.split("["))
        self.go = go
        self.struct = ""

    def __str__(self) -> str:
        where = f"Go struct field {self.struct}.{self.path}" if self.path else "Go value"
        return f"json: cannot unmarshal {self.what} into {where} of type {self.go}"


@dataclass
class Report:
    """What strict decoding objects to, in the order of the document (sigs.k8s.io/json UnmarshalStrict)."""

    problems: list[str] = field(default_factory=list)


class RepeatedKeys(dict[str, Any]):
    """A JSON object in which keys were given twice."""

    repeated: list[str]


def load_json(text: bytes | str) -> Any:
    """json.loads that remembers repeated keys."""

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        keys = [key for key, _ in pairs]
        marked = RepeatedKeys(plain)
        marked.repeated = list(dict.fromkeys(k for i, k in enumerate(keys) if k in keys[:i]))
        return marked

    return json.loads(text, object_pairs_hook=build)


def repeated_keys(value: Any, path: str = "") -> list[str]:
    """What strict decoding says of keys given twice anywhere in a document."""
    found: list[str] = []
    if isinstance(value, RepeatedKeys):
        found += [f'duplicate field "{_join(path, key)}"' for key in value.repeated]
    if isinstance(value, dict):
        for key, item in value.items():
            found += repeated_keys(item, _join(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += repeated_keys(item, f"{path}[{index}]")
    return found


class Type:
    """A type: reads a JSON value as Go would and gives what Go would write back."""

    go = "interface {}"
    zero: Any = None

    def read(self, value: Any, path: str, report: Report | None) -> Any:
        return value

    def is_empty(self, value: Any) -> bool:
        """Whether omitempty leaves the value out."""
        return value is None


class Scalar(Type):
    def __init__(self, go: str, python: type, zero: Any) -> None:
        self.go, self.python, self.zero = go, python, zero

    def read(self, value: Any, path: str, report: Report | None) -> Any:
        if value is None:
            return self.zero
        if type(value) is not self.python:
            if self.python is float and type(value) is int:
                return value
            raise Misfit(value, path, self.go)
        if self.go == "int32" and isinstance(value, int) and not -(2**31) <= value < 2**31:
            raise Misfit(value, path, self.go)
        return value

    def is_empty(self, value: Any) -> bool:
        return bool(value == self.zero)


class Bytes(Scalar):
    def __init__(self) -> None:
        super().__init__("[]uint8", str, "")

    def read(self, value: Any, path: str, report: Report | None) -> Any:
        text = super().read(value, path, report)
        try:
            base64.b64decode(text, validate=True)
        except binascii.Error:
            raise DecodeError(f"illegal base64 data at input byte {_bad_base64(text)}") from None
        return text


#: The same few quantities come by the thousand.
_canonical = lru_cache(maxsize=4096, typed=True)(quantity.canonical)


class QuantityType(Type):
    """resource.Quantity: a number or a string, written in canonical form."""

    go = "resource.Quantity"
    zero = "0"

    def read(self, value: Any, path: str, report: Report | None) -> Any:
        if value is None:
            return self.zero
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise DecodeError(quantity.FORMAT_ERROR)
        try:
            return _canonical(value)
        except ValueError as error:
            raise DecodeError(str(error)) from None


class IntOrString(Type):
    go = "intstr.IntOrString"
    zero = 0

    def read(self, value: Any, path: str, report: Report | None) -> Any:
        if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        if value is None:
            return self.zero
        raise Misfit(value, path, "int32")


class Time(Type):
    go = "time.Time"

    def read(self, value: Any, path: str, report: Report | None) -> Any:
        if value is not None and not isinstance(value, str):
            raise Misfit(value, path, "string")
        return value or None


class ListType(Type):
    def __init__(self, item: Type, spec: dict[str, Any]) -> None:
        self.item = item
        self.go = f"[]{item.go}"
        self.list_type: str = spec.get("x-kubernetes-list-type", "atomic")
        self.keys: list[str] = spec.get("x-kubernetes-list-map-keys", [])
        self.merge_key: str = spec.get("x-kubernetes-patch-merge-key", "")
        self.patch_strategy: list[str] = spec.get("x-kubernetes-patch-strategy", "").split(",")

    def read(self, value: Any, path: str, report: Report | None) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise Misfit(value, path, self.go)
        item = self.item
        return [item.read(v, f"{path}[{i}]", report) for i, v in enumerate(value)]

    def is_empty(self, value: Any) -> bool:
        return not value


class MapType(Type):
    def __init__(self, item: Type, spec: dict[str, Any]) -> None:
        self.item = item
        self.go = f"map[string]{item.go}"
        self.atomic = spec.get("x-kubernetes-map-type") == "atomic"

    def read(self, value: Any, path: str, report: Report | None) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Misfit(value, path, self.go)
        item = self.item
        return {k: item.read(v, path, report) for k, v in value.items()}

    def is_empty(self, value: Any) -> bool:
        return not value


class Free(Type):
    """runtime.RawExtension, FieldsV1: any object."""


@dataclass
class Field:
    type: Type
    pointer: bool  # given values are kept, empty or not
    always: bool  # written even when not given


class Struct(Type):
    def __init__(self, name: str, spec: dict[str, Any]) -> None:
        self.name = name
        self.go = _go_name(name)
        self.atomic = spec.get("x-kubernetes-map-type") == "atomic"
        self.patch_strategy = spec.get("x-kubernetes-patch-strategy", "")
        self.fields: dict[str, Field] = {}
        self.always: list[tuple[str, Field]] = []

    def read(self, value: Any, path: str, report: Report | None) -> Any:
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise Misfit(value, path, self.go)
        if report is not None and isinstance(value, RepeatedKeys):
            report.problems += [f'duplicate field "{_join(path, key)}"' for key in value.repeated]
        out: dict[str, Any] = {}
        fields = self.fields
        for key, item in value.items():
            known = fields.get(key)
            if known is None:
                if report is not None:
                    report.problems.append(f'unknown field "{_join(path, key)}"')
            elif item is not None:
                try:
                    read = known.type.read(item, f"{path}.{key}" if path else key, report)
                except Misfit as error:
                    error.struct = error.struct or self.go.rpartition(".")[2]
                    raise
                if known.pointer or not known.type.is_empty(read):
                    out[key] = read
        for key, known in self.always:
            if key not in out:
                out[key] = known.type.zero if not isinstance(known.type, Struct) else known.type.empty()
        return out

    def empty(self) -> Any:
        """What Go writes for an unset struct: its fields that are always written; None where it is a pointer."""
        return self.read({}, "", None)

    def is_empty(self, value: Any) -> bool:
        return value is None


class NilPointer(Struct):
    """A required pointer to a struct: `null` when it was not given (the selector of a Deployment)."""

    def __init__(self, target: Struct) -> None:
        self.__dict__.update(target.__dict__)

    def empty(self) -> Any:
        return None


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _json_kind(value: Any, go: str) -> str:
    """What Go calls a JSON value; numbers with their digits where a number was wanted."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number" if go in ("string", "bool") or not go[0].islower() else f"number {json.dumps(value)}"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _bad_base64(text: str) -> int:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return next((i for i, c in enumerate(text.rstrip("=")) if c not in alphabet), len(text))


def _go_name(definition: str) -> str:
    package, _, name = definition.rpartition(".")
    return f"{package.rpartition('.')[2]}.{name}"


# --- what Go's types say beyond the OpenAPI definitions ---------------------------------------------------------------

#: Scalars that Go holds by pointer (or that are never empty): an empty value given is kept. By definition, short name.
_POINTERS = """
core.PersistentVolumeSpec volumeMode volumeAttributesClassName
core.PersistentVolumeClaimSpec storageClassName volumeMode volumeAttributesClassName
core.TypedObjectReference apiGroup namespace
core.HostPathVolumeSource type
core.SecretVolumeSource defaultMode optional
core.SecretProjection optional
core.ConfigMapVolumeSource defaultMode optional
core.ConfigMapProjection optional
core.ServiceAccountTokenProjection expirationSeconds
core.ClusterTrustBundleProjection name signerName optional
core.ProjectedVolumeSource defaultMode
core.KeyToPath mode
core.CSIVolumeSource readOnly fsType
core.VolumeMount recursiveReadOnly mountPropagation
core.FileKeySelector optional
core.ConfigMapKeySelector optional
core.SecretKeySelector optional
core.ConfigMapEnvSource optional
core.SecretEnvSource optional
core.GRPCAction service
core.Probe terminationGracePeriodSeconds
core.Container restartPolicy
core.Lifecycle stopSignal
core.ContainerStatus started stopSignal
core.Toleration tolerationSeconds
core.PodSpec terminationGracePeriodSeconds activeDeadlineSeconds automountServiceAccountToken shareProcessNamespace
core.PodSpec priority runtimeClassName enableServiceLinks preemptionPolicy setHostnameAsFQDN hostUsers hostnameOverride
core.PodResourceClaim resourceClaimName resourceClaimTemplateName
core.TopologySpreadConstraint minDomains nodeAffinityPolicy nodeTaintsPolicy
core.PodSecurityContext runAsUser runAsGroup runAsNonRoot supplementalGroupsPolicy fsGroup fsGroupChangePolicy
core.PodSecurityContext seLinuxChangePolicy
core.SeccompProfile localhostProfile
core.AppArmorProfile localhostProfile
core.PodDNSConfigOption value
core.EphemeralContainer restartPolicy
core.ClientIPConfig timeoutSeconds
core.LoadBalancerIngress ipMode
core.ServiceSpec ipFamilyPolicy allocateLoadBalancerNodePorts loadBalancerClass internalTrafficPolicy
core.ServiceSpec trafficDistribution
core.ServicePort appProtocol
core.ServiceAccount automountServiceAccountToken
core.EndpointAddress nodeName
core.EndpointPort appProtocol
core.NodeSwapStatus capacity
core.TypedLocalObjectReference apiGroup
core.Secret immutable
core.ConfigMap immutable
core.DownwardAPIVolumeSource defaultMode
core.DownwardAPIVolumeFile mode
core.SecurityContext privileged runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem procMount
core.SecurityContext allowPrivilegeEscalation
core.PortStatus error
apps.RollingUpdateStatefulSetStrategy partition maxUnavailable
apps.StatefulSetSpec replicas revisionHistoryLimit
apps.StatefulSetStatus collisionCount
apps.DeploymentSpec replicas revisionHistoryLimit progressDeadlineSeconds
apps.RollingUpdateDeployment maxUnavailable maxSurge
apps.DeploymentStatus terminatingReplicas collisionCount
apps.ReplicaSetSpec replicas
apps.ReplicaSetStatus terminatingReplicas
batch.PodFailurePolicyOnExitCodesRequirement containerName
batch.SuccessPolicyRule succeededIndexes succeededCount
batch.CronJobSpec timeZone startingDeadlineSeconds suspend successfulJobsHistoryLimit failedJobsHistoryLimit
batch.JobSpec parallelism completions activeDeadlineSeconds backoffLimit backoffLimitPerIndex maxFailedIndexes
batch.JobSpec manualSelector ttlSecondsAfterFinished completionMode suspend podReplacementPolicy managedBy
batch.JobStatus terminating failedIndexes ready
autoscaling.HorizontalPodAutoscalerSpec minReplicas targetCPUUtilizationPercentage
autoscaling.HorizontalPodAutoscalerStatus observedGeneration currentCPUUtilizationPercentage
autoscaling.HPAScalingRules stabilizationWindowSeconds selectPolicy
autoscaling.MetricTarget averageUtilization
autoscaling.MetricValueStatus averageUtilization
policy.PodDisruptionBudgetSpec minAvailable maxUnavailable unhealthyPodEvictionPolicy
scheduling.PriorityClass preemptionPolicy
resource.ResourceSliceSpec nodeName allNodes perDeviceNodeSelection
resource.Device nodeName allNodes bindsToNode allowMultipleAllocations
resource.DeviceAttribute int bool string version
resource.NodeAllocatableResourceMapping capacityKey
resource.ExactDeviceRequest adminAccess
resource.DeviceConstraint matchAttribute distinctAttribute
resource.DeviceToleration tolerationSeconds
resource.DeviceRequestAllocationResult adminAccess shareID
resource.DeviceClassSpec extendedResourceName
resource.AllocatedDeviceStatus shareID
coordination.LeaseSpec holderIdentity leaseDurationSeconds leaseTransitions strategy preferredHolder
discovery.Endpoint hostname nodeName zone
discovery.EndpointConditions ready serving terminating
discovery.EndpointPort name protocol port appProtocol
meta.OwnerReference controller blockOwnerDeletion
meta.ObjectMeta deletionGracePeriodSeconds
meta.DeleteOptions gracePeriodSeconds orphanDependents
"""

#: Written even when empty, beyond the fields that the definitions call required: structs held by value, times held by
#: value (null), fields without omitempty.
_ALWAYS = """
core.PersistentVolumeClaimSpec resources
core.PersistentVolumeClaimCondition lastProbeTime lastTransitionTime
core.ResourceFieldSelector divisor
core.Container resources
core.EphemeralContainer resources
core.ContainerStatus state lastState
core.ContainerStateRunning startedAt
core.ContainerStateTerminated startedAt finishedAt
core.PodCondition lastProbeTime lastTransitionTime
core.ServiceStatus loadBalancer
core.NodeStatus daemonEndpoints nodeInfo
core.NodeDaemonEndpoints kubeletEndpoint
core.NodeCondition lastHeartbeatTime lastTransitionTime
core.NamespaceCondition lastTransitionTime
core.Event source firstTimestamp lastTimestamp eventTime reportingComponent reportingInstance
core.EventSeries lastObservedTime
core.ProjectedVolumeSource sources
core.ContainerImage names
apps.StatefulSetSpec updateStrategy serviceName
apps.StatefulSetOrdinals start
apps.StatefulSetStatus availableReplicas
apps.StatefulSetCondition lastTransitionTime
apps.DeploymentSpec strategy
apps.DeploymentCondition lastUpdateTime lastTransitionTime
apps.ReplicaSetSpec template
apps.ReplicaSetCondition lastTransitionTime
apps.ControllerRevision data
batch.CronJobSpec schedule jobTemplate
batch.JobCondition lastProbeTime lastTransitionTime
batch.PodFailurePolicyOnPodConditionsPattern status
autoscaling.HorizontalPodAutoscalerStatus currentMetrics
autoscaling.HorizontalPodAutoscalerCondition lastTransitionTime
policy.PodDisruptionBudgetStatus currentHealthy desiredHealthy disruptionsAllowed expectedPods
rbac.RoleRef apiGroup
rbac.Role rules
rbac.ClusterRole rules
scheduling.PriorityClass value
resource.ResourceClaimSpec devices
resource.DeviceClaim requests
resource.ResourceClaimTemplateSpec metadata spec
resource.AllocationResult devices
discovery.Endpoint conditions
discovery.EndpointSlice endpoints ports
"""

#: Required, but a pointer in Go: null when not given.
_NIL = {("DeploymentSpec", "selector"), ("ReplicaSetSpec", "selector"), ("StatefulSetSpec", "selector")}


def _table(text: str) -> dict[str, set[str]]:
    rows: dict[str, set[str]] = {}
    for line in text.strip().splitlines():
        name, *fields = line.split()
        rows.setdefault(name, set()).update(fields)
    return rows


_POINTER_FIELDS, _ALWAYS_FIELDS = _table(_POINTERS), _table(_ALWAYS)


def short_name(definition: str) -> str:
    parts = definition.split(".")
    return f"{parts[-3]}.{parts[-1]}"


# --- compiling the definitions ----------------------------------------------------------------------------------------


def _custom(group: str, version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The definition of a custom resource."""
    return {
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": f"#/$defs/{_META}ObjectMeta"},
            "spec": spec,
            "status": {"type": "object"},
        },
        "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}],
    }


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list(items: dict[str, Any], *keys: str) -> dict[str, Any]:
    by_key = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*keys]} if keys else {}
    return {"type": "array", "items": items, **by_key}


_STRING: dict[str, Any] = {"type": "string"}
_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_AMOUNT = {"$ref": "#/$defs/io.k8s.apimachinery.pkg.api.resource.Quantity"}
_RESOURCE = _object(name=_STRING, nominalQuota=_AMOUNT, borrowingLimit=_AMOUNT, lendingLimit=_AMOUNT)
_GROUPS = _list(
    _object(
        coveredResources=_list(_STRING),
        flavors=_list(_object(name=_STRING, resources=_list(_RESOURCE, "name")), "name"),
    )
)

#: Custom resources. Of Workloads and PodGroups, nothing below spec is checked; of status, nothing of any of them. The
#: others have the fields that gpuctl writes (kubernetes-sigs/kueue config/components/crd/bases, volcano-sh/volcano
#: config/crd/volcano/bases).
_ADDED = {
    f"io.x-k8s.kueue.v1beta2.{kind}": _custom("kueue.x-k8s.io", "v1beta2", kind, spec)
    for kind, spec in {
        "Workload": {"type": "object"},
        "AdmissionCheck": _object(
            controllerName=_STRING, parameters=_object(apiGroup=_STRING, kind=_STRING, name=_STRING)
        ),
        "ClusterQueue": _object(
            admissionChecksStrategy=_object(admissionChecks=_list(_object(name=_STRING), "name")),
            cohortName=_STRING,
            namespaceSelector=_object(matchLabels=_STRINGS),
            preemption=_object(reclaimWithinCohort=_STRING, withinClusterQueue=_STRING),
            resourceGroups=_GROUPS,
        ),
        "Cohort": _object(parentName=_STRING, resourceGroups=_GROUPS),
        "LocalQueue": _object(clusterQueue=_STRING),
        "MultiKueueCluster": _object(clusterSource=_object(kubeConfig=_object(location=_STRING, locationType=_STRING))),
        "MultiKueueConfig": _object(clusters=_list(_STRING)),
        "ResourceFlavor": _object(nodeLabels=_STRINGS, topologyName=_STRING),
        "Topology": _object(levels=_list(_object(nodeLabel=_STRING))),
    }.items()
} | {
    # Nothing below their spec is checked.
    f"{'.'.join(reversed(group.split('.')))}.{version}.{kind}": _custom(group, version, kind, {"type": "object"})
    for group, version, kinds in (
        (
            "monitoring.coreos.com",
            "v1",
            ("Alertmanager", "PodMonitor", "Prometheus", "PrometheusRule", "ServiceMonitor"),
        ),
        ("monitoring.coreos.com", "v1alpha1", ("AlertmanagerConfig",)),
        ("grafana.integreatly.org", "v1beta1", ("GrafanaDashboard",)),
        ("keda.sh", "v1alpha1", ("ScaledObject",)),
        ("scheduling.k8s.io", "v1alpha2", ("PodGroup",)),
    )
    for kind in kinds
}
_AMOUNTS = {"type": "object", "additionalProperties": _AMOUNT}
_MEMBER = _object(type=_STRING, selector=_object(exactMatch=_object(name=_STRING)))
_TIER = {"type": "integer", "format": "int64"}
_ADDED["sh.volcano.topology.v1alpha1.HyperNode"] = _custom(
    "topology.volcano.sh", "v1alpha1", "HyperNode", _object(tier=_TIER, members=_list(_MEMBER))
)
_ADDED |= {
    f"sh.volcano.scheduling.v1beta1.{kind}": _custom("scheduling.volcano.sh", "v1beta1", kind, spec)
    for kind, spec in {
        "PodGroup": {"type": "object"},
        "Queue": _object(
            weight={"type": "integer", "format": "int32"},
            reclaimable={"type": "boolean"},
            capability=_AMOUNTS,
            deserved=_AMOUNTS,
            guarantee=_object(resource=_AMOUNTS),
        ),
    }.items()
}


@cache
def definitions() -> dict[str, Any]:
    import kubernetes_validate

    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / VERSION
    loaded: dict[str, Any] = json.loads((folder / "_definitions.json").read_bytes())["$defs"]
    return {**loaded, **_ADDED}


@cache
def _by_gvk() -> dict[tuple[str, str, str], str]:
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, spec in definitions().items()
        for gvk in spec.get("x-kubernetes-group-version-kind", ())
        if "." in name and not name.startswith(_META)
    }


def of(group: str, version: str, kind: str) -> Struct:
    """The type of a kind; KeyError when the API has none."""
    found = named(_by_gvk()[group, version, kind])
    assert isinstance(found, Struct)
    return found


@cache
def of_object(api_version: str, kind: str) -> Struct:
    group, _, version = api_version.rpartition("/")
    return of(group, version, kind)


_LEAVES: dict[str, Type] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QuantityType(),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": IntOrString(),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": Free(),
    _META + "Time": Time(),
    _META + "MicroTime": Time(),
    _META + "FieldsV1": Free(),
}
_compiled: dict[str, Struct] = {}


def named(definition: str) -> Type:
    """The compiled type of a definition, by its full OpenAPI name."""
    if definition in _LEAVES:
        return _LEAVES[definition]
    if definition in _compiled:
        return _compiled[definition]
    spec = definitions()[definition]
    struct = _compiled[definition] = Struct(definition, spec)
    pointers = _POINTER_FIELDS.get(short_name(definition), set())
    always = _ALWAYS_FIELDS.get(short_name(definition), set()) | set(spec.get("required", ()))
    properties = spec.get("properties", {})
    if "metadata" in properties:  # metadata, spec and status of a kind are structs held by value
        always |= {"metadata", "spec", "status"} & properties.keys()
    for name, prop in properties.items():
        kind = _compile(prop)
        if (short_name(definition).partition(".")[2], name) in _NIL and isinstance(kind, Struct):
            kind = NilPointer(kind)
        struct.fields[name] = Field(kind, pointer=name in pointers or name in always, always=name in always)
    struct.always = [(name, f) for name, f in struct.fields.items() if f.always]
    return struct


def _compile(spec: dict[str, Any]) -> Type:
    if "$ref" in spec:
        return named(spec["$ref"].rpartition("/")[2])
    kind = spec.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "array":
        return ListType(_compile(spec["items"]), spec)
    if kind == "object":
        return MapType(_compile(spec["additionalProperties"]), spec) if "additionalProperties" in spec else Free()
    if kind == "string":
        return Bytes() if spec.get("format") == "byte" else Scalar("string", str, "")
    if kind == "boolean":
        return Scalar("bool", bool, False)
    if kind == "integer":
        return Scalar(spec.get("format", "int64"), int, 0)
    return Scalar("float64", float, 0)


# --- reading whole objects --------------------------------------------------------------------------------------------


def read(obj: dict[str, Any], report: Report | None = None) -> dict[str, Any]:
    """An object as Go decodes and writes it: no nulls, unknown fields or empty optional values.

    apiVersion and kind must be set and stay. DecodeError when a value does not fit its type."""
    api_version, kind = obj["apiVersion"], obj["kind"]
    out: dict[str, Any] = of_object(api_version, kind).read(obj, "", report)
    out["apiVersion"], out["kind"] = api_version, kind
    return out


def child(parent: Type, key: str) -> Type:
    """The type under a struct's field or a map's key; an untyped one where the API does not say."""
    if isinstance(parent, Struct):
        known = parent.fields.get(key)
        return known.type if known else Free()
    return parent.item if isinstance(parent, MapType) else Free()


def walk_types(root: Struct) -> Iterator[Struct]:
    """Every struct type reachable from a type, each once (for OpenAPI documents)."""
    seen, todo = {root.name}, [root]
    while todo:
        current = todo.pop()
        yield current
        for known in current.fields.values():
            inner: Type = known.type
            while isinstance(inner, (ListType, MapType)):
                inner = inner.item
            if isinstance(inner, Struct) and inner.name not in seen:
                seen.add(inner.name)
                todo.append(inner)
