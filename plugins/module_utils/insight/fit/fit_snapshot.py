# SPDX-License-Identifier: BSD-2-Clause
"""What jobs are judged against: lists of the cluster, each reduced to what the scheduler looks at.

Their number does not depend on how many jobs are judged, but on the namespaces of these and on what they ask for. What
the account may not read is None, and makes an answer that depends on it unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import chain
from typing import Any

from ...cluster.admission import queue_of
from ...cluster.admitted_pod import Admission, WantedPod, admitted
from ...cluster.alike_pods import AlikePods
from ...cluster.devices import Inventory
from ...cluster.pod_facts import (
    PlacedPod,
    RoomyNode,
    amounts_of_pod,
    claim_names,
    placed_pod,
    required_terms,
    roomy_node,
)
from ...cluster.pool_declarations import NATIVE
from ...cluster.quota_fit import (
    COUNTED,
    Charges,
    QuotaState,
    charges_of,
    charges_of_objects,
    charges_of_placed,
    quota_state,
)
from ...cluster.read_devices import if_served, read_devices
from ...cluster.read_jobs import read_jobs
from ...cluster.status import pods_wanted
from ...kube.client import Client
from ...kube.concurrency import run_concurrently
from ...kube.resources import (
    DEVICE_CLASS,
    LIMIT_RANGE,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    RUNTIME_CLASS,
    STORAGE_CLASS,
    UNFINISHED,
    Object,
    Resource,
)
from ...labels import KUEUE_QUEUE, job_name_of
from .device_fit import DeviceCheck
from .fit import Cluster, FitJob, JobName
from .verdicts import PODS_UNREADABLE
from .volume_fit import VolumeCheck
from .world import NodeCheck, World

Objects = list[dict[str, Any]]

_CSI_DRIVER = Resource("CSIDriver", "storage.k8s.io/v1", "csidrivers", namespaced=False)
_CSI_NODE = Resource("CSINode", "storage.k8s.io/v1", "csinodes", namespaced=False)
# ResourceDeviceClassPrefix of resource.k8s.io: every DeviceClass can be requested by this name (KEP-5004).
_IMPLICIT = "deviceclass.resource.kubernetes.io/"
_ENDS_BY_ITSELF = "training"


@dataclass(frozen=True)
class FitSnapshot:
    """The lists. By namespace: quotas, limit ranges, claims of volumes, and whether there is such a namespace. ``live``
    are the objects of the jobs, where a quota counts objects."""

    nodes: Sequence[RoomyNode] | None = None
    pods: Sequence[PlacedPod] | None = None
    quotas: Mapping[str, Sequence[Object] | None] = field(default_factory=dict)
    limit_ranges: Mapping[str, Sequence[Object] | None] = field(default_factory=dict)
    claims: Mapping[str, Sequence[Object] | None] = field(default_factory=dict)
    exists: Mapping[str, bool | None] = field(default_factory=dict)
    live: Mapping[JobName, Sequence[Object]] = field(default_factory=dict)
    priority_classes: Mapping[str, Object] | None = field(default_factory=dict)
    runtime_classes: Mapping[str, Object] | None = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] | None = field(default_factory=dict)
    budgets: Sequence[Object] | None = ()
    volumes: Mapping[str, Object] | None = field(default_factory=dict)
    storage_classes: Mapping[str, Object] | None = field(default_factory=dict)
    csi_drivers: Mapping[str, Object] | None = field(default_factory=dict)
    csi_nodes: Mapping[str, Object] | None = field(default_factory=dict)
    devices: Inventory | None = None
    device_classes: Sequence[Object] | None = ()

    @property
    def extended(self) -> dict[str, str]:
        """The resources that stand for a class of devices."""
        found = {}
        for one in self.device_classes or ():
            name = one["metadata"]["name"]
            found[f"{_IMPLICIT}{name}"] = name
            if resource := (one.get("spec") or {}).get("extendedResourceName"):
                found[resource] = name
        return found

    @cached_property
    def _by_job(self) -> Mapping[JobName, list[PlacedPod]]:
        found: dict[JobName, list[PlacedPod]] = {}
        for pod in self.pods or ():
            found.setdefault(pod.job, []).append(pod)
        return found

    @cached_property
    def services(self) -> frozenset[JobName]:
        """Services and notebooks. They end at their time limit, or when a person says so."""
        return frozenset(pod.job for pod in self.pods or () if pod.use.job_kind not in (None, _ENDS_BY_ITSELF))

    def pods_of(self, job: JobName) -> Sequence[PlacedPod]:
        return self._by_job.get(job, ())

    @cached_property
    def _is_kept_off_by_labels(self) -> bool:
        """Whether a pod on a node keeps those of namespaces with certain labels off."""
        return any(_selects_by_label(term) for pod in self.pods or () for term in pod.keeps_off)

    def admission(self, namespace: str) -> Admission:
        return Admission(self.priority_classes, self.limit_ranges.get(namespace, ()), self.runtime_classes)

    def job_of(self, objects: Sequence[Object], *, rolls: bool = False, grows: bool = False) -> FitJob:
        """A job by its objects, the workload first. ``rolls``: the rolling update of a Deployment replaces its pods;
        it ``grows``: they stay."""
        workload = objects[0]
        namespace, name = workload["metadata"]["namespace"], job_name_of(workload) or workload["metadata"]["name"]
        pod = admitted(workload["spec"]["template"], namespace, name, self.admission(namespace))
        pod = replace(pod, templates=self._templates(objects))
        wanted = [one.get("resourceClaimTemplateName") for one in pod.spec.get("resourceClaims") or ()]
        specs = [pod.templates[one] for one in wanted if one in pod.templates]
        own = self.pods_of((namespace, name))
        keeps = tuple(each for each in own if grows and each.node is not None)
        replaces = tuple(each for each in own if not grows or each.node is None)
        refusals: tuple[str, ...] = ()
        if self.exists.get(namespace) is False:
            refusals = (f"namespace {namespace} does not exist",)
        made = charges_of_objects(objects, self.live.get((namespace, name), ()))
        undecided = tuple(self._undecided(workload, pod))
        together = queue_of(workload).backend == NATIVE
        number = _number_of_pods(objects)
        charges = charges_of(pod, specs)
        rolling = _surge_and_unavailable(workload) if rolls else None
        return FitJob(
            namespace, name, pod, number, charges, made, replaces, keeps, rolling, undecided, together, refusals
        )

    def _undecided(self, workload: Object, pod: WantedPod) -> Iterable[str]:
        if queue := (workload["metadata"].get("labels") or {}).get(KUEUE_QUEUE):
            yield f"Kueue admits it, when queue {queue} has room for it"
        if self.nodes is None:
            yield "the account may not list nodes"
        if self.pods is None:
            yield PODS_UNREADABLE
        if self.quotas.get(pod.namespace, ()) is None:
            yield "the account may not list the quotas of the namespace"
        if self.namespaces is None and (
            self._is_kept_off_by_labels or any(map(_selects_by_label, (*pod.near, *pod.away)))
        ):
            yield "the account may not list namespaces, which affinity of pods selects"
        if self.devices is None and pod.spec.get("resourceClaims"):
            yield "the account may not list the devices that it claims, or the cluster has none"

    @staticmethod
    def _templates(objects: Iterable[Object]) -> dict[str, Object]:
        return {
            obj["metadata"]["name"]: obj["spec"]["spec"] for obj in objects if obj["kind"] == "ResourceClaimTemplate"
        }

    def cluster(self, ends: Mapping[JobName, float]) -> Cluster:
        """What ``fit_jobs`` judges against."""
        pods = self.pods or ()
        checks: list[NodeCheck] = []
        claims = self._volume_check(pods)
        if claims is not None:
            checks.append(claims)
        extended = self.extended
        if self.devices is not None:
            checks.append(DeviceCheck(self.devices, extended))
        quotas = {
            namespace: [state for quota in found or () if (state := quota_state(quota))]
            for namespace, found in self.quotas.items()
        }
        endless = self.services - ends.keys()
        delegated = extended if self.devices is not None else {}
        world = World(self.nodes or (), pods, self.namespaces, checks, delegated)
        return Cluster(world, quotas, self.budgets or (), ends, self._users(quotas), endless, self.nodes is not None)

    def _users(self, quotas: Mapping[str, Sequence[QuotaState]]) -> dict[str, dict[JobName, Charges]]:
        """What the jobs of the namespaces with quotas use of these, pods without a node too."""
        found: dict[str, dict[JobName, Charges]] = {name: {} for name in quotas if quotas[name]}
        for pod in self.pods or ():
            if pod.namespace in found and any(state.counts(pod) for state in quotas[pod.namespace]):
                uses = found[pod.namespace].setdefault(pod.job, {})
                for resource, amount in charges_of_placed(pod).items():
                    uses[resource] = uses.get(resource, Fraction(0)) + amount
        return found

    def _volume_check(self, pods: Iterable[PlacedPod]) -> VolumeCheck | None:
        if not self.claims:
            return None
        known = all(found is not None for found in self.claims.values())
        claims = {
            (namespace, one["metadata"]["name"]): one for namespace, found in self.claims.items() for one in found or ()
        }
        limits = None if self.csi_nodes is None else {name: _csi_limits(one) for name, one in self.csi_nodes.items()}
        check = VolumeCheck(claims if known else None, self.volumes, self.storage_classes, self.csi_drivers, limits)
        for pod in pods:
            if pod.claims:
                check.put_back(pod)
        return check


def read_fit_snapshot(
    client: Client,
    jobs: Sequence[Sequence[Object]],
    priority_classes: Mapping[str, Object] | None = None,
    *,
    may_claim: bool = False,
) -> FitSnapshot:
    """What is needed to judge jobs, each given by its objects. ``priority_classes`` are those that are about to be.

    ``may_claim``: in another pool, the jobs would claim devices.
    """
    workloads = [objects[0] for objects in jobs]
    snapshot = FitSnapshot(**_read(client, _first_reads(client, workloads)))
    if any(_counts_objects(quota) for found in snapshot.quotas.values() for quota in found or ()):
        ids = [(one["metadata"]["namespace"], job_name_of(one) or one["metadata"]["name"]) for one in workloads]
        snapshot = replace(snapshot, live=read_jobs(client, ids))
    if snapshot.priority_classes is not None and priority_classes:
        snapshot = replace(snapshot, priority_classes={**priority_classes, **snapshot.priority_classes})
    if snapshot.nodes is None or snapshot.pods is None:  # What is not known already is not known then either.
        nothing: dict[str, Any] = dict.fromkeys(
            (
                "runtime_classes",
                "namespaces",
                "volumes",
                "storage_classes",
                "csi_drivers",
                "csi_nodes",
                "device_classes",
            )
        )
        return replace(snapshot, budgets=None, **nothing)
    reads = _later_reads(client, workloads, snapshot)
    if may_claim:
        reads["devices", ""] = partial(read_devices, client, _namespaces(workloads))
    return replace(snapshot, **_read(client, reads))


_Reads = dict[tuple[str, str], Callable[[], Any]]  # by field, and by namespace where there is one for each


def _first_reads(client: Client, workloads: Sequence[Object]) -> _Reads:
    slim = partial(placed_pod, alike=AlikePods(amounts_of_pod))
    reads: _Reads = {
        ("nodes", ""): lambda: client.list_slim(NODE, roomy_node),
        ("pods", ""): lambda: client.list_slim(POD, slim, fields=UNFINISHED),
        ("priority_classes", ""): lambda: _by_name(client.list_objects(PRIORITY_CLASS)),
    }
    for namespace in _namespaces(workloads):
        reads["exists", namespace] = partial(_is_there, client, namespace)
        reads["quotas", namespace] = partial(client.list_objects, RESOURCE_QUOTA, namespace)
        reads["limit_ranges", namespace] = partial(client.list_objects, LIMIT_RANGE, namespace)
    for namespace in _namespaces(workload for workload in workloads if claim_names(_spec(workload))):
        reads["claims", namespace] = partial(client.list_objects, PERSISTENT_VOLUME_CLAIM, namespace)
    specs = map(_spec, workloads)
    if any(spec.get("resourceClaims") or any("/" in name for name in _requested(spec)) for spec in specs):
        reads["device_classes", ""] = partial(client.list_objects, DEVICE_CLASS)
    return reads


def _later_reads(client: Client, workloads: Sequence[Object], snapshot: FitSnapshot) -> _Reads:
    """What only matters if nodes and pods are known."""
    specs = [_spec(workload) for workload in workloads]
    reads: _Reads = {("budgets", ""): lambda: client.list_objects(POD_DISRUPTION_BUDGET)}
    if any(spec.get("runtimeClassName") for spec in specs):
        reads["runtime_classes", ""] = lambda: _by_name(client.list_objects(RUNTIME_CLASS))
    own = (term for spec in specs for kind in ("podAffinity", "podAntiAffinity") for term in required_terms(spec, kind))
    existing = (term for pod in snapshot.pods or () for term in pod.keeps_off)
    if any(map(_selects_by_label, chain(own, existing))):
        reads["namespaces", ""] = lambda: {
            obj["metadata"]["name"]: obj["metadata"].get("labels") or {}
            for obj in client.list_objects(NAMESPACE, metadata_only=True)
        }
    if snapshot.claims:
        reads["volumes", ""] = lambda: _by_name(client.list_objects(PERSISTENT_VOLUME))
        reads["storage_classes", ""] = lambda: _by_name(client.list_objects(STORAGE_CLASS))
        reads["csi_drivers", ""] = lambda: _by_name(client.list_objects(_CSI_DRIVER))
        reads["csi_nodes", ""] = lambda: _by_name(client.list_objects(_CSI_NODE))
    asked = {name for spec in specs for name in _requested(spec)}
    if any(spec.get("resourceClaims") for spec in specs) or asked & set(snapshot.extended):
        reads["devices", ""] = partial(read_devices, client, _namespaces(workloads))
    return reads


def _read(client: Client, reads: _Reads) -> dict[str, Any]:
    """The fields of a snapshot."""
    keys = list(reads)
    found = run_concurrently(lambda key: if_served(reads[key]), keys, client.concurrency)
    fields: dict[str, Any] = {}
    for (name, namespace), answer in zip(keys, found, strict=True):
        if namespace:
            fields.setdefault(name, {})[namespace] = answer
        else:
            fields[name] = answer
    return fields


def _namespaces(workloads: Iterable[Object]) -> list[str]:
    return sorted({workload["metadata"]["namespace"] for workload in workloads})


def _spec(workload: Object) -> Object:
    spec: Object = workload["spec"]["template"]["spec"]
    return spec


def _is_there(client: Client, namespace: str) -> bool:
    return client.get(NAMESPACE, None, namespace) is not None


def _counts_objects(quota: Object) -> bool:
    """Whether it limits more than what pods use."""
    names = (name for name in (quota.get("spec") or {}).get("hard") or () if name != "count/pods")
    return any(name.startswith("count/") or name.partition(".")[0] in COUNTED for name in names)


def _by_name(objects: Objects) -> dict[str, Object]:
    return {obj["metadata"]["name"]: obj for obj in objects}


def _csi_limits(node: Object) -> dict[str, int]:
    """How many volumes of which driver a node attaches, where there is a limit."""
    drivers = ((one["name"], (one.get("allocatable") or {}).get("count")) for one in node["spec"].get("drivers") or ())
    return {name: count for name, count in drivers if count is not None}


def _number_of_pods(objects: Sequence[Object]) -> int:
    """The pods that it starts with: an autoscaler sees to its least number of replicas at once."""
    least = (obj["spec"].get("minReplicas", 1) for obj in objects if obj["kind"] == "HorizontalPodAutoscaler")
    return max(least, default=pods_wanted({**objects[0], "status": {}}))


def _selects_by_label(term: Object) -> bool:
    return bool(term.get("namespaceSelector"))


def _requested(spec: Object) -> set[str]:
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    amounts = ((one.get("resources") or {}) for one in containers)
    return {name for one in amounts for part in ("requests", "limits") for name in one.get(part) or ()}


def _surge_and_unavailable(deployment: Object) -> tuple[int, int]:
    """``maxSurge`` and ``maxUnavailable``; jobs have numbers there (jobs/objects/deployments.py)."""
    found = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    return int(found.get("maxSurge", 1)), int(found.get("maxUnavailable", 0))
