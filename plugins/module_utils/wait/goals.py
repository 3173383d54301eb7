# SPDX-License-Identifier: BSD-2-Clause
"""The goals of a wait, as predicates over a job's workload and pods, and its result. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from ..cluster.read_jobs import JobId
from ..cluster.related import is_unfinished, own_pods
from ..cluster.status import ENDED, is_complete, is_ready, is_rolled_out, is_terminating, pods_wanted, status_of
from ..kube.resources import Object

Reached = Callable[[Optional[Object], Sequence[Object]], bool]


@dataclass(frozen=True)
class Goal:
    """``word`` names it in messages. ``needs_pods``: the workload alone does not show if it is reached.
    ``requires_running``: what keeps a job from running keeps it from the goal."""

    word: str
    reached: Reached
    needs_pods: bool = False
    requires_running: bool = True


def _is_scheduled(workload: Object | None, pods: Sequence[Object]) -> bool:
    """Every pod has a node. Pods of a ready workload are not checked."""
    if workload is None:
        return False
    placed = [bool(pod["spec"].get("nodeName")) for pod in own_pods(workload, pods) if not is_terminating(pod)]
    return is_ready(workload) or (is_rolled_out(workload) and all(placed) and len(placed) >= pods_wanted(workload))


def _is_paused(workload: Object | None, pods: Sequence[Object]) -> bool:
    """No pod holds resources any more: all have ended or are deleted. A job that has ended counts too."""
    paused = workload is not None and status_of(workload) in ("Paused", *ENDED)
    return paused and not unfinished_pods(pods)


def unfinished_pods(pods: Sequence[Object]) -> list[Object]:
    """The pods that may still hold resources."""
    return [pod for pod in pods if is_unfinished(pod)]


SCHEDULED = Goal("scheduled", _is_scheduled)
READY = Goal("ready", lambda workload, pods: workload is not None and is_ready(workload))
COMPLETE = Goal("complete", lambda workload, pods: workload is not None and is_complete(workload))
# A pod that terminates keeps its devices until its containers have ended, so no pod may be left.
PAUSED = Goal("paused", _is_paused, needs_pods=True, requires_running=False)
# Deleted in the background, a workload goes before its pods.
DELETED = Goal("deleted", lambda workload, pods: workload is None and not pods, needs_pods=True, requires_running=False)


def after_restart(goal: Goal) -> Goal:
    """The goal, reached by pods created since the restart."""

    def reached(workload: Object | None, pods: Sequence[Object]) -> bool:
        return workload is not None and is_rolled_out(workload) and goal.reached(workload, pods)

    return replace(goal, reached=reached)


@dataclass(frozen=True)
class WaitTarget:
    """A job to wait for. ``workload_kind`` is None if unknown. ``fresh``: it was created just now.

    ``title`` names it in messages, ``note`` is added to the reason why it is not running.
    """

    id: JobId
    workload_kind: str | None
    fresh: bool = False
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class WaitResult:
    """Of ``jobs``: why some are not running, the last lines of logs that may explain it, the live workloads, and an
    error for each that did not reach the goal. ``problem`` is the message for all; None if there is no error."""

    jobs: Collection[JobId] = ()
    reasons: Mapping[JobId, str] = field(default_factory=dict)
    logs: Mapping[JobId, Sequence[str]] = field(default_factory=dict)
    workloads: Mapping[JobId, dict[str, Any]] = field(default_factory=dict)
    errors: Mapping[JobId, str] = field(default_factory=dict)
    problem: str | None = None
