# SPDX-License-Identifier: BSD-2-Clause
"""Who preempted the pods of a job, by the scheduler's events. Pure.

The victim is deleted, and its replacement only knows that it finds no node. The event about the victim names the pod
that took its place by uid (pkg/scheduler/framework/preemption, ``Preempted by pod <uid> on node <node>``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

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


def last_preemption(workload: Object, events: Iterable[Object]) -> Object | None:
    """The last of the events (oldest first) about a pod of this workload.

    The pod is gone: only its name says whose it was.
    """
    metadata = workload["metadata"]
    since, pattern = metadata["creationTimestamp"], _pod_names(workload)
    found = [
        event
        for event in events
        if event["metadata"].get("namespace") == metadata["namespace"]
        and event["metadata"]["creationTimestamp"] >= since
        and pattern.fullmatch(str((event.get("involvedObject") or {}).get("name")))
    ]
    return found[-1] if found else None


def preemption_text(event: Object, uses: Iterable[PodUse]) -> str:
    """``the job was preempted by job big of namespace ml on node n1``; unfinished pods give the name."""
    found = _MESSAGE.search(event.get("message") or "")
    if not found:
        return "the job was preempted by one of a higher priority"
    use = next((use for use in uses if use.uid == found[1]), None)
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
