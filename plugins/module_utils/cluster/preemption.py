# SPDX-License-Identifier: BSD-2-Clause
"""Who preempted the pods of a job, by the scheduler's events. Pure.

The victim is deleted, and its replacement only knows that it finds no node. The event about the victim names the pod
that took its place by uid (pkg/scheduler/framework/preemption, ``Preempted by pod <uid> on node <node>``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..kube.resources import Object
from .nodes import PodUse
from .status import ENDED, is_suspended, is_terminating, pods_wanted, status_of

PREEMPTED = "reason=Preempted"
"""The field selector of those events; they are no warnings."""

_MESSAGE = re.compile(r"Preempted by pod (\S+) on node (\S+)")
_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]{5}"  # apimachinery/pkg/util/rand


def may_be_preempted(workload: Object, pods: Sequence[Object]) -> bool:
    """Whether pods that a workload may have had are missing, being stopped or without a node."""
    if not workload.get("status") or is_suspended(workload) or status_of(workload) in ENDED:
        return False
    placed = [pod for pod in pods if pod["spec"].get("nodeName") and not is_terminating(pod)]
    return len(placed) < pods_wanted(workload)


def by_start_of_name(events: Iterable[Object]) -> dict[tuple[Any, str], list[Object]]:
    """The events by namespace and by what their pod may be named after: its name without the last part, or two."""
    found: dict[tuple[Any, str], list[Object]] = defaultdict(list)
    for event in events:
        longer = str((event.get("involvedObject") or {}).get("name")).rpartition("-")[0]
        for start in (longer, longer.rpartition("-")[0]):
            found[event["metadata"].get("namespace"), start].append(event)
    return found


def last_preemption(workload: Object, events: Mapping[tuple[Any, str], Sequence[Object]]) -> Object | None:
    """The last of the events (oldest first, see ``by_start_of_name``) about a pod of this workload.

    The pod is gone: only its name says whose it was.
    """
    metadata = workload["metadata"]
    since, pattern = metadata["creationTimestamp"], _pod_names(workload)
    found = [
        event
        for event in events.get((metadata["namespace"], metadata["name"]), ())
        if event["metadata"]["creationTimestamp"] >= since
        and pattern.fullmatch(str((event.get("involvedObject") or {}).get("name")))
    ]
    return found[-1] if found else None


def preemption_text(event: Object, uses: Mapping[str, PodUse]) -> str:
    """``the job was preempted by job big of namespace ml on node n1``; unfinished pods, by uid, give the name."""
    found = _MESSAGE.search(event.get("message") or "")
    if not found:
        return "the job was preempted by one of a higher priority"
    use = uses.get(found[1])
    who = f"job {use.job} of namespace {use.namespace}" if use and use.job else "a pod of a higher priority"
    return f"the job was preempted by {who} on node {found[2]}"


def _pod_names(workload: Object) -> re.Pattern[str]:
    """How the pods of a workload are named by its controller."""
    name = re.escape(workload["metadata"]["name"])
    if workload["kind"] == "StatefulSet":
        return re.compile(rf"{name}-\d+")
    if workload["kind"] == "Deployment":
        # <deployment>-<pod-template-hash>-<random>; the hash is a number of 32 bits, so it has ten digits at most.
        return re.compile(rf"{name}-[a-z0-9]{{1,10}}-{_RANDOM}")
    indexed = workload["spec"].get("completionMode") == "Indexed"
    return re.compile(rf"{name}-\d+-{_RANDOM}" if indexed else rf"{name}-{_RANDOM}")
