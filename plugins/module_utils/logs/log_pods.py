# SPDX-License-Identifier: BSD-2-Clause
"""Which pods of a job have their logs read, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..cluster.pod_status import pod_status
from ..cluster.related import rank_of
from ..manifest.problems import abridged

Pod = dict[str, Any]

_LISTED = 20


def sort_pods(pods: Sequence[Pod]) -> list[Pod]:
    """By rank where pods have one, then by age: the first attempt of a rank before the second."""

    def key(pod: Pod) -> tuple[int, str, str]:
        return rank_of(pod) or 0, pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]

    return sorted(pods, key=key)


def choose_pods(pods: Sequence[Pod], wanted: str | None, container: str) -> list[Pod]:
    """The pods that ``wanted`` selects and that have the container; after an update, older ones may lack it.

    ``wanted`` is a name, a rank or else a position; None selects all. Raises ValueError with a message for the user
    if no pod is left.
    """
    named = list(pods) if wanted is None else _pods_named(pods, wanted)
    if not named:
        names = [pod["metadata"]["name"] for pod in pods]
        raise ValueError(f"pod {wanted} not found. Pods: {abridged(names, _LISTED)}.")
    found = [pod for pod in named if container in _container_names(pod)]
    if not found:
        containers = dict.fromkeys(name for pod in named for name in _container_names(pod))
        raise ValueError(f"container {container} not found. Containers: {', '.join(containers)}.")
    return found


def not_started_message(pod: Pod, container: str) -> str:
    """Why a container without a log has not started, from its status."""
    status = pod.get("status", {})
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    waiting = [(one.get("state") or {}).get("waiting") or {} for one in statuses if one["name"] == container]
    state = (waiting[0].get("reason") if waiting else None) or pod_status(pod)
    return f"container {container} of pod {pod['metadata']['name']} has not started yet ({state})"


def _pods_named(pods: Sequence[Pod], wanted: str) -> list[Pod]:
    found = [pod for pod in pods if pod["metadata"]["name"] == wanted]
    if found or not wanted.isdecimal():
        return found
    if any(rank_of(pod) is not None for pod in pods):
        return [pod for pod in pods if rank_of(pod) == int(wanted)]
    return list(pods[int(wanted) : int(wanted) + 1])


def _container_names(pod: Pod) -> list[str]:
    kinds = ("containers", "initContainers", "ephemeralContainers")
    return [container["name"] for kind in kinds for container in pod["spec"].get(kind) or ()]
