# SPDX-License-Identifier: BSD-2-Clause
"""Which pods would be preempted so that one of higher priority fits. Pure.

Source: pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode), framework/preemption.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...cluster.admitted_pod import WantedPod
from ...cluster.label_selectors import selects
from ...cluster.pod_facts import PlacedPod
from ...kube.resources import Object
from .pod_rules import PodRules
from .pods_on_node import Loss, PodsOnNode, loss_of
from .world import NodeState, World


@dataclass(frozen=True)
class Eviction:
    """The pods to take off a node. ``breaks``: how many of them a PodDisruptionBudget protects."""

    node: NodeState
    pods: tuple[PlacedPod, ...]
    breaks: int = 0

    @cached_property
    def loss(self) -> Loss:
        return loss_of(self.pods, self.breaks)


_NOTHING: tuple[int | None, bool, None] = (None, False, None)
_ONLY_TRIED: tuple[int | None, bool, None] = (None, True, None)


def best_eviction(
    world: World, pod: WantedPod, nodes: Iterable[NodeState], rules: PodRules, budgets: Sequence[Object]
) -> Eviction | None:
    """The eviction that loses the least, the first of several; None if none helps."""
    if not pod.preempts:
        return None
    best: Eviction | None = None
    is_simple, has_rules = world.only_amounts(pod), rules.matter
    # The same pod looks at the same nodes again and again.
    _pod, known = world.evictions.setdefault(id(pod), (pod, {}))
    for state in nodes:
        by_amounts = is_simple and not state.nominated
        content, social, eviction = known.get(state.name, _NOTHING) if by_amounts else _ONLY_TRIED
        if content != state.content:
            lower = state.lower_than(pod.priority)
            if not lower.pods or (best is not None and lower.least_loss >= best.loss):
                continue
            if by_amounts:
                social = has_rules and any(
                    rules.concerns(one.namespace, one.labels, one.keeps_off) for one in lower.pods
                )
                eviction = None if social else _eviction_by_amounts(pod, state, lower, budgets)
                known[state.name] = state.content, social, eviction
        if social:
            eviction = _eviction(world, pod, state, rules, budgets)
        elif eviction is not None and has_rules and rules.refuse(state.node):
            continue
        if eviction is not None and (best is None or eviction.loss < best.loss):
            best = eviction
    return best


def _eviction_by_amounts(
    pod: WantedPod, state: NodeState, lower: PodsOnNode, budgets: Sequence[Object]
) -> Eviction | None:
    """The same as ``_eviction`` where no rule is about the pods of lower priority, by arithmetic."""
    places = state.most - len(state.pods) + len(lower.pods) - 1
    if places < 0 or not _is_enough(pod, state, lower) or state.copies(pod):
        return None
    # Pods that a budget protects are reprieved first, then the others, each the most important first.
    protected = _protected(lower.pods, budgets) if budgets else set()
    important = sorted(lower.pods, key=lambda other: other.uid not in protected) if protected else lower.pods
    free = state.free
    left = {name: free.get(name, 0) - amount + lower.requests.get(name, 0) for name, amount in pod.requests.items()}
    victims = []
    for other in important:
        requests = other.requests
        stays = places > 0
        if stays:
            for name, amount in left.items():
                if amount < requests.get(name, 0):
                    stays = False
                    break
        if stays:
            places -= 1
            for name in left:
                left[name] -= requests.get(name, 0)
        else:
            victims.append(other)
    breaks = sum(other.uid in protected for other in victims) if protected else 0
    return Eviction(state, tuple(victims), breaks) if victims else None


def _eviction(
    world: World, pod: WantedPod, state: NodeState, rules: PodRules, budgets: Sequence[Object]
) -> Eviction | None:
    found = state.lower_than(pod.priority)
    lower = found.pods
    if not _is_enough(pod, state, found):
        return None
    refusal = world.refuse(pod, state, rules)
    if refusal is None or refusal.lasts:
        return None
    # SelectVictimsOnNode: remove all pods of lower priority, then put back one by one those that may stay.
    for other in lower:
        world.remove(other)
    victims: list[PlacedPod] = []
    gone = lower
    try:
        if world.refuse(pod, state, rules) is not None:
            return None
        breaks = 0
        gone = []
        protected = _protected(lower, budgets)
        for other in sorted(lower, key=lambda other: other.uid not in protected):
            world.put_back(other)
            if world.refuse(pod, state, rules) is not None:
                world.remove(other)
                victims.append(other)
                breaks += other.uid in protected
    finally:
        for other in (*gone, *victims):
            world.put_back(other)
    return Eviction(state, tuple(victims), breaks) if victims else None


def _is_enough(pod: WantedPod, state: NodeState, lower: PodsOnNode) -> bool:
    """Whether there would be enough of each resource, which is quicker to see than to try."""
    free, freed = state.free, lower.requests
    return all(amount <= free.get(name, 0) + freed.get(name, 0) for name, amount in reversed(pod.requests.items()))


def _protected(pods: Iterable[PlacedPod], budgets: Sequence[Object]) -> set[str]:
    """The pods whose eviction breaks a PodDisruptionBudget (``filterPodsWithPDBViolation``)."""
    left = [(budget.get("status") or {}).get("disruptionsAllowed") or 0 for budget in budgets]
    found = set()
    for pod in pods:
        for index, budget in enumerate(budgets):
            selector = (budget.get("spec") or {}).get("selector")
            # To the scheduler, an empty selector matches nothing, and a pod without labels matches no budget.
            is_meant = budget["metadata"]["namespace"] == pod.namespace and pod.labels and selector
            if not is_meant or not selects(selector, pod.labels):
                continue
            # The API server has granted this eviction already: to count it again would over-decrement the budget.
            if pod.name in ((budget.get("status") or {}).get("disruptedPods") or {}):
                continue
            left[index] -= 1
            if left[index] < 0:
                found.add(pod.uid)
    return found
