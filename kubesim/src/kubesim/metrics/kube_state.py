# SPDX-License-Identifier: BSD-2-Clause
"""kube-state-metrics of the cluster.

Source: kubernetes/kube-state-metrics internal/store/{pod,node,job,resourcequota,deployment,statefulset}.go, utils.go.
Labels of objects are written only as far as --metric-labels-allowlist names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kubesim.clock import parse_time
from kubesim.quantity import Quantity

from .exposition import COUNTER, GAUGE, Descriptions, Sample

Object = dict[str, Any]
PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
_STATUSES = ("true", "false", "unknown")
#: The kinds that are served, in the order in which they are.
KINDS = ("Pod", "Node", "Job", "ResourceQuota", "Deployment", "StatefulSet", "Namespace", "HorizontalPodAutoscaler")

DESCRIPTIONS: Descriptions = {
    "kube_pod_info": (GAUGE, "[STABLE] Information about pod."),
    "kube_pod_labels": (GAUGE, "[STABLE] Kubernetes labels converted to Prometheus labels."),
    "kube_pod_annotations": (GAUGE, "Kubernetes annotations converted to Prometheus labels."),
    "kube_pod_owner": (GAUGE, "[STABLE] Information about the Pod's owner."),
    "kube_pod_created": (GAUGE, "[STABLE] Unix creation timestamp"),
    "kube_pod_deletion_timestamp": (GAUGE, "Unix deletion timestamp"),
    "kube_pod_start_time": (GAUGE, "[STABLE] Start time in unix timestamp for a pod."),
    "kube_pod_completion_time": (GAUGE, "[STABLE] Completion time in unix timestamp for a pod."),
    "kube_pod_restart_policy": (GAUGE, "[STABLE] Describes the restart policy in use by this pod."),
    "kube_pod_status_phase": (GAUGE, "[STABLE] The pods current phase."),
    "kube_pod_status_ready": (GAUGE, "[STABLE] Describes whether the pod is ready to serve requests."),
    "kube_pod_status_reason": (GAUGE, "The pod status reasons"),
    "kube_pod_status_scheduled": (GAUGE, "[STABLE] Describes the status of the scheduling process for the pod."),
    "kube_pod_status_scheduled_time": (GAUGE, "[STABLE] Unix timestamp when pod moved into scheduled status"),
    "kube_pod_status_unschedulable": (GAUGE, "[STABLE] Describes the unschedulable status for the pod."),
    "kube_pod_container_info": (GAUGE, "[STABLE] Information about a container in a pod."),
    "kube_pod_container_resource_requests": (
        GAUGE,
        "The number of requested request resource by a container. It is recommended to use the "
        "kube_pod_resource_requests metric exposed by kube-scheduler instead, as it is more precise.",
    ),
    "kube_pod_container_resource_limits": (
        GAUGE,
        "The number of requested limit resource by a container. It is recommended to use the "
        "kube_pod_resource_limits metric exposed by kube-scheduler instead, as it is more precise.",
    ),
    "kube_pod_init_container_resource_requests": (
        GAUGE,
        "The number of requested request resource by an init container.",
    ),
    "kube_pod_container_state_started": (GAUGE, "[STABLE] Start time in unix timestamp for a pod container."),
    "kube_pod_container_status_ready": (GAUGE, "[STABLE] Describes whether the containers readiness check succeeded."),
    "kube_pod_container_status_restarts_total": (COUNTER, "[STABLE] The number of container restarts per container."),
    "kube_pod_container_status_running": (
        GAUGE,
        "[STABLE] Describes whether the container is currently in running state.",
    ),
    "kube_pod_container_status_terminated": (
        GAUGE,
        "[STABLE] Describes whether the container is currently in terminated state.",
    ),
    "kube_pod_container_status_terminated_reason": (
        GAUGE,
        "Describes the reason the container is currently in terminated state.",
    ),
    "kube_pod_container_status_last_terminated_reason": (
        GAUGE,
        "Describes the last reason the container was in terminated state.",
    ),
    "kube_pod_container_status_last_terminated_exitcode": (
        GAUGE,
        "Describes the exit code for the last container in terminated state.",
    ),
    "kube_pod_container_status_waiting": (
        GAUGE,
        "[STABLE] Describes whether the container is currently in waiting state.",
    ),
    "kube_pod_container_status_waiting_reason": (
        GAUGE,
        "[STABLE] Describes the reason the container is currently in waiting state.",
    ),
    "kube_node_info": (GAUGE, "[STABLE] Information about a cluster node."),
    "kube_node_labels": (GAUGE, "[STABLE] Kubernetes labels converted to Prometheus labels."),
    "kube_node_created": (GAUGE, "[STABLE] Unix creation timestamp"),
    "kube_node_spec_unschedulable": (GAUGE, "[STABLE] Whether a node can schedule new pods."),
    "kube_node_spec_taint": (GAUGE, "[STABLE] The taint of a cluster node."),
    "kube_node_status_allocatable": (
        GAUGE,
        "[STABLE] The allocatable for different resources of a node that are available for scheduling.",
    ),
    "kube_node_status_capacity": (GAUGE, "[STABLE] The capacity for different resources of a node."),
    "kube_node_status_condition": (GAUGE, "[STABLE] The condition of a cluster node."),
    "kube_job_labels": (GAUGE, "[STABLE] Kubernetes labels converted to Prometheus labels."),
    "kube_job_info": (GAUGE, "[STABLE] Information about job."),
    "kube_job_created": (GAUGE, "[STABLE] Unix creation timestamp"),
    "kube_job_owner": (GAUGE, "Information about the Job's owner."),
    "kube_job_spec_parallelism": (
        GAUGE,
        "[STABLE] The maximum desired number of pods the job should run at any given time.",
    ),
    "kube_job_spec_completions": (
        GAUGE,
        "[STABLE] The desired number of successfully finished pods the job should be run with.",
    ),
    "kube_job_status_active": (GAUGE, "[STABLE] The number of actively running pods."),
    "kube_job_status_succeeded": (GAUGE, "[STABLE] The number of pods which reached Phase Succeeded."),
    "kube_job_status_failed": (
        GAUGE,
        "[STABLE] The number of pods which reached Phase Failed and the reason for failure.",
    ),
    "kube_job_status_suspended": (GAUGE, "The number of pods which reached Phase Suspended."),
    "kube_job_status_start_time": (
        GAUGE,
        "[STABLE] StartTime represents time when the job was acknowledged by the Job Manager.",
    ),
    "kube_job_status_completion_time": (GAUGE, "[STABLE] CompletionTime represents time when the job was completed."),
    "kube_job_complete": (GAUGE, "[STABLE] The job has completed its execution."),
    "kube_job_failed": (GAUGE, "[STABLE] The job has failed its execution."),
    "kube_resourcequota": (GAUGE, "[STABLE] Information about resource quota."),
    "kube_resourcequota_created": (GAUGE, "[STABLE] Unix creation timestamp"),
    "kube_deployment_labels": (GAUGE, "[STABLE] Kubernetes labels converted to Prometheus labels."),
    "kube_deployment_spec_replicas": (GAUGE, "[STABLE] Number of desired pods for a deployment."),
    "kube_deployment_status_replicas": (GAUGE, "[STABLE] The number of replicas per deployment."),
    "kube_deployment_status_replicas_available": (
        GAUGE,
        "[STABLE] The number of available replicas per deployment.",
    ),
    "kube_statefulset_labels": (GAUGE, "[STABLE] Kubernetes labels converted to Prometheus labels."),
    "kube_statefulset_replicas": (GAUGE, "[STABLE] Number of desired pods for a StatefulSet."),
    "kube_statefulset_status_replicas_ready": (GAUGE, "[STABLE] The number of ready replicas per StatefulSet."),
    "kube_namespace_labels": (GAUGE, "[STABLE] Kubernetes labels converted to Prometheus labels."),
    "kube_namespace_status_phase": (GAUGE, "[STABLE] kubernetes namespace status phase."),
    "kube_horizontalpodautoscaler_spec_min_replicas": (
        GAUGE,
        "[STABLE] Lower limit for the number of pods that can be set by the autoscaler, default 1.",
    ),
    "kube_horizontalpodautoscaler_spec_max_replicas": (
        GAUGE,
        "[STABLE] Upper limit for the number of pods that can be set by the autoscaler; cannot be smaller than "
        "MinReplicas.",
    ),
    "kube_horizontalpodautoscaler_status_current_replicas": (
        GAUGE,
        "[STABLE] Current number of replicas of pods managed by this autoscaler.",
    ),
    "kube_horizontalpodautoscaler_status_desired_replicas": (
        GAUGE,
        "[STABLE] Desired number of replicas of pods managed by this autoscaler.",
    ),
}
_UNITS = {"cpu": "core", "memory": "byte", "ephemeral-storage": "byte", "pods": "integer"}


class AllowList:
    """--metric-labels-allowlist: `pods=[app,runwhere.ai/pool],nodes=[*]`."""

    def __init__(self, text: str) -> None:
        self._keys = {
            match[1]: [key.strip() for key in match[2].split(",")]
            for match in re.finditer(r"([a-z]+)=\[([^]]*)\]", text)
        }

    def labels(self, plural: str, given: Mapping[str, str] | None) -> dict[str, str]:
        allowed = self._keys.get(plural, [])
        own = {key: value for key, value in (given or {}).items() if key in allowed or allowed == ["*"]}
        return prometheus_labels("label", own)


def prometheus_labels(prefix: str, labels: Mapping[str, str]) -> dict[str, str]:
    """Keys become snake case; those that become the same are numbered (mapToPrometheusLabels)."""
    keys = sorted(labels)
    names = [f"{prefix}_{_snake(key)}" for key in keys]
    seen: dict[str, int] = {}
    found: dict[str, str] = {}
    for key, name in zip(keys, names, strict=True):
        seen[name] = seen.get(name, 0) + 1
        found[f"{name}_conflict{seen[name]}" if names.count(name) > 1 else name] = labels[key]
    return found


def _snake(key: str) -> str:
    sanitized = re.sub(r"[^a-zA-Z0-9_]", "_", key)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", sanitized).lower()


def samples(kind: str, obj: Object, allowed: AllowList) -> Iterator[Sample]:
    """All series of one object."""
    yield from _OF_KIND[kind](obj, allowed)


def _of_pod(pod: Object, allowed: AllowList) -> Iterator[Sample]:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    own = {"namespace": metadata["namespace"], "pod": metadata["name"], "uid": metadata["uid"]}
    node = spec.get("nodeName", "")
    owner: Object = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), {})
    info = {
        "host_ip": status.get("hostIP", ""),
        "pod_ip": status.get("podIP", ""),
        "node": node,
        "created_by_kind": owner.get("kind", ""),
        "created_by_name": owner.get("name", ""),
        "priority_class": spec.get("priorityClassName", ""),
        "host_network": str(bool(spec.get("hostNetwork"))).lower(),
    }
    yield Sample("kube_pod_info", own | info)
    yield Sample("kube_pod_labels", own | allowed.labels("pods", metadata.get("labels")))
    owned = {key: str(owner.get(field, "")) for key, field in (("owner_kind", "kind"), ("owner_name", "name"))}
    yield Sample("kube_pod_owner", own | owned | {"owner_is_controller": "true" if owner else ""})
    yield Sample("kube_pod_restart_policy", own | {"type": spec.get("restartPolicy", "Always")})
    yield from _times(
        own,
        kube_pod_created=metadata.get("creationTimestamp"),
        kube_pod_deletion_timestamp=metadata.get("deletionTimestamp"),
        kube_pod_start_time=status.get("startTime"),
        kube_pod_completion_time=_completion(status),
    )
    for phase in PHASES:
        yield Sample("kube_pod_status_phase", own | {"phase": phase}, float(status.get("phase") == phase))
    for reason in ("Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError"):
        yield Sample("kube_pod_status_reason", own | {"reason": reason}, float(status.get("reason") == reason))
    for condition in status.get("conditions") or ():
        if condition["type"] in ("Ready", "PodScheduled"):
            name = {"Ready": "kube_pod_status_ready", "PodScheduled": "kube_pod_status_scheduled"}[condition["type"]]
            yield from _condition(name, own, condition["status"])
        if condition["type"] == "PodScheduled":
            if condition["status"] == "True":
                yield from _times(own, kube_pod_status_scheduled_time=condition.get("lastTransitionTime"))
            elif condition.get("reason") == "Unschedulable":
                yield Sample("kube_pod_status_unschedulable", own)
    for container in spec.get("containers") or ():
        yield from _of_requests("kube_pod_container_resource", own, container, node, ("requests", "limits"))
    for container in spec.get("initContainers") or ():
        yield from _of_requests("kube_pod_init_container_resource", own, container, node, ("requests",))
    for each in status.get("containerStatuses") or ():
        yield from _of_container(own, each)


def _completion(status: Object) -> str | None:
    """The end of the last container of a pod that has ended."""
    states = [(each.get("state") or {}).get("terminated") for each in status.get("containerStatuses") or ()]
    ends = [state["finishedAt"] for state in states if state and state.get("finishedAt")]
    return max(ends) if ends and status.get("phase") in ("Succeeded", "Failed") else None


def _of_requests(
    prefix: str, own: Mapping[str, str], container: Object, node: str, sections: tuple[str, ...]
) -> Iterator[Sample]:
    for section in sections:
        for resource, text in sorted(((container.get("resources") or {}).get(section) or {}).items()):
            labels = {**own, "container": container["name"], "node": node, **_resource(resource)}
            yield Sample(f"{prefix}_{section}", labels, _amount(text))


def _of_container(own: Mapping[str, str], status: Object) -> Iterator[Sample]:
    labels = {**own, "container": status["name"]}
    state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
    image = {key: str(status.get(field) or "") for key, field in _IMAGE}
    yield Sample("kube_pod_container_info", labels | image)
    yield Sample("kube_pod_container_status_ready", labels, float(bool(status.get("ready"))))
    yield Sample("kube_pod_container_status_restarts_total", labels, float(status.get("restartCount") or 0))
    for name in ("running", "terminated", "waiting"):
        yield Sample(f"kube_pod_container_status_{name}", labels, float(name in state))
    for name in ("terminated", "waiting"):
        if (state.get(name) or {}).get("reason"):
            yield Sample(f"kube_pod_container_status_{name}_reason", labels | {"reason": state[name]["reason"]})
    started = (state.get("running") or state.get("terminated") or {}).get("startedAt")
    yield from _times(labels, kube_pod_container_state_started=started)
    if last:
        reason = {"reason": str(last.get("reason") or "")}
        yield Sample("kube_pod_container_status_last_terminated_reason", labels | reason)
        yield Sample("kube_pod_container_status_last_terminated_exitcode", labels, float(last.get("exitCode") or 0))


_IMAGE = (("image", "image"), ("image_spec", "image"), ("image_id", "imageID"), ("container_id", "containerID"))


def _of_node(node: Object, allowed: AllowList) -> Iterator[Sample]:
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    own = {"node": metadata["name"]}
    info = status.get("nodeInfo") or {}
    addresses = {each["type"]: each["address"] for each in status.get("addresses") or ()}
    about = {
        "kernel_version": info.get("kernelVersion", ""),
        "os_image": info.get("osImage", ""),
        "container_runtime_version": info.get("containerRuntimeVersion", ""),
        "kubelet_version": info.get("kubeletVersion", ""),
        "provider_id": spec.get("providerID", ""),
        "pod_cidr": spec.get("podCIDR", ""),
        "system_uuid": info.get("systemUUID", ""),
        "internal_ip": addresses.get("InternalIP", ""),
    }
    yield Sample("kube_node_info", own | about)
    yield Sample("kube_node_labels", own | allowed.labels("nodes", metadata.get("labels")))
    yield from _times(own, kube_node_created=metadata.get("creationTimestamp"))
    yield Sample("kube_node_spec_unschedulable", own, float(bool(spec.get("unschedulable"))))
    for taint in spec.get("taints") or ():
        labels = {"key": taint["key"], "value": taint.get("value", ""), "effect": taint["effect"]}
        yield Sample("kube_node_spec_taint", own | labels)
    for section in ("allocatable", "capacity"):
        for resource, text in sorted((status.get(section) or {}).items()):
            yield Sample(f"kube_node_status_{section}", own | _resource(resource), _amount(text))
    for condition in status.get("conditions") or ():
        labels = own | {"condition": condition["type"]}
        for state in _STATUSES:
            value = float(condition["status"].lower() == state)
            yield Sample("kube_node_status_condition", labels | {"status": state}, value)


def _of_job(job: Object, allowed: AllowList) -> Iterator[Sample]:
    metadata, spec, status = job["metadata"], job["spec"], job.get("status") or {}
    own = {"namespace": metadata["namespace"], "job_name": metadata["name"]}
    yield Sample("kube_job_info", own)
    yield Sample("kube_job_labels", own | allowed.labels("jobs", metadata.get("labels")))
    yield from _times(
        own,
        kube_job_created=metadata.get("creationTimestamp"),
        kube_job_status_start_time=status.get("startTime"),
        kube_job_status_completion_time=status.get("completionTime"),
    )
    for field in ("parallelism", "completions"):
        if spec.get(field) is not None:
            yield Sample(f"kube_job_spec_{field}", own, float(spec[field]))
    yield Sample("kube_job_status_active", own, float(status.get("active") or 0))
    yield Sample("kube_job_status_succeeded", own, float(status.get("succeeded") or 0))
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    yield from _job_failures(own, status, conditions.get("Failed"))
    suspended = conditions.get("Suspended", {}).get("status") == "True"
    yield Sample("kube_job_status_suspended", own, float(suspended))
    for kind, name in (("Complete", "kube_job_complete"), ("Failed", "kube_job_failed")):
        if kind in conditions:
            for state in _STATUSES:
                value = float(conditions[kind]["status"].lower() == state)
                yield Sample(name, own | {"condition": state}, value)


def _job_failures(own: Mapping[str, str], status: Object, failed: Object | None) -> Iterator[Sample]:
    """The reason is that of the Job's condition; without failed pods and reason there is one series of 0."""
    if not status.get("failed"):
        yield Sample("kube_job_status_failed", own, 0.0)
        return
    if failed is None:
        yield Sample("kube_job_status_failed", {**own, "reason": ""}, float(status["failed"]))
        return
    for reason in ("BackoffLimitExceeded", "DeadlineExceeded", "Evicted"):
        value = float(status["failed"]) if failed.get("reason") == reason else 0.0
        yield Sample("kube_job_status_failed", {**own, "reason": reason}, value)


def _of_quota(quota: Object, allowed: AllowList) -> Iterator[Sample]:
    metadata, status = quota["metadata"], quota.get("status") or {}
    own = {"namespace": metadata["namespace"], "resourcequota": metadata["name"]}
    yield from _times(own, kube_resourcequota_created=metadata.get("creationTimestamp"))
    for kind in ("hard", "used"):
        for resource, text in sorted((status.get(kind) or {}).items()):
            yield Sample("kube_resourcequota", own | {"resource": resource, "type": kind}, _amount(text))


def _of_deployment(obj: Object, allowed: AllowList) -> Iterator[Sample]:
    own = {"namespace": obj["metadata"]["namespace"], "deployment": obj["metadata"]["name"]}
    status = obj.get("status") or {}
    yield Sample("kube_deployment_labels", own | allowed.labels("deployments", obj["metadata"].get("labels")))
    yield Sample("kube_deployment_spec_replicas", own, float(obj["spec"].get("replicas", 1)))
    yield Sample("kube_deployment_status_replicas", own, float(status.get("replicas") or 0))
    yield Sample("kube_deployment_status_replicas_available", own, float(status.get("availableReplicas") or 0))


def _of_stateful_set(obj: Object, allowed: AllowList) -> Iterator[Sample]:
    own = {"namespace": obj["metadata"]["namespace"], "statefulset": obj["metadata"]["name"]}
    ready = float((obj.get("status") or {}).get("readyReplicas") or 0)
    yield Sample("kube_statefulset_labels", own | allowed.labels("statefulsets", obj["metadata"].get("labels")))
    yield Sample("kube_statefulset_replicas", own, float(obj["spec"].get("replicas", 1)))
    yield Sample("kube_statefulset_status_replicas_ready", own, ready)


def _of_namespace(obj: Object, allowed: AllowList) -> Iterator[Sample]:
    own = {"namespace": obj["metadata"]["name"]}
    yield Sample("kube_namespace_labels", own | allowed.labels("namespaces", obj["metadata"].get("labels")))
    for phase in ("Active", "Terminating"):
        value = float((obj.get("status") or {}).get("phase", "Active") == phase)
        yield Sample("kube_namespace_status_phase", own | {"phase": phase}, value)


def _of_autoscaler(obj: Object, allowed: AllowList) -> Iterator[Sample]:
    own = {"namespace": obj["metadata"]["namespace"], "horizontalpodautoscaler": obj["metadata"]["name"]}
    prefix, status = "kube_horizontalpodautoscaler", obj.get("status") or {}
    yield Sample(f"{prefix}_spec_min_replicas", own, float(obj["spec"].get("minReplicas") or 1))
    yield Sample(f"{prefix}_spec_max_replicas", own, float(obj["spec"]["maxReplicas"]))
    yield Sample(f"{prefix}_status_current_replicas", own, float(status.get("currentReplicas") or 0))
    yield Sample(f"{prefix}_status_desired_replicas", own, float(status.get("desiredReplicas") or 0))


_OF_KIND = {
    "Pod": _of_pod,
    "Node": _of_node,
    "Job": _of_job,
    "ResourceQuota": _of_quota,
    "Deployment": _of_deployment,
    "StatefulSet": _of_stateful_set,
    "Namespace": _of_namespace,
    "HorizontalPodAutoscaler": _of_autoscaler,
}


def _condition(name: str, own: Mapping[str, str], status: str) -> Iterator[Sample]:
    for state in _STATUSES:
        yield Sample(name, {**own, "condition": state}, float(status.lower() == state))


def _times(own: Mapping[str, str], **times: str | None) -> Iterator[Sample]:
    for name, text in times.items():
        if text:
            yield Sample(name, own, parse_time(text).timestamp())


def _resource(name: str) -> dict[str, str]:
    """Extended resources are counted, their names sanitised."""
    return {"resource": re.sub(r"[^a-zA-Z0-9_]", "_", name), "unit": _UNITS.get(name, "integer")}


def _amount(text: str | float) -> float:
    return float(Quantity.parse(text).amount)
