# SPDX-License-Identifier: BSD-2-Clause
"""The rows that gpuctl_job_info returns for jobs, pods and events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from ...accelerators.catalog import catalog
from ...cluster.pod_status import pod_status
from ...cluster.related import main_container
from ...cluster.status import pods_ready, pods_wanted, status_of
from ...cluster.time_limits import ends_at
from ...jobs.job_size import size_row
from ...jobs.submitter import submitter_title
from ...kube.shapes import MalformedObject
from ...kube.times import read_time, time_as_text
from ...labels import (
    DEFAULT_POOL,
    DESCRIPTION,
    FIELD_MANAGER,
    GPU_TYPE,
    JOB_TYPE,
    MAIN_CONTAINER,
    MANAGED_BY,
    POOL,
    PRIORITY,
    job_name_of,
)

MULTIKUEUE_ORIGIN = "kueue.x-k8s.io/multikueue-origin"  # a label of what Kueue has copied from another cluster
UNKNOWN = "Unknown"
"""The status of what cannot be read."""


def job_row(workload: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """A job, without what needs other objects (reason, URLs)."""
    metadata, status = workload["metadata"], workload.get("status", {})
    labels = metadata.get("labels") or {}
    template = workload["spec"]["template"]
    spec = template["spec"]
    container, end = main_container(spec["containers"]), ends_at(workload, now)
    requests = (container.get("resources") or {}).get("requests") or {}
    return {
        **size_row(workload),
        "name": job_name_of(workload) or metadata["name"],
        "namespace": metadata["namespace"],
        "kind": labels.get(JOB_TYPE),
        "status": status_of(workload),
        "ready": f"{pods_ready(workload)}/{pods_wanted(workload)}",
        "pool": labels.get(POOL) or DEFAULT_POOL,
        "priority": labels.get(PRIORITY),
        "gpu_type": _gpu_type(spec.get("nodeSelector") or {}),
        "cpu": requests.get("cpu"),
        "memory": requests.get("memory"),
        "image": container.get("image"),
        "description": (metadata.get("annotations") or {}).get(DESCRIPTION),
        "submitted_by": submitter_title(workload),
        "managed": labels.get(MANAGED_BY) == FIELD_MANAGER,
        "workload": f"{workload['kind']}/{metadata['name']}",
        "copy_of_kueue": MULTIKUEUE_ORIGIN in labels,
        "created_at": metadata["creationTimestamp"],
        "started_at": status.get("startTime"),
        "finished_at": finished_at(status),
        "ends_at": end and time_as_text(end),
        "time_left": end and short_span(max(0, int((end - now).total_seconds()))),
        "age": age(metadata["creationTimestamp"], now),
    }


def malformed_job_row(malformed: MalformedObject) -> dict[str, Any]:
    """The row of a workload that cannot be read: nothing is known but where it is, and what is wrong with it."""
    blank = dict.fromkeys(job_row(_ANY_WORKLOAD, datetime.now(timezone.utc)))
    own = {
        "name": malformed.name,
        "namespace": malformed.namespace,
        "status": UNKNOWN,
        "workload": f"{malformed.kind}/{malformed.name}",
    }
    return {**blank, **own, "reason": malformed.sentence, "access_urls": []}


def malformed_pod_row(malformed: MalformedObject) -> dict[str, Any]:
    """The row of a pod that cannot be read."""
    blank = dict.fromkeys(pod_row(_ANY_POD, datetime.now(timezone.utc)))
    return {**blank, "job_id": malformed.name, "namespace": malformed.namespace, "status": UNKNOWN}


_ANY_POD: Mapping[str, Any] = {
    "metadata": {"name": "", "namespace": "", "creationTimestamp": "1970-01-01T00:00:00Z"},
    "spec": {"containers": [{"name": MAIN_CONTAINER}]},
}
_ANY_WORKLOAD = {**_ANY_POD, "kind": "Job", "spec": {"template": {"spec": _ANY_POD["spec"]}}}


def _gpu_type(selector: Mapping[str, str]) -> str | None:
    """What the job wants: by our label, or by the vendor's for an alias of its pool."""
    labels = (GPU_TYPE, *(profile.product_label for profile in catalog().profiles.values()))
    return next((selector[label] for label in labels if label and label in selector), None)


def pod_row(pod: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """A pod, with the columns of ``gpuctl get jobs``."""
    metadata, status = pod["metadata"], pod.get("status", {})
    containers = status.get("containerStatuses") or ()
    return {
        "job_id": metadata["name"],
        "name": job_name_of(pod),
        "namespace": metadata["namespace"],
        "kind": (metadata.get("labels") or {}).get(JOB_TYPE),
        "status": pod_status(pod),
        "ready": f"{sum(bool(c.get('ready')) for c in containers)}/{len(pod['spec']['containers'])}",
        "restarts": sum(c.get("restartCount", 0) for c in containers),
        "started_at": _running_since(containers),
        "image": main_container(pod["spec"]["containers"]).get("image"),
        "node": pod["spec"].get("nodeName"),
        "ip": status.get("podIP"),
        "age": age(metadata["creationTimestamp"], now),
    }


def _running_since(containers: Iterable[Mapping[str, Any]]) -> str | None:
    """When the last of the containers that run has started."""
    running = [(container.get("state") or {}).get("running") or {} for container in containers]
    return max((state["startedAt"] for state in running if state.get("startedAt")), default=None)


def event_row(event: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """An event about a workload, its ReplicaSets, or its pods."""
    involved, series = event["involvedObject"], event.get("series") or {}
    seen = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return {
        "object": f"{involved.get('kind')}/{involved.get('name')}",
        "reason": event.get("reason"),
        "message": event.get("message"),
        "count": series.get("count") or event.get("count") or 1,
        "age": age(seen or event["metadata"]["creationTimestamp"], now),
    }


def age(since: str, now: datetime) -> str:
    """Time since then: ``45s``, ``100s``, ``12m``, ``5h``, ``3d``."""
    return short_span(max(0, int((now - read_time(since)).total_seconds())))


def short_span(seconds: int) -> str:
    """Seconds in the largest unit that gives at least 2."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def finished_at(status: Mapping[str, Any]) -> str | None:
    """Only Jobs that succeeded have ``completionTime``; a failed one has the time in its condition."""
    failed = [c for c in status.get("conditions") or () if c["type"] == "Failed" and c["status"] == "True"]
    moment: str | None = status.get("completionTime") or (failed[0].get("lastTransitionTime") if failed else None)
    return moment
