# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Jobs and their pods as rows that a person reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ..labels import APP, DEFAULT_POOL, DESCRIPTION, GPU, GPU_MEMORY, GPU_TYPE, JOB_TYPE, POOL, PRIORITY, job_name_of
from .reason import pod_status
from .status import pods_wanted, status_of


def job_row(workload: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """A job as gpuctl_job_info returns it, without what needs other objects (reason, URLs)."""
    metadata, status = workload["metadata"], workload.get("status", {})
    labels = metadata.get("labels") or {}
    spec = workload["spec"]["template"]["spec"]
    container = spec["containers"][0]
    requests = (container.get("resources") or {}).get("requests") or {}
    ready = status.get("ready" if workload["kind"] == "Job" else "readyReplicas", 0)
    return {
        "name": labels.get(APP) or metadata["name"],
        "namespace": metadata["namespace"],
        "kind": labels.get(JOB_TYPE),
        "status": status_of(workload),
        "ready": f"{ready}/{pods_wanted(workload)}",
        "pool": labels.get(POOL) or DEFAULT_POOL,
        "priority": labels.get(PRIORITY),
        "gpu": int(requests.get(GPU, 0)),
        "gpu_type": (spec.get("nodeSelector") or {}).get(GPU_TYPE),
        "gpu_share": f"{requests[GPU_MEMORY]}Gi" if GPU_MEMORY in requests else None,
        "cpu": requests.get("cpu"),
        "memory": requests.get("memory"),
        "image": container.get("image"),
        "description": (metadata.get("annotations") or {}).get(DESCRIPTION),
        "created_at": metadata["creationTimestamp"],
        "started_at": status.get("startTime"),
        "finished_at": status.get("completionTime"),
        "age": age(metadata["creationTimestamp"], now),
    }


def pod_row(pod: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """A pod as ``gpuctl get jobs`` shows it: one line each."""
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
        "node": pod["spec"].get("nodeName"),
        "ip": status.get("podIP"),
        "age": age(metadata["creationTimestamp"], now),
    }


def event_rows(
    workload: Mapping[str, Any], pods: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]], now: datetime
) -> list[dict[str, Any]]:
    """The warnings about a workload and its pods, oldest first."""
    uids = {workload["metadata"]["uid"], *(pod["metadata"]["uid"] for pod in pods)}
    rows = []
    for event in events:
        involved = event.get("involvedObject") or {}
        if involved.get("uid") in uids:
            seen = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
            rows.append(
                {
                    "object": f"{involved.get('kind')}/{involved.get('name')}",
                    "reason": event.get("reason"),
                    "message": event.get("message"),
                    "count": event.get("count") or 1,
                    "age": age(seen, now),
                }
            )
    return rows


def age(since: str, now: datetime) -> str:
    """Time passed, as short as kubectl says it: ``45s``, ``12m``, ``5h``, ``3d``."""
    seconds = max(0, int((now - datetime.fromisoformat(since.replace("Z", "+00:00"))).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
