# SPDX-License-Identifier: BSD-2-Clause
"""What gpuctl_doctor looks at: a table of checks, each a function from a snapshot to what is wrong. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from ...accelerators.catalog import PARTITIONS, Profile, catalog
from ...cluster.autoscaler import autoscaler_problem
from ...cluster.nodes import ACTIVE, FAULTY
from ...cluster.pool_declarations import NATIVE
from ...cluster.status import is_terminating, why_terminating
from ...jobs.objects.priority import PRIORITIES, priority_class_problem
from ...jobs.runs.ledger import read_entries
from ...kube.errors import as_sentence
from ...kube.features import COMPLETE, DEVICE_CLAIMS, OLDEST, minor_version, missing_features, number, since
from ...kube.resources import NATIVE_VERSION
from ...kube.times import read_time
from ...labels import (
    GPU_TYPE,
    GPU_TYPE_INTERNAL,
    KUEUE_QUEUE,
    LEDGER,
    POOLS_LEASE,
    SYSTEM_NAMESPACE,
    is_managed,
    job_name_of,
    priority_class_name,
)
from ...manifest.problems import abridged, qualified_name
from ...permissions import LEVELS
from ...queues.backends import BACKENDS
from ...queues.gangs import DEFAULT_SCHEDULER, GANG_HINT, one_by_one
from ...rbac.levels import cluster_roles, role_name
from ..prometheus.prometheus_service import names_prometheus
from .scaling import path_breaks
from .snapshot import ExaminedNode, Snapshot

ERROR, WARNING, OK, UNKNOWN = "error", "warning", "ok", "unknown"

_KUBELET_SKEW = 3  # minor versions (Kubernetes, version skew policy)
_CLOCK_SKEW = timedelta(seconds=30)
_LEASE_PERIOD = timedelta(seconds=10)  # of kubelets: nodeLeaseDurationSeconds 40 / 4
_SETTLED = timedelta(minutes=10)  # what deletes and replaces things takes less
_NAMED = 3  # of the things that share a problem


class Finding(NamedTuple):
    """Something wrong: how bad it is, where, what, and what to do about it."""

    level: str
    place: str
    problem: str
    hint: str


class Check(NamedTuple):
    """A row of the table. ``needs`` are the fields of the snapshot without which nothing can be said."""

    name: str
    title: str
    needs: tuple[str, ...]
    find: Callable[[Snapshot], Iterable[Finding]]


def examine(snapshot: Snapshot) -> list[dict[str, Any]]:
    """A row for each check: its name, what came out, why that is not known, and the findings."""
    return [_check_row(check, snapshot) for check in CHECKS]


def _check_row(check: Check, snapshot: Snapshot) -> dict[str, Any]:
    reasons = list(dict.fromkeys(snapshot.unknown[name] for name in check.needs if name in snapshot.unknown))
    findings = [] if reasons else [finding._asdict() for finding in check.find(snapshot)]
    levels = {finding["level"] for finding in findings}
    found = next((level for level in (ERROR, WARNING) if level in levels), OK)
    return {
        "check": check.name,
        "title": check.title,
        "status": UNKNOWN if reasons else found,
        "reason": " ".join(reasons) or None,
        "missing": [str(snapshot.missing[name]) for name in check.needs if name in snapshot.missing],
        "findings": findings,
    }


# -- the API server ----------------------------------------------------------------------------------------------------


def _api_version(snapshot: Snapshot) -> Iterator[Finding]:
    version = minor_version(snapshot.version)
    if version is None:
        yield Finding(WARNING, "API server", f"version not understood: {snapshot.version}", "Check what answers there.")
        return
    if version < OLDEST:
        hint = f"Upgrade Kubernetes to {number(COMPLETE)} or later."
        yield Finding(ERROR, "API server", f"Kubernetes {snapshot.version} is too old", hint)
        return
    for feature in missing_features(version, snapshot.groups):
        yield Finding(OK, "API server", f"Kubernetes {snapshot.version} lacks {feature.title}", f"{feature.without}.")
    pools = sorted(name for name in snapshot.declared.pools if snapshot.declared.hardware(name).device_class)
    if pools and DEVICE_CLAIMS in missing_features(version, snapshot.groups):
        problem = f"its device_class is of no use: Kubernetes {snapshot.version} does not serve {DEVICE_CLAIMS.api}"
        hint = f"{since(DEVICE_CLAIMS)}. Until then, remove device_class."
        yield Finding(ERROR, abridged([f"pool {name}" for name in pools], _NAMED), problem, hint)


def _kubelets(snapshot: Snapshot) -> Iterator[Finding]:
    server = minor_version(snapshot.version)
    for each in snapshot.nodes:
        kubelet = minor_version(each.kubelet)
        if server is None or kubelet is None:
            continue
        if kubelet > server:
            problem = f"kubelet {each.kubelet} is newer than the API server {snapshot.version}"
            yield Finding(WARNING, each.node.name, problem, "Upgrade the control plane before the nodes.")
        elif server[1] - kubelet[1] > _KUBELET_SKEW:
            problem = f"kubelet {each.kubelet} is more than {_KUBELET_SKEW} minor versions older than the API server"
            yield Finding(WARNING, each.node.name, problem, "Upgrade the node.")


def _permissions(snapshot: Snapshot) -> Iterator[Finding]:
    """The roles of the levels that are in use: an upgrade of the collection may need more than an old role allows."""
    live = {role["metadata"]["name"]: role for role in snapshot.roles}
    used = (level for level in LEVELS if role_name(level) in live)
    wanted = {role["metadata"]["name"]: role for level in used for role in cluster_roles(level)}
    hint = (
        "As a cluster administrator, run gpuctl_rbac for an administrator's account (level administer), which writes "
        "the roles of all levels."
    )
    for name in sorted(wanted):
        if name not in live:
            yield Finding(ERROR, f"ClusterRole {name}", "missing, although accounts have its level", hint)
            continue
        missing = _allowed(wanted[name]) - _allowed(live[name])
        if missing:
            some = abridged([f"{verb} {resource}" for verb, resource in sorted(missing)], _NAMED)
            yield Finding(ERROR, f"ClusterRole {name}", f"missing permissions: {some}", hint)
        elif _allowed(live[name]) - _allowed(wanted[name]):
            yield Finding(WARNING, f"ClusterRole {name}", "allows more than its level", hint)


def _allowed(role: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {
        (verb, f"{resource}.{group}" if group else resource)
        for rule in role.get("rules") or ()
        for verb in rule.get("verbs") or ()
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
    }


def _controller_clock(snapshot: Snapshot) -> Iterator[Finding]:
    if snapshot.server_time is None:
        return
    skew = snapshot.now - snapshot.server_time
    if abs(skew) > _CLOCK_SKEW:
        problem = f"its clock is {_skew_text(skew)} that of the API server"
        hint = "Synchronize the clocks of both with NTP. New tokens may not be valid yet, or not any more."
        yield Finding(WARNING, "the Ansible controller", problem, hint)


def _node_clocks(snapshot: Snapshot) -> Iterator[Finding]:
    """A kubelet writes the renewTime of its Lease by the clock of its node."""
    renewed = {
        lease["metadata"]["name"]: lease["spec"]["renewTime"]
        for lease in snapshot.leases
        if lease["metadata"]["namespace"] == "kube-node-lease" and (lease.get("spec") or {}).get("renewTime")
    }
    for each in snapshot.nodes:
        if each.node.status == FAULTY or each.node.name not in renewed:
            continue
        ahead = read_time(renewed[each.node.name]) - snapshot.clock
        if ahead > _CLOCK_SKEW or -ahead > _CLOCK_SKEW + _LEASE_PERIOD:
            problem = f"its clock is {_skew_text(ahead)} that of the API server, judged by its Lease"
            yield Finding(WARNING, each.node.name, problem, "Synchronize the clock of the node with NTP.")


def _skew_text(skew: timedelta) -> str:
    seconds = round(skew.total_seconds())
    return f"{abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'}"


# -- nodes and devices -------------------------------------------------------------------------------------------------

# For each of them, the node controller taints the node NoSchedule (docs, "Taints and Tolerations").
_TROUBLE = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def _nodes(snapshot: Snapshot) -> Iterator[Finding]:
    for each in snapshot.nodes:
        node = each.node
        if node.status == FAULTY:
            message = as_sentence(node.not_ready_message or "the kubelet does not say why")
            hint = f"{message[0].upper()}{message[1:]} See the kubelet's log on the node."
            yield Finding(ERROR, node.name, "not ready", hint)
        for condition in _TROUBLE:
            if condition in each.conditions:
                hint = "Kubernetes puts no new pods there until it has passed. Free what is scarce on the node."
                yield Finding(WARNING, node.name, f"condition {condition}", hint)


def _device_plugin(snapshot: Snapshot) -> Iterator[Finding]:
    """Nodes with devices that Kubernetes does not list, in none of the ways in which the profile says that it can."""
    declared = _declared_profiles(snapshot)
    for each in snapshot.nodes:
        node = each.node
        if node.status == FAULTY or node.name in snapshot.offering:
            continue
        for profile in catalog().profiles.values():
            evidence = _evidence(each, profile, declared)
            is_listed = any(each.capacity.get(row.resource) for row in node.devices if row.profile == profile.name)
            is_broken = node.counted_as.get(profile.name) == "broken"  # which another check says
            if not evidence or is_listed or is_broken:
                continue
            problem = f"{evidence}, but Kubernetes lists no {profile.device.resource} there"
            hint = (
                f"See whether the device plugin of {profile.data.get('vendor') or profile.name} runs on the node, and "
                f"its logs. The role accelerator_stack installs it."
            )
            yield Finding(ERROR, node.name, problem, hint)


def _declared_profiles(snapshot: Snapshot) -> dict[str, str]:
    """Node -> the accelerator that its pool declares; without pools whose devices are claimed."""
    return {
        node: pool.hardware.accelerator
        for pool in snapshot.declared.pools.values()
        if pool.hardware.accelerator and not pool.hardware.device_class
        for node in pool.nodes
    }


def _evidence(each: ExaminedNode, profile: Profile, declared: Mapping[str, str]) -> str | None:
    """What says that the node has devices of the profile; None if nothing does."""
    labels, names = each.node.labels, profile.part("labels")
    if declared.get(each.node.name) == profile.name:
        return f"its pool has {profile.noun}"
    for label in names.get("present", ()):
        if labels.get(label) == "true":
            return f"it has {profile.noun} by label {label}"
    count = names.get("count")
    if count and labels.get(count, "0") != "0":
        return f"it has {profile.noun} by label {count}"
    # A type set by hand does not name the vendor. On a node without other devices, assume the default one.
    is_default = profile.name == next(iter(catalog().profiles)) and each.node.name not in declared
    if is_default and (labels.get(GPU_TYPE) or labels.get(GPU_TYPE_INTERNAL)) and not each.node.devices:
        return "its GPU type is set"
    return None


def _device_counts(snapshot: Snapshot) -> Iterator[Finding]:
    """The label with the number of devices, what the kubelet has of them, and what of these pods may have."""
    for each in snapshot.nodes:
        if each.node.status == FAULTY:
            continue
        for row in each.node.devices:
            capacity = each.capacity.get(row.resource, 0)
            allocatable = each.node.allocatable.get(row.resource, 0)
            # The kubelet counts unhealthy devices in capacity only (devicemanager/manager.go, GetCapacity).
            if allocatable < capacity:
                problem = f"{capacity - allocatable} of {row.text(capacity)} ({row.resource}) are unhealthy"
                hint = "See the logs of the device plugin, and those of the kernel, such as Xid errors of NVIDIA."
                yield Finding(ERROR, each.node.name, problem, hint)
            label = catalog().profiles[row.profile].part("labels").get("count")
            counted = each.node.labels.get(label or "", "")
            is_divided = any(one.kind == PARTITIONS for one in each.node.devices if one.profile == row.profile)
            if row.is_whole_device and not is_divided and capacity and counted.isdecimal() and int(counted) != capacity:
                problem = f"label {label} says {counted}, but Kubernetes lists {capacity} {row.resource}"
                hint = "Restart the device plugin on the node, and see its logs. A device may have failed."
                yield Finding(WARNING, each.node.name, problem, hint)


def _drivers(snapshot: Snapshot) -> Iterator[Finding]:
    """Versions of drivers and runtimes that differ within a pool: a job may run on any of its nodes."""
    for profile in catalog().profiles.values():
        for what in ("driver", "runtime"):
            label = profile.part("labels").get(what)
            by_pool: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
            for each in snapshot.nodes:
                if label and each.node.labels.get(label):
                    by_pool[each.node.pool][each.node.labels[label]].append(each.node.name)
            for pool, versions in sorted(by_pool.items()):
                if len(versions) > 1:
                    shown = "; ".join(
                        f"{version} on {abridged(sorted(nodes), _NAMED)}" for version, nodes in sorted(versions.items())
                    )
                    problem = f"different versions of the {what} of {profile.noun}: {shown}"
                    hint = "Install the same version on all nodes of the pool, or divide it."
                    yield Finding(WARNING, f"pool {pool}", problem, hint)


def _partition_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """What the vendor's software says is wrong with how devices are divided."""
    for each in snapshot.nodes:
        for profile in catalog().profiles.values():
            for fault in profile.data.get("faults", ()):
                if re.fullmatch(fault["pattern"], each.node.labels.get(fault["label"], ""), re.DOTALL):
                    yield Finding(ERROR, each.node.name, f"{fault['problem']} ({fault['label']})", fault["hint"])
            if each.node.counted_as.get(profile.name) == "broken":
                problem = f"{profile.noun} with an invalid configuration of partitions"
                hint = "Configure them again, all devices of a node alike where the strategy asks for that."
                yield Finding(ERROR, each.node.name, problem, hint)


def _runtime_classes(snapshot: Snapshot) -> Iterator[Finding]:
    present = {obj["metadata"]["name"] for obj in snapshot.runtime_classes}
    used = {row.profile for each in snapshot.nodes for row in each.node.devices}
    for name in sorted(used):
        profile = catalog().profiles[name]
        wanted = profile.part("pod").get("runtime_class")
        if wanted and wanted not in present:
            problem = f"missing, although pods with {profile.noun} ask for it"
            hint = "Install the vendor's container runtime and create the RuntimeClass, or correct the accelerator."
            yield Finding(ERROR, f"RuntimeClass {wanted}", problem, hint)


def _exporters(snapshot: Snapshot) -> Iterator[Finding]:
    ports: dict[str, set[int]] = defaultdict(set)
    for pod in snapshot.pods:
        ports[pod.node or ""] |= pod.ports
    for each in snapshot.nodes:
        for name in sorted({row.profile for row in each.node.devices if each.capacity.get(row.resource)}):
            profile = catalog().profiles[name]
            port = profile.part("metrics").get("port")
            if each.node.status == ACTIVE and port and port not in ports[each.node.name]:
                problem = f"no exporter of metrics for {profile.noun}: no pod with port {port}"
                hint = "Utilization is not known without it. The role accelerator_stack installs the vendor's."
                yield Finding(WARNING, each.node.name, problem, hint)


# -- what else jobs need -----------------------------------------------------------------------------------------------

_QUEUES = {"kueue": "kueue.x-k8s.io", "volcano": "scheduling.volcano.sh", "kai-scheduler": "scheduling.run.ai"}


def _queues(snapshot: Snapshot) -> Iterator[Finding]:
    for name, places in sorted(_wanted_queues(snapshot).items()):
        if _QUEUES[name] not in snapshot.groups:
            install = BACKENDS[name].install if name in BACKENDS else f"Install {name}"
            hint = f"{install}, or change what asks for it. These pods wait for ever without it."
            for place in sorted(places):
                yield Finding(ERROR, place, f"{name} is not installed: no API group {_QUEUES[name]}", hint)
    if NATIVE_VERSION not in snapshot.versions:
        for pool in sorted(_native_pools(snapshot)):
            hint = f"{BACKENDS[NATIVE].install}, or remove queue."
            yield Finding(ERROR, f"pool {pool}", f"queue {NATIVE}, but {NATIVE_VERSION} is not served", hint)


def _native_pools(snapshot: Snapshot) -> set[str]:
    pools = snapshot.declared.pools.items()
    return {name for name, pool in pools if pool.queue and pool.queue.backend == NATIVE}


def _wanted_queues(snapshot: Snapshot) -> dict[str, set[str]]:
    wanted: dict[str, set[str]] = defaultdict(set)
    for pool in snapshot.declared.pools.values():
        if pool.queue and pool.queue.backend in _QUEUES:
            wanted[pool.queue.backend].add(f"pool {pool.name}")
        for profile in catalog().profiles.values():
            backend = profile.backends.get(pool.hardware.share_backend or "")
            if backend and backend.scheduler in _QUEUES:
                wanted[backend.scheduler].add(f"pool {pool.name}")
    for pod in snapshot.pods:
        if pod.is_managed and pod.scheduler in _QUEUES:
            wanted[pod.scheduler].add(f"pods in namespace {pod.namespace}")
    for obj in snapshot.workloads:
        if KUEUE_QUEUE in (obj["metadata"].get("labels") or {}):
            wanted["kueue"].add(f"jobs in namespace {obj['metadata']['namespace']}")
    return wanted


def _gangs(snapshot: Snapshot) -> Iterator[Finding]:
    """Trainings on several nodes whose pods kube-scheduler places one by one: two of them can block each other."""
    in_kueue = {
        (obj["metadata"]["namespace"], obj["metadata"]["name"])
        for obj in snapshot.workloads
        if KUEUE_QUEUE in (obj["metadata"].get("labels") or {})
    }
    gangs: dict[str, set[str]] = defaultdict(set)
    for pod in snapshot.pods:
        is_alone = pod.scheduler in ("", DEFAULT_SCHEDULER) and (pod.namespace, pod.gang) not in in_kueue
        if pod.is_managed and pod.gang and is_alone and not pod.in_group:
            gangs[pod.pool].add(qualified_name(pod.namespace, pod.gang))
    for pool, jobs in sorted(gangs.items()):
        hint = GANG_HINT
        if NATIVE_VERSION in snapshot.versions:
            hint = _NO_GROUPS if pool in _native_pools(snapshot) else f"{GANG_HINT} {_NATIVE_GANGS}"
        yield Finding(WARNING, f"pool {pool}", one_by_one(sorted(jobs)), hint)


_NATIVE_GANGS = "This cluster can also do that by itself (queue: native)."
_NO_GROUPS = (
    "They started before the pool had queue: native, or the feature gate WorkloadWithJob of kube-controller-manager is "
    "off. Switch it on, and restart them."
)


def _metrics(snapshot: Snapshot) -> Iterator[Finding]:
    if "metrics.k8s.io" not in snapshot.groups:
        scaled = f" Services with autoscaling: {len(snapshot.autoscalers)}." if snapshot.autoscalers else ""
        hint = f"Install metrics-server. Services do not scale by CPU or memory without it.{scaled}"
        yield Finding(WARNING, "cluster", "no metrics API (metrics.k8s.io)", hint)


def _autoscaler_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """The metric that a service is scaled by must be served by an API service, and have a value."""
    for obj in snapshot.autoscalers:
        place = f"{obj['metadata']['name']} in namespace {obj['metadata']['namespace']}"
        broken = list(path_breaks(snapshot.scaling, obj, snapshot.groups))
        for problem, hint in broken:
            yield Finding(WARNING, place, problem, hint)
        if not broken and (text := autoscaler_problem(obj)):
            what, _dot, hint = text.partition(". ")
            yield Finding(WARNING, place, what.rstrip("."), hint or "Look at its events.")


def _scaled_objects(snapshot: Snapshot) -> Iterator[Finding]:
    """KEDA makes an autoscaler of each; one that is not ready has none, or none that works."""
    for obj in snapshot.scaled_objects:
        conditions = (obj.get("status") or {}).get("conditions") or ()
        ready: Mapping[str, Any] = next((one for one in conditions if one["type"] == "Ready"), {})
        place = f"ScaledObject {obj['metadata']['namespace']}/{obj['metadata']['name']}"
        if not ready and _is_settled(snapshot, obj["metadata"].get("creationTimestamp")):
            hint = "See whether KEDA's operator runs, and its logs."
            yield Finding(WARNING, place, "KEDA has not looked at it for 10 minutes", hint)
        elif ready and ready.get("status") != "True":
            why = str(ready.get("message") or ready.get("reason") or "no reason given").rstrip(". ")
            hint = "See its events. Check serverAddress and query of its trigger, and that the service exists."
            yield Finding(WARNING, place, f"not ready: {why}", hint)


def _prometheus(snapshot: Snapshot) -> Iterator[Finding]:
    if snapshot.prometheus is not None:
        if snapshot.prometheus:
            problem = snapshot.prometheus.partition(". ")[0].rstrip(".")
            hint = "Check GPUCTL_PROMETHEUS_URL or prometheus_url, and that Prometheus is up."
            yield Finding(WARNING, "connection", problem, hint)
        return
    names = (obj["metadata"]["name"] for obj in snapshot.services)
    if "monitoring.coreos.com" not in snapshot.groups and not any(map(names_prometheus, names)):
        hint = (
            "Install Prometheus for metrics of GPUs over time. If it runs outside of the cluster, set the environment "
            "variable GPUCTL_PROMETHEUS_URL."
        )
        yield Finding(WARNING, "cluster", "no Prometheus found", hint)


_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def _storage(snapshot: Snapshot) -> Iterator[Finding]:
    default = [
        obj["metadata"]["name"]
        for obj in snapshot.storage_classes
        if (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    ]
    if not default:
        problem = "no default StorageClass" if snapshot.storage_classes else "no StorageClass"
        hint = f"Annotate one with {_DEFAULT_CLASS}=true. Claims that name no class stay pending without it."
        yield Finding(WARNING, "cluster", problem, hint)
    elif len(default) > 1:  # plugin/pkg/admission/storage/storageclass/setdefault takes the newest.
        hint = f"Remove the annotation {_DEFAULT_CLASS} from all but one. Kubernetes uses the newest."
        yield Finding(WARNING, "cluster", f"{len(default)} default StorageClasses: {', '.join(sorted(default))}", hint)


def _priority_findings(snapshot: Snapshot) -> Iterator[Finding]:
    live = {obj["metadata"]["name"]: obj for obj in snapshot.priority_classes}
    for name in map(priority_class_name, PRIORITIES):
        if name not in live:
            hint = "As an administrator, run gpuctl_pool, or gpuctl_rbac with level submit and append, which create it."
            yield Finding(ERROR, f"PriorityClass {name}", "missing", hint)
        elif problem := priority_class_problem(live[name]):
            what, _dot, hint = problem.partition(". ")
            yield Finding(ERROR, f"PriorityClass {name}", what, hint)


# -- what is half-deleted ----------------------------------------------------------------------------------------------


def _terminating_namespaces(snapshot: Snapshot) -> Iterator[Finding]:
    """Namespaces that a finalizer keeps: nothing can be created in them, and their names are not free."""
    for obj in snapshot.namespaces:
        deleted = obj["metadata"].get("deletionTimestamp")
        if deleted and is_managed(obj) and snapshot.clock - read_time(deleted) > _SETTLED:
            hint = why_terminating(obj) or "Find what is left in it, and which finalizer keeps that."
            yield Finding(ERROR, f"namespace {obj['metadata']['name']}", "being deleted for over 10 minutes", hint)


def _terminating_pods(snapshot: Snapshot) -> Iterator[Finding]:
    """Pods that still hold their devices: only the kubelet of their node, or a forced deletion, removes them."""
    ready = {each.node.name for each in snapshot.nodes if each.node.status != FAULTY}
    for pod in snapshot.pods:
        if pod.is_managed and pod.deleted_at and snapshot.clock - read_time(pod.deleted_at) > _SETTLED:
            where = f"on node {pod.node}" if pod.node else "without a node"
            lost = pod.node is not None and pod.node not in ready
            hint = (
                "The node does not answer. Bring it back, or restart the job with gpuctl_force=true."
                if lost
                else "See the kubelet's log on the node. Restart the job with gpuctl_force=true to be rid of the pod."
            )
            problem = f"still terminating {where}, 10 minutes after its grace period"
            yield Finding(ERROR, f"pod {pod.namespace}/{pod.name}", problem, hint)


def _orphans(snapshot: Snapshot) -> Iterator[Finding]:
    """Services and the like whose job was deleted: a Service keeps its node port."""
    jobs = {_place_of(obj) for obj in snapshot.workloads}
    parts = [obj for obj in snapshot.services if is_managed(obj)] + snapshot.autoscalers + snapshot.config_maps
    for obj in parts:
        namespace = obj["metadata"]["namespace"]
        job = job_name_of(obj)
        if not job or (namespace, job) in jobs or not _is_settled(snapshot, obj["metadata"].get("creationTimestamp")):
            continue
        hint = f"Delete job {job} in namespace {namespace} with gpuctl_job, which deletes all of its objects."
        place = f"{obj.get('kind', 'ConfigMap')} {namespace}/{obj['metadata']['name']}"
        yield Finding(WARNING, place, f"left behind: its job {job} does not exist", hint)


def _ledgers(snapshot: Snapshot) -> Iterator[Finding]:
    """Trainings that a task began to replace, and has not created again."""
    live = {_place_of(obj) for obj in snapshot.workloads if not is_terminating(obj)}
    for obj in snapshot.config_maps:
        if obj["metadata"]["name"] != LEDGER:
            continue
        namespace = obj["metadata"]["namespace"]
        for name, entry in sorted(read_entries(obj["data"]).items()):
            if entry.is_being_replaced and (namespace, name) not in live and _is_settled(snapshot, entry.finished_at):
                problem = f"a task began to replace it at {entry.finished_at}, and has not created it again"
                hint = "Submit its manifest again, or repeat the restart."
                yield Finding(ERROR, f"training {namespace}/{name}", problem, hint)


def _lease(snapshot: Snapshot) -> Iterator[Finding]:
    for lease in snapshot.leases:
        spec, metadata = lease.get("spec") or {}, lease["metadata"]
        if (metadata["namespace"], metadata["name"]) != (SYSTEM_NAMESPACE, POOLS_LEASE):
            continue
        if spec.get("holderIdentity") and _is_settled(snapshot, spec.get("renewTime")):
            problem = f"held since {spec['renewTime']} by a run that has not released it: {spec['holderIdentity']}"
            hint = "The run was probably killed. Run the playbook again that changes the pools, which takes it over."
            yield Finding(WARNING, f"Lease {SYSTEM_NAMESPACE}/{POOLS_LEASE}", problem, hint)


def _place_of(obj: Mapping[str, Any]) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _is_settled(snapshot: Snapshot, moment: str | None) -> bool:
    return moment is not None and snapshot.clock - read_time(moment) > _SETTLED


CHECKS = (
    Check("api_version", "version of the API", ("version",), _api_version),
    Check("kubelet_versions", "versions of the kubelets", ("version", "nodes"), _kubelets),
    Check("permissions", "permissions of the levels", ("roles",), _permissions),
    Check("controller_clock", "clock of the controller", ("version",), _controller_clock),
    Check("node_clocks", "clocks of the nodes", ("version", "nodes", "leases"), _node_clocks),
    Check("nodes", "state of the nodes", ("nodes",), _nodes),
    Check("device_plugins", "device plugins", ("declared", "nodes", "offering"), _device_plugin),
    Check("devices", "healthy devices", ("nodes",), _device_counts),
    Check("drivers", "versions of drivers", ("nodes",), _drivers),
    Check("partitions", "partitions of devices", ("nodes",), _partition_findings),
    Check("runtime_classes", "runtime classes", ("nodes", "runtime_classes"), _runtime_classes),
    Check("exporters", "exporters of metrics", ("nodes", "pods"), _exporters),
    Check("queues", "queues of pools", ("groups", "declared", "pods", "workloads"), _queues),
    Check("gangs", "trainings on several nodes", ("groups", "pods", "workloads", "declared"), _gangs),
    Check("metrics_api", "metrics API", ("groups", "autoscalers"), _metrics),
    Check("autoscalers", "autoscalers of services", ("groups", "autoscalers", "scaling"), _autoscaler_findings),
    Check("scaled_objects", "ScaledObjects of KEDA", ("groups", "scaled_objects"), _scaled_objects),
    Check("prometheus", "Prometheus", ("groups", "services"), _prometheus),
    Check("storage", "storage classes", ("storage_classes",), _storage),
    Check("priorities", "priority classes", ("priority_classes",), _priority_findings),
    Check("namespaces", "deleted namespaces", ("namespaces",), _terminating_namespaces),
    Check("pods", "deleted pods", ("pods", "nodes"), _terminating_pods),
    Check("orphans", "parts of deleted jobs", ("workloads", "services", "autoscalers", "config_maps"), _orphans),
    Check("replacements", "replaced trainings", ("workloads", "config_maps"), _ledgers),
    Check("lease", "Lease of the pools", ("leases",), _lease),
)
