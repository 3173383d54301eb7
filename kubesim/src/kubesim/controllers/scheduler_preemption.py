# SPDX-License-Identifier: BSD-2-Clause
"""Which pods would have to go so that one of higher priority fits.

Source: pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode), framework/preemption (order of choice).
"""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.clock import parse_time
from kubesim.selectors import matches_label_selector

from .base import Key, Object, key_of
from .scheduler_filters import pod_rules, refuse_for_now
from .scheduler_nodes import NodeInfo, Snapshot, host_ports, requests

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass
class Candidate:
    node: NodeInfo
    victims: list[Object]
    broken: int  # victims that a PodDisruptionBudget protects


def best_candidate(pod: Object, nodes: list[NodeInfo], snapshot: Snapshot, budgets: list[Object]) -> Candidate | None:
    """The node where the least is lost, among those where taking pods off helps; None when there is none."""
    found = (_candidate(pod, node, snapshot, budgets) for node in nodes)
    return min(filter(None, found), key=_loss, default=None)


def _loss(candidate: Candidate) -> tuple[int, int, int, int, float]:
    """Budgets broken, the highest priority lost, their sum, their number, and then the one that started last."""
    priorities = [priority(victim) for victim in candidate.victims]
    highest = max(priorities)
    starts = [_start(victim) for victim in candidate.victims if priority(victim) == highest]
    total = sum(one + 2**31 for one in priorities)
    return candidate.broken, highest, total, len(priorities), -min(starts)


def _candidate(pod: Object, node: NodeInfo, snapshot: Snapshot, budgets: list[Object]) -> Candidate | None:
    """The fewest and least important pods of lower priority: all go in thought, then come back while it fits.

    Those that a budget protects come back first.
    """
    lower = [other for other in node.pods.values() if priority(other) < priority(pod)]
    if not lower or not _fits(pod, node, snapshot, lower):
        return None
    important = sorted(lower, key=lambda one: (-priority(one), _start(one)))
    protected = _protected(important, budgets)
    victims = list(lower)
    for other in sorted(important, key=lambda one: key_of(one) not in protected):
        kept = [one for one in victims if one is not other]
        if _fits(pod, node, snapshot, kept):
            victims = kept
    broken = sum(key_of(one) in protected for one in victims)
    return Candidate(node, victims, broken) if victims else None


def _protected(pods: list[Object], budgets: list[Object]) -> set[Key]:
    """The pods whose eviction breaks a budget (filterPodsWithPDBViolation)."""
    left = [(budget.get("status") or {}).get("disruptionsAllowed", 0) for budget in budgets]
    found = set()
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        for index, budget in enumerate(budgets):
            same = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
            selector = budget["spec"].get("selector")
            if same and labels and selector and matches_label_selector(selector, labels):
                left[index] -= 1
                if left[index] < 0:
                    found.add(key_of(pod))
    return found


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
