# SPDX-License-Identifier: BSD-2-Clause
"""What nodes certainly have too little of, which is quicker to see than to try to place pods. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...cluster.admitted_pod import WantedPod
from .world import World

NONE = -(2**31)  # below every priority: that of pods that preempt nothing
HIGHEST = 2**31


class Lacks:
    """``finally_``: once all pods have ended that may; or else with what the pods of a job may preempt.

    What nodes have is kept for as long as the same pods are on them. Where pods have come or gone, ``look_again``.
    """

    def __init__(self, world: World, *, finally_: bool = False) -> None:
        self._world = world
        self._finally = finally_
        self._contents: dict[str, list[int]] = {}  # of nodes, by selection
        # How many nodes have so much, and with what content
        self._rooms: dict[tuple[str, int, str], tuple[list[int], Counter[int]]] = {}

    def look_again(self) -> None:
        self._contents.clear()

    def of(self, pod: WantedPod, number: int) -> Iterator[str]:
        """The resources of which its nodes have too little for so many copies of the pod."""
        for resource, amount in reversed(pod.requests.items()):
            if resource not in self._world.delegated:
                rooms = self._rooms_of(pod, resource)
                if sum(nodes * (room // amount) for room, nodes in rooms.items() if room >= amount) < number:
                    yield resource

    def _rooms_of(self, pod: WantedPod, resource: str) -> Counter[int]:
        priority = pod.priority if pod.preempts and not self._finally else NONE
        key = pod.selection, priority, resource
        nodes = self._world.suitable(pod)[0]
        if pod.selection not in self._contents:
            self._contents[pod.selection] = [state.content for state in nodes]
        contents = self._contents[pod.selection]
        if key not in self._rooms or self._rooms[key][0] != contents:
            free = [state.free.get(resource, 0) for state in nodes]
            if self._finally or priority != NONE:
                gone = [state.ending if self._finally else state.lower_than(priority) for state in nodes]
                free = [left + pods.requests.get(resource, 0) for left, pods in zip(free, gone, strict=True)]
            self._rooms[key] = contents, Counter(free)
        return self._rooms[key][1]
