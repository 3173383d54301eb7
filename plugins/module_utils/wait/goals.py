# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What a job can be waited for to become, as questions to its workload and pods. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

from ..cluster.status import is_complete, is_ready, is_rolled_out, pods_wanted, status_of
from ..cluster.template import own_pods

Object = Mapping[str, Any]
Reached = Callable[[Optional[Object], Sequence[Object]], bool]


@dataclass(frozen=True)
class Goal:
    """``word`` is how messages name it.

    ``by_pods``: it cannot be told without a look at the pods. ``by_running``: what keeps a job from running keeps it
    from getting there.
    """

    word: str
    reached: Reached
    needs_pods: bool = False
    requires_running: bool = True


def _is_scheduled(workload: Object | None, pods: Sequence[Object]) -> bool:
    """Every pod has a node. One that is ready must have one, and asking for the pods can be saved."""
    if workload is None:
        return False
    placed = [bool(pod["spec"].get("nodeName")) for pod in own_pods(workload, pods) if not _is_terminating(pod)]
    return is_ready(workload) or (is_rolled_out(workload) and all(placed) and len(placed) >= pods_wanted(workload))


def _is_paused(workload: Object | None, pods: Sequence[Object]) -> bool:
    """No pod holds anything any more; those that have ended may stay to be looked at. What has ended is not paused."""
    left = [pod for pod in pods if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")]
    return workload is not None and status_of(workload) in _WITHOUT_PODS and not left


_WITHOUT_PODS = ("Paused", "Succeeded", "Failed")


def _is_terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


SCHEDULED = Goal("scheduled", _is_scheduled)
READY = Goal("ready", lambda workload, pods: workload is not None and is_ready(workload))
COMPLETE = Goal("complete", lambda workload, pods: workload is not None and is_complete(workload))
PAUSED = Goal("paused", _is_paused, needs_pods=True, requires_running=False)
DELETED = Goal("gone", lambda workload, pods: workload is None and not pods, needs_pods=True, requires_running=False)


def after_restart(goal: Goal) -> Goal:
    """The goal, with none of the pods that were there before a restart."""

    def reached(workload: Object | None, pods: Sequence[Object]) -> bool:
        return workload is not None and is_rolled_out(workload) and goal.reached(workload, pods)

    return replace(goal, reached=reached)
