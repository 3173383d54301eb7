# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Which pods of a job are asked for their logs, and in what order. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..cluster.reason import pod_status
from ..labels import COMPLETION_INDEX

Pod = dict[str, Any]

_LISTED = 20


def in_order(pods: Sequence[Pod]) -> list[Pod]:
    """By rank where pods have one, then by age: the first try of a rank before the second."""

    def key(pod: Pod) -> tuple[int, str, str]:
        return _rank(pod) or 0, pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]

    return sorted(pods, key=key)


def chosen(pods: Sequence[Pod], wanted: str | None, container: str) -> list[Pod]:
    """Those of the pods (in order) that are meant and have the container; after an update, older ones may lack it.

    ``wanted`` is a name, a rank or else a place; None means all. Raises ValueError, whose text is a sentence for the
    user, when there is none.
    """
    named = list(pods) if wanted is None else _named(pods, wanted)
    if not named:
        names = [pod["metadata"]["name"] for pod in pods]
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        raise ValueError(f"there is no pod {wanted}, but {', '.join(names[:_LISTED])}{more}")
    found = [pod for pod in named if container in _containers(pod)]
    if not found:
        containers = dict.fromkeys(name for pod in named for name in _containers(pod))
        raise ValueError(f"there is no container {container}, but {', '.join(containers)}")
    return found


def not_started(pod: Pod, container: str) -> str:
    """What can be said of a container without a log when nothing stands in its way."""
    status = pod.get("status", {})
    told = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    waiting = [(one.get("state") or {}).get("waiting") or {} for one in told if one["name"] == container]
    state = (waiting[0].get("reason") if waiting else None) or pod_status(pod)
    return f"the container {container} of pod {pod['metadata']['name']} has not started yet ({state})"


def _named(pods: Sequence[Pod], wanted: str) -> list[Pod]:
    found = [pod for pod in pods if pod["metadata"]["name"] == wanted]
    if found or not wanted.isdecimal():
        return found
    if any(_rank(pod) is not None for pod in pods):
        return [pod for pod in pods if _rank(pod) == int(wanted)]
    return list(pods[int(wanted) : int(wanted) + 1])


def _rank(pod: Pod) -> int | None:
    """The completion index of a pod of an Indexed Job: an annotation always, a label since Kubernetes 1.28."""
    metadata = pod["metadata"]
    rank = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}.get(COMPLETION_INDEX)
    return int(rank) if rank is not None else None


def _containers(pod: Pod) -> list[str]:
    kinds = ("containers", "initContainers", "ephemeralContainers")
    return [container["name"] for kind in kinds for container in pod["spec"].get(kind) or ()]
