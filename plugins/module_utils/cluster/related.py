# SPDX-License-Identifier: BSD-2-Clause
"""Which pods and events belong to a workload. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..kube.resources import Object
from ..labels import COMPLETION_INDEX, MAIN_CONTAINER

# The compared fields of a container. Volumes and ports of a job only change together with these.
_COMPARED = ("name", "image", "command", "args", "workingDir", "env", "envFrom", "resources")


def own_pods(workload: Object, pods: Iterable[Object]) -> list[Object]:
    """The pods without older ones, which a deleted workload of the same name left behind."""
    # In whole seconds: the first pods can be of the same one.
    created = workload["metadata"]["creationTimestamp"]
    return [pod for pod in pods if pod["metadata"]["creationTimestamp"] >= created]


def is_unfinished(pod: Object) -> bool:
    """Whether the pod may still run, or will: a finished one holds no resources and writes no files."""
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def pods_of_template(workload: Object, pods: Iterable[Object]) -> list[Object]:
    """The workload's own pods that match its current template.

    The controllers' hashes (pod-template-hash, controller-revision-hash) would need the ReplicaSets, or a status that
    is up to date; the template itself needs neither.
    """
    template = workload["spec"]["template"]
    wanted = {
        "metadata": {name: (template.get("metadata") or {}).get(name) or {} for name in ("labels", "annotations")},
        "spec": {
            kind: [{name: one[name] for name in _COMPARED if name in one} for one in template["spec"].get(kind) or ()]
            for kind in ("initContainers", "containers")
        },
    }
    return [pod for pod in own_pods(workload, pods) if _is_contained(wanted, pod)]


def small_number(text: str) -> int | None:
    """The number that a label or annotation has; None for any other text. Kubernetes counts with 32 bits."""
    return int(text) if text.isdecimal() and len(text) <= 10 else None


def rank_of(pod: Object) -> int | None:
    """The completion index of a pod of an Indexed Job: an annotation always, a label since Kubernetes 1.28."""
    metadata = pod["metadata"]
    rank = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}.get(COMPLETION_INDEX)
    return small_number(rank or "")


def is_pod_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def has_succeeded(pod: Object) -> bool:
    """Every container has ended well; the kubelet reports the phase a second or two after that."""
    status = pod.get("status", {})
    ended = [(one.get("state") or {}).get("terminated") or {} for one in status.get("containerStatuses") or ()]
    return status.get("phase") == "Succeeded" or bool(ended and all(end.get("exitCode") == 0 for end in ended))


def is_about_workload(event: Object, workload: Object) -> bool:
    """About the workload itself, or about a ReplicaSet of a Deployment (named ``<deployment>-<hash>``)."""
    involved, metadata = event.get("involvedObject") or {}, workload["metadata"]
    if event["metadata"].get("namespace") != metadata["namespace"]:
        return False
    if involved.get("uid") == metadata["uid"]:
        return True
    may_own = workload["kind"] == "Deployment" and involved.get("kind") == "ReplicaSet"
    return may_own and str(involved.get("name", "")).rpartition("-")[0] == metadata["name"]


def is_about_pod(event: Object, namespace: str, pod_names: Collection[str]) -> bool:
    """About one of the named pods of a namespace."""
    involved, where = event.get("involvedObject") or {}, event["metadata"].get("namespace")
    return where == namespace and involved.get("kind") == "Pod" and involved.get("name") in pod_names


def main_container(containers: Iterable[Object]) -> Object:
    """The container ``main``, or the first one in workloads of other tools."""
    containers = list(containers)
    return next((container for container in containers if container["name"] == MAIN_CONTAINER), containers[0])


def _is_contained(wanted: Any, found: Any) -> bool:
    """Whether ``found`` contains all of ``wanted``; controllers and admission add to pods what no template has."""
    if isinstance(wanted, Mapping):
        found = found or {}
        return isinstance(found, Mapping) and all(_is_contained(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and all(isinstance(entry, Mapping) and "name" in entry for entry in wanted):
        named = {entry.get("name"): entry for entry in found or ()}
        return all(_is_contained(entry, named.get(entry["name"])) for entry in wanted)
    return bool(wanted == found)
