# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Which pods were made from a workload's present template, and not from one that a change has replaced. Pure.

The controllers' own marks (pod-template-hash, controller-revision-hash) can be held against a workload only with its
ReplicaSets or when its status has caught up; the template itself tells at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..labels import MAIN_CONTAINER

Object = Mapping[str, Any]

# What is compared of a container. Volumes and ports say nothing that these would not, for a job's pods.
_TOLD = ("image", "command", "args", "workingDir", "env", "envFrom", "resources")


def own_pods(workload: Object, pods: Iterable[Object]) -> list[Object]:
    """The pods without those that a deleted workload of the same name left behind: they are older."""
    born = workload["metadata"]["creationTimestamp"]
    return [pod for pod in pods if pod["metadata"]["creationTimestamp"] >= born]


def pods_of_template(workload: Object, pods: Iterable[Object]) -> list[Object]:
    """The workload's own pods that its template, as it is now, describes."""
    template = workload["spec"]["template"]
    wanted = {
        "metadata": {name: template["metadata"].get(name) or {} for name in ("labels", "annotations")},
        "spec": {
            kind: [_told(container) for container in template["spec"].get(kind) or ()]
            for kind in ("initContainers", "containers")
        },
    }
    return [pod for pod in own_pods(workload, pods) if _within(wanted, pod)]


def main_container(containers: Iterable[Object]) -> Object:
    """Our container; of other tools' workloads the first one."""
    containers = list(containers)
    return next((container for container in containers if container["name"] == MAIN_CONTAINER), containers[0])


def _told(container: Object) -> dict[str, Any]:
    return {name: container[name] for name in ("name", *_TOLD) if name in container}


def _within(wanted: Any, found: Any) -> bool:
    """Whether everything that is wanted is found; controllers and admission add to pods what no template has."""
    if isinstance(wanted, Mapping):
        found = found or {}
        return isinstance(found, Mapping) and all(_within(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and all(isinstance(entry, Mapping) and "name" in entry for entry in wanted):
        named = {entry.get("name"): entry for entry in found or ()}
        return all(_within(entry, named.get(entry["name"])) for entry in wanted)
    return bool(wanted == found)
