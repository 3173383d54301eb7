# SPDX-License-Identifier: BSD-2-Clause
"""Some of the pods on a node: what they request together, and what it costs to preempt them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...cluster.pod_facts import PlacedPod
from ...cluster.pod_requests import Amounts

Loss = tuple[int, int, int, int, str]


@dataclass(frozen=True)
class PodsOnNode:
    """By MoreImportantPod of pkg/scheduler/util, where that matters: the higher priority, then what started earlier."""

    pods: Sequence[PlacedPod]

    @cached_property
    def requests(self) -> Amounts:
        found: Amounts = {}
        for pod in self.pods:
            for resource, amount in pod.requests.items():
                found[resource] = found.get(resource, 0) + amount
        return found

    @cached_property
    def least_loss(self) -> Loss:
        """No eviction of some of them loses less: that of the least important one, whatever room it makes."""
        return loss_of(self.pods[-1:])


def loss_of(pods: Sequence[PlacedPod], breaks: int = 0) -> Loss:
    """What is lost by preempting the pods, of which a PodDisruptionBudget protects ``breaks``. The least is chosen; at
    last the node whose most important pod has run for the shortest time (pickOneNodeForPreemption)."""
    highest = max(pod.priority for pod in pods)
    started = min(pod.started_at for pod in pods if pod.priority == highest)
    # 2**31 (MaxInt32+1) makes every priority count as at least 0. Without it, a node with many pods of negative
    # priority would look cheaper than one with few of them.
    return breaks, highest, sum(pod.priority + 2**31 for pod in pods), len(pods), _descending_key(started)


def _descending_key(time: str) -> str:
    """Sorts the latest time first: the complement of each digit."""
    return time.translate(_COMPLEMENT)


_COMPLEMENT = str.maketrans("0123456789", "9876543210")
