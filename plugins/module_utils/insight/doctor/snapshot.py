# SPDX-License-Identifier: BSD-2-Clause
"""What gpuctl_doctor reads of a cluster: a fixed number of lists at once, each reduced to what the checks need.

Without permission to read a list, it stays empty, and ``unknown`` says why: no check then takes it for missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from ...accelerators.catalog import catalog
from ...cluster.declared import Declared, read_declared
from ...cluster.native_gangs import native_group_of
from ...cluster.nodes import Node, slim_node
from ...cluster.pod_requests import Amounts, amount_of
from ...cluster.read_jobs import WORKLOADS
from ...kube.answer import group_versions_in
from ...kube.client import Client
from ...kube.concurrency import run_concurrently
from ...kube.discovery import api_groups, preferred_versions_in, server_version
from ...kube.errors import ApiError, KubeError, as_sentence
from ...kube.resources import (
    CLUSTER_ROLE,
    CONFIG_MAP,
    HORIZONTAL_POD_AUTOSCALER,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_SLICE,
    RUNTIME_CLASS,
    SCALED_OBJECT,
    SERVICE,
    STORAGE_CLASS,
    UNFINISHED,
    Object,
    Resource,
)
from ...labels import APP, COMPLETION_INDEX, DEFAULT_POOL, LEDGER, MANAGED, POOL, is_managed
from ...permissions import MissingPermission, missing_permission
from ...task import Task
from ..fitting_lists import list_fitting
from ..prometheus.prometheus_client import open_prometheus
from ..prometheus.prometheus_options import prometheus_settings
from .scaling import ScalingMetrics, read_scaling_metrics


@dataclass(frozen=True)
class ExaminedNode:
    """A node, with what accounting does not need. ``conditions`` are those that are True, with their messages."""

    node: Node
    capacity: Amounts = field(default_factory=dict)
    kubelet: str = ""
    conditions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExaminedPod:
    """An unfinished pod."""

    namespace: str
    name: str
    node: str | None
    is_managed: bool
    deleted_at: str | None  # when its grace period ends
    scheduler: str
    ports: frozenset[int]
    gang: str = ""  # the training of which it is not the first pod
    pool: str = DEFAULT_POOL
    in_group: bool = False  # Kubernetes itself starts it together with the others


@dataclass(frozen=True)
class Snapshot:
    """A cluster at one moment. ``now`` is the clock of the controller, ``server_time`` that of the API server then.

    ``unknown`` has a sentence for each field that could not be read; the field is empty then.
    """

    now: datetime
    unknown: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, MissingPermission] = field(default_factory=dict)  # of those, what the account lacks for it
    version: str = ""
    server_time: datetime | None = None
    groups: Mapping[str, str] = field(default_factory=dict)  # API group -> preferred version
    versions: frozenset[str] = frozenset()  # of all groups
    declared: Declared = field(default_factory=Declared)
    nodes: list[ExaminedNode] = field(default_factory=list)
    pods: list[ExaminedPod] = field(default_factory=list)
    offering: frozenset[str] = frozenset()  # nodes with a ResourceSlice; "" for one of several nodes
    namespaces: list[Object] = field(default_factory=list)
    workloads: list[Object] = field(default_factory=list)  # metadata
    autoscalers: list[Object] = field(default_factory=list)
    scaling: ScalingMetrics = field(default_factory=ScalingMetrics)
    scaled_objects: list[Object] = field(default_factory=list)  # of KEDA
    services: list[Object] = field(default_factory=list)  # metadata, also of others
    config_maps: list[Object] = field(default_factory=list)  # metadata, and of ledgers the data
    leases: list[Object] = field(default_factory=list)
    roles: list[Object] = field(default_factory=list)
    priority_classes: list[Object] = field(default_factory=list)
    runtime_classes: list[Object] = field(default_factory=list)  # metadata
    storage_classes: list[Object] = field(default_factory=list)
    prometheus: str | None = None  # why the one of the options does not answer, "" if it does; None if they name none

    @property
    def clock(self) -> datetime:
        """The time that the times of objects are compared with."""
        return self.server_time or self.now


def read_snapshot(task: Task[Any]) -> Snapshot:
    """Sends one request for each field, and more where services scale by metrics of their pods.

    Raises KubeError if the server does not answer, or not as a Kubernetes does.
    """
    client = task.client()
    declared = read_declared(client, task.warn, again=True)  # Which resources count depends on it.
    unknown: dict[str, str] = {}
    missing: dict[str, MissingPermission] = {}

    def note_refusal(name: str, error: ApiError) -> None:
        lacks = missing_permission(error.message)
        unknown[name] = f"Missing permission: {lacks}." if lacks else as_sentence(error)
        if lacks:
            missing[name] = lacks

    if declared.refusal is not None:
        note_refusal("declared", declared.refusal)
    asked = [name for name in _READERS if name != "offering" or declared.claims_devices]

    def read(name: str, reader: Callable[[Client], Any] | None = None) -> Any:
        try:
            return (reader or _READERS[name])(client)
        except ApiError as error:
            if error.is_forbidden:
                note_refusal(name, error)
            elif error.status == 404:  # An API that this version or this cluster does not have.
                unknown[name] = f"The server does not have this API: {error.path}."
            else:
                raise
            return None

    answers = zip(asked, run_concurrently(read, asked, client.concurrency), strict=True)
    found = {name: value for name, value in answers if value is not None}
    groups, versions = found.pop("groups", ({}, frozenset()))
    autoscalers = found.get("autoscalers", ())
    prometheus = partial(open_prometheus, task, task.options)
    follow_up: dict[str, Callable[[Client], Any]] = {
        "scaling": lambda own: read_scaling_metrics(own, autoscalers, groups, prometheus),
    }
    if "keda.sh" in groups:
        follow_up["scaled_objects"] = lambda own: list_fitting(own, SCALED_OBJECT, dict, labels=MANAGED)
    found |= {name: value for name, reader in follow_up.items() if (value := read(name, reader)) is not None}
    version, date, now = found.pop("version", ("", None, datetime.now(timezone.utc)))
    return Snapshot(
        now=now,
        unknown=unknown,
        missing=missing,
        version=version,
        server_time=_date(date),
        groups=groups,
        versions=versions,
        declared=declared,
        prometheus=_why_no_answer(task),
        **found,
    )


def _why_no_answer(task: Task[Any]) -> str | None:
    """None where the options name no Prometheus; empty if it answers."""
    if not prometheus_settings(task.options, task.environ).is_set:
        return None
    try:
        open_prometheus(task, task.options).query("vector(1)")
    except KubeError as problem:
        return str(problem)
    return ""


def _date(header: str | None) -> datetime | None:
    """RFC 9110 dates are in GMT; None for anything else."""
    try:
        found = parsedate_to_datetime(header or "")
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def examined_node(node: Object) -> ExaminedNode:
    """A node as the checks see it."""
    status = node.get("status") or {}
    slim = slim_node(node)
    capacity = status.get("capacity") or {}
    return ExaminedNode(
        slim,
        {name: amount_of(name, amount) for name, amount in capacity.items() if catalog().row(name)},
        str((status.get("nodeInfo") or {}).get("kubeletVersion") or ""),
        {
            one["type"]: str(one.get("message") or one.get("reason") or "")
            for one in status.get("conditions") or ()
            if one["status"] == "True"
        },
    )


def examined_pod(pod: Object) -> ExaminedPod:
    """A pod as the checks see it."""
    metadata, spec = pod["metadata"], pod["spec"]
    labels = metadata.get("labels") or {}
    ports = (port for container in spec.get("containers") or () for port in container.get("ports") or ())
    return ExaminedPod(
        metadata["namespace"],
        metadata["name"],
        spec.get("nodeName"),
        is_managed(pod),
        metadata.get("deletionTimestamp"),
        spec.get("schedulerName") or "",
        frozenset(port["containerPort"] for port in ports if "containerPort" in port),
        labels.get(APP, "") if labels.get(COMPLETION_INDEX, "0") != "0" else "",
        labels.get(POOL, DEFAULT_POOL),
        native_group_of(pod) is not None,
    )


def examined_config_map(config_map: Object) -> Object:
    """Its metadata, and the data of a ledger."""
    examined = examined_object(config_map)
    data = config_map.get("data") or {} if config_map["metadata"]["name"] == LEDGER else {}
    return {"metadata": examined["metadata"], "data": data}


_EXAMINED = ("name", "namespace", "labels", "creationTimestamp", "deletionTimestamp")


def examined_object(obj: Object) -> Object:
    """What checks read of any object, and the spec of a Lease. Annotations can be a hundred times as much."""
    metadata = {name: obj["metadata"][name] for name in _EXAMINED if name in obj["metadata"]}
    spec = {"spec": obj.get("spec")} if obj["kind"] == LEASE.kind else {}
    return {"kind": obj["kind"], "metadata": metadata, **spec}


def _managed_metadata(*resources: Resource, labels: str = MANAGED) -> Callable[[Client], list[Object]]:
    """Managed objects of some kinds."""
    return lambda client: [
        obj
        for resource in resources
        for obj in client.list_slim(resource, examined_object, labels=labels, metadata_only=True)
    ]


def _offering(client: Client) -> frozenset[str]:
    """The nodes for which a driver offers devices to claim (Dynamic Resource Allocation)."""
    return frozenset(obj["spec"].get("nodeName") or "" for obj in client.list_objects(RESOURCE_SLICE))


def _served(client: Client) -> tuple[dict[str, str], frozenset[str]]:
    """The preferred version of each API group, and all versions of all of them."""
    groups = api_groups(client)
    return preferred_versions_in(groups), group_versions_in(groups)


_READERS: Mapping[str, Callable[[Client], Any]] = {
    "version": lambda client: (*server_version(client), datetime.now(timezone.utc)),
    "groups": _served,
    "nodes": lambda client: client.list_slim(NODE, examined_node),
    "pods": lambda client: client.list_slim(POD, examined_pod, fields=UNFINISHED),
    "offering": _offering,
    "namespaces": lambda client: client.list_objects(NAMESPACE),
    "workloads": _managed_metadata(*WORKLOADS),
    "autoscalers": lambda client: list_fitting(client, HORIZONTAL_POD_AUTOSCALER, dict, labels=MANAGED),
    "services": _managed_metadata(SERVICE, labels=""),
    "config_maps": lambda client: client.list_slim(CONFIG_MAP, examined_config_map, labels=MANAGED),
    "leases": lambda client: client.list_slim(LEASE, examined_object),
    "roles": lambda client: client.list_objects(CLUSTER_ROLE, labels=MANAGED),
    "priority_classes": lambda client: client.list_objects(PRIORITY_CLASS),
    "runtime_classes": lambda client: client.list_objects(RUNTIME_CLASS, metadata_only=True),
    "storage_classes": lambda client: client.list_objects(STORAGE_CLASS),
}
