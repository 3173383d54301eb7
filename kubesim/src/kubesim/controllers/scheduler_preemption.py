# SPDX-License-Identifier: BSD-2-Clause
"""Which pods would have to go so that one of higher priority fits.

Source: pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode), framework/preemption (order of choice).
"""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.clock import parse_time

from .base import Object, key_of
from .scheduler_filters import pod_rules, refuse_for_now
from .scheduler_nodes import NodeInfo, Snapshot, host_ports, requests

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass
class Candidate:
    node: NodeInfo
    victims: list[Object]


def best_candidate(pod: Object, nodes: list[NodeInfo], snapshot: Snapshot) -> Candidate | None:
    """The node where the least is lost, among those where taking pods off helps; None when there is none."""
    candidates = [Candidate(node, victims) for node in nodes if (victims := _victims(pod, node, snapshot))]
    return min(candidates, key=_loss, default=None)


def _loss(candidate: Candidate) -> tuple[int, int, int, float]:
    """The highest priority lost, their sum, their number, and then the one that started last."""
    priorities = [priority(victim) for victim in candidate.victims]
    highest = max(priorities)
    starts = [_start(victim) for victim in candidate.victims if priority(victim) == highest]
    return highest, sum(priorities), len(priorities), -min(starts)


def _victims(pod: Object, node: NodeInfo, snapshot: Snapshot) -> list[Object]:
    """The fewest and least important pods of lower priority: all go in thought, then come back while it fits."""
    lower = [other for other in node.pods.values() if priority(other) < priority(pod)]
    if not lower or not _fits(pod, node, snapshot, lower):
        return []
    victims = list(lower)
    for other in sorted(lower, key=lambda one: (-priority(one), _start(one))):
        kept = [one for one in victims if one is not other]
        if _fits(pod, node, snapshot, kept):
            victims = kept
    return victims


def _fits(pod: Object, node: NodeInfo, snapshot: Snapshot, without: list[Object]) -> bool:
    reserved = snapshot.nominees(node.name, pod)
    if refuse_for_now(requests(pod), host_ports(pod), node, without, reserved) is not None:
        return False
    return pod_rules(pod, snapshot, frozenset(map(key_of, without))).refuse(node) is None


def priority(pod: Object) -> int:
    return int(pod["spec"].get("priority") or 0)


def _start(pod: Object) -> float:
    status = pod.get("status", {})
    return parse_time(status.get("startTime") or pod["metadata"]["creationTimestamp"]).timestamp()
