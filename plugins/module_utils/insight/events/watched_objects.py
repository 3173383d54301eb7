# SPDX-License-Identifier: BSD-2-Clause
"""What an event source keeps of the objects that it watches, and what it reads from them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...cluster.nodes import PodUse
from ...cluster.pod_status import start_of
from ...cluster.related import is_unfinished
from ...kube.resources import Object
from ...kube.times import is_time
from ...labels import DEFAULT_POOL, JOB_TYPE, POOL, job_name_of
from .job_transitions import PodsOfJob

# The node controller deletes the pods of a lost node: node.lost says so.
_BY_NODE_LOSS = frozenset({"DeletionByTaintManager", "DeletionByPodGC"})


def slim_watched_pod(pod: dict[str, Any]) -> dict[str, Any]:
    """Whose pod it is, where it is, and how its containers have started and ended."""
    metadata, status = pod["metadata"], pod.get("status", {})
    labels = metadata.get("labels") or {}
    kept = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "ownerReferences")
    return {
        "kind": "Pod",
        "metadata": {
            **{name: metadata[name] for name in kept if name in metadata},
            "labels": {name: labels[name] for name in ("app", "job-name", JOB_TYPE) if name in labels},
        },
        "spec": {"nodeName": (pod.get("spec") or {}).get("nodeName")},
        "status": {
            "phase": status.get("phase"),
            "conditions": [one for one in status.get("conditions") or () if one["type"] == "DisruptionTarget"],
            "started": _last_starts(status),
        },
    }


def slim_watched_node(node: dict[str, Any]) -> dict[str, Any]:
    """Whether it is ready, and its pool."""
    metadata = node["metadata"]
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready: Mapping[str, Any] = next((one for one in conditions if one["type"] == "Ready"), {})
    return {
        "kind": "Node",
        "metadata": {name: metadata[name] for name in ("name", "uid", "creationTimestamp")},
        "pool": (metadata.get("labels") or {}).get(POOL) or DEFAULT_POOL,
        "ready": str(ready.get("status") or "False"),
        "since": ready.get("lastTransitionTime"),
        "message": str(ready.get("message") or ready.get("reason") or ""),
    }


def job_of(obj: Object) -> tuple[str, str]:
    """The namespace and name of the job that an object belongs to."""
    return obj["metadata"]["namespace"], job_name_of(obj) or obj["metadata"]["name"]


def pods_facts(
    workload: Object, pods: Iterable[Object], run: str, preemptions: Iterable[tuple[str, str, str]] = ()
) -> PodsOfJob:
    """What slim pods say of a run of a workload, which began at ``run``, or with its creation.

    ``preemptions`` are those that events report: time, reason and pod.
    """
    created = workload["metadata"]["creationTimestamp"]
    own = [pod for pod in pods if pod["metadata"]["creationTimestamp"] >= created]
    since = run.partition(" ")[0]
    begun = [pod for pod in own if not is_time(since) or pod["metadata"]["creationTimestamp"] >= since]
    starts = [start for pod in begun for start in pod["status"]["started"]]
    victims = {(time, cause, name) for time, cause, name in preemptions if time >= created}
    for pod in own:
        for condition in pod["status"]["conditions"]:
            cause, time = str(condition.get("reason")), condition.get("lastTransitionTime")
            if condition["status"] == "True" and time and cause not in _BY_NODE_LOSS:
                victims.add((str(time), cause, pod["metadata"]["name"]))
    return PodsOfJob(max(starts, default=None), bool(starts), tuple(sorted(victims)))


def event_time(event: Object) -> str:
    """When an event was seen last."""
    series = event.get("series") or {}
    seen = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(seen or event["metadata"]["creationTimestamp"])


def use_of(pod: Object) -> PodUse:
    """A slim pod, as far as messages name it."""
    namespace, job = job_of(pod)
    return PodUse(namespace, job, None, None, pod["spec"]["nodeName"], {}, pod["metadata"]["uid"])


def jobs_on(node: str, pods: Iterable[Object]) -> list[dict[str, Any]]:
    """The jobs with unfinished pods on a node, by namespace and name."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for pod in pods:
        if pod["spec"]["nodeName"] == node and is_unfinished(pod):
            namespace, name = job_of(pod)
            kind = pod["metadata"]["labels"].get(JOB_TYPE)
            row = found.setdefault(
                (namespace, name), {"namespace": namespace, "job": name, "job_type": kind, "pods": []}
            )
            row["pods"].append(pod["metadata"]["name"])
    return [{**found[job], "pods": sorted(found[job]["pods"])} for job in sorted(found)]


def _last_starts(status: Object) -> list[str]:
    """When each container that runs, or has ended, started."""
    found = []
    for container in status.get("containerStatuses") or ():
        starts = (start_of(container.get(state)) for state in ("state", "lastState"))
        if started := next(filter(None, starts), None):
            found.append(started)
    return found
