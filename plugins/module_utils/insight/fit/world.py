# SPDX-License-Identifier: BSD-2-Clause
"""Nodes with the pods on them, as the scheduler sees them, for what-ifs: pods can be put on nodes and taken off again.

Source: pkg/scheduler/framework/{types.go,plugins}; the plugins are asked in the order of the default configuration,
because the first that refuses a node decides whether preemption may help there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...cluster.admitted_pod import WantedPod
from ...cluster.node_affinity import selects_node
from ...cluster.nodes import PodUse, Taint
from ...cluster.pod_facts import PODS, HostPort, PlacedPod, RoomyNode
from ...cluster.pod_requests import Amounts
from ...cluster.taints import is_tolerated, untolerated_taints
from .pod_rules import PodRules, Refusal
from .pods_on_node import PodsOnNode

CORDONED, TAINTED, NOT_SELECTED = "cordoned", "taint", "node selector or affinity"
PORTS, RESOURCES, TOO_MANY_PODS = "host port in use", "resources", "too many pods"

ENDLESS = ("DaemonSet", "Node")  # their pods come back at once
_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class NodeCheck(Protocol):
    """Further things that a pod needs of a node: volumes, devices."""

    def refuse(self, pod: WantedPod, state: NodeState) -> Refusal | None: ...

    def undecided(self, pod: WantedPod, number: int) -> list[str]: ...

    def add(self, pod: WantedPod, copy: PlacedPod, state: NodeState) -> None: ...

    def remove(self, pod: PlacedPod) -> None: ...

    def put_back(self, pod: PlacedPod) -> None: ...


@dataclass
class NodeState:
    """A node and what pods leave of it."""

    node: RoomyNode
    free: Amounts = field(default_factory=dict)
    pods: dict[str, PlacedPod] = field(default_factory=dict)  # by uid
    ports: Counter[HostPort] = field(default_factory=Counter)
    nominated: list[PlacedPod] = field(default_factory=list)
    content: int = 0  # the same whenever the same pods are there
    _lower: dict[int, PodsOnNode] = field(default_factory=dict)  # by priority, of the pods that are there now
    _ending: PodsOnNode | None = None
    _emptied: tuple[Amounts, int] | None = None
    name: str = field(init=False)
    most: int = field(init=False)  # pods

    def __post_init__(self) -> None:
        self.name = self.node.name
        self.most = self.node.room.get(PODS, 0)

    def add(self, pod: PlacedPod) -> None:
        self.pods[pod.uid] = pod
        self._take(pod, 1)

    def remove(self, pod: PlacedPod) -> None:
        del self.pods[pod.uid]
        self._take(pod, -1)

    def lower_than(self, priority: int) -> PodsOnNode:
        """The pods that one of this priority may preempt."""
        if priority not in self._lower:
            lower = [other for other in self.pods.values() if other.priority < priority]
            lower.sort(key=lambda other: (-other.priority, other.started_at))
            self._lower[priority] = PodsOnNode(lower)
        return self._lower[priority]

    @property
    def ending(self) -> PodsOnNode:
        """The pods that do not come back at once when they end."""
        if self._ending is None:
            pods = [pod for pod in self.pods.values() if pod.owner not in ENDLESS]
            self._ending = PodsOnNode(pods)
        return self._ending

    @property
    def emptied(self) -> tuple[Amounts, int]:
        """What it has, and its places for pods, once all pods have ended that may."""
        if self._emptied is None:
            ended = self.ending
            free = {name: amount + ended.requests.get(name, 0) for name, amount in self.free.items()}
            self._emptied = free, self.most - len(self.pods) + len(ended.pods)
        return self._emptied

    def left_for(self, pod: WantedPod, *, empty: bool = False) -> list[int]:
        """What it has of the resources of a pod, and places for pods at last; if ``empty``, once all pods have ended
        that may. Room is kept for pods that are nominated and as important."""
        free, places = self.emptied if empty else (self.free, self.most - len(self.pods))
        left = [*(free.get(resource, 0) for resource in pod.requests), places]
        for other in self.nominated:
            # addGENominatedPods: nominated pods of equal or higher priority are treated as if they ran there.
            if other.priority >= pod.priority and not (empty and other.owner not in ENDLESS):
                taken = (*(other.requests.get(name, 0) for name in pod.requests), 1)
                left = [amount - used for amount, used in zip(left, taken, strict=True)]
        return left

    def copies(self, pod: WantedPod, *, empty: bool = False) -> int:
        """How many copies of the pod it has room for, by amounts alone."""
        if self.nominated:
            *left, room = self.left_for(pod, empty=empty)
            free = dict(zip(pod.requests, left, strict=True))
        else:
            free, room = self.emptied if empty else (self.free, self.most - len(self.pods))
        for resource, amount in pod.requests.items():
            left_of_it = free.get(resource, 0)
            if left_of_it < room * amount:
                room = left_of_it // amount
        return max(0, room)

    def _take(self, pod: PlacedPod, sign: int) -> None:
        free = self.free
        self._lower.clear()
        self._ending = self._emptied = None
        self.content ^= hash(pod.use.uid)
        for resource, amount in pod.requests.items():
            free[resource] = free.get(resource, 0) - sign * amount
        for port in pod.ports:
            self.ports[port] += sign
            if not self.ports[port]:
                del self.ports[port]


class World:
    """``namespaces`` are the labels of namespaces, None where they were not read."""

    def __init__(
        self,
        nodes: Iterable[RoomyNode],
        pods: Iterable[PlacedPod],
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
        checks: Sequence[NodeCheck] = (),
        devices_of: Mapping[str, str] | None = None,
    ) -> None:
        self.nodes = {node.name: NodeState(node, dict(node.room)) for node in nodes}
        self.namespaces = namespaces
        self.checks = checks
        self.delegated = devices_of or {}  # resource -> DeviceClass, for nodes that have none of the resource
        self._where: dict[str, str] = {}  # uid -> node
        self._here: dict[str, dict[str, PlacedPod]] = defaultdict(dict)  # by namespace and uid
        self._picky: dict[str, PlacedPod] = {}
        self._rules: list[PodRules] = []
        self._suitable: dict[str, tuple[list[NodeState], Counter[str]]] = {}
        self._places: dict[tuple[str, ...], dict[str, str]] = {}  # by the keys of a topology, and node
        self._made = 0
        self.evictions: dict[int, tuple[WantedPod, dict[str, tuple[int, bool, Any]]]] = {}  # see victims.py
        for pod in pods:
            if pod.node in self.nodes:
                self._put_on_node(pod, self.nodes[pod.node])
            elif pod.node is None and pod.nominated in self.nodes:
                self.nodes[pod.nominated].nominated.append(pod)

    def pods(self) -> Iterator[PlacedPod]:
        for state in self.nodes.values():
            yield from state.pods.values()

    def keeping_off(self) -> Iterator[PlacedPod]:
        """The pods that keep others off, also where only room is kept for them."""
        yield from self._picky.values()
        for state in self.nodes.values():
            yield from (pod for pod in state.nominated if pod.keeps_off)

    @property
    def has_rules(self) -> bool:
        """Whether a pod on a node keeps others off."""
        return bool(self._picky)

    # -- changes -------------------------------------------------------------------------------------------------------

    def _put_on_node(self, pod: PlacedPod, state: NodeState) -> None:
        state.add(pod)
        self._where[pod.uid] = state.name
        self._here[pod.namespace][pod.uid] = pod
        if pod.keeps_off:
            self._picky[pod.uid] = pod
        for rules in self._rules:
            rules.count(state.node, pod.namespace, pod.labels, pod.keeps_off, is_ending=pod.is_ending)

    def place(self, pod: WantedPod, state: NodeState) -> PlacedPod:
        """Put a copy of the pod on a node."""
        self._made += 1
        use = PodUse(pod.namespace, pod.job, None, None, state.name, {}, f"?{self._made}")
        copy = PlacedPod(
            use,
            pod.job,
            pod.labels,
            state.name,
            None,
            pod.priority,
            pod.requests,
            {},
            pod.ports,
            tuple(pod.away),
            pod.claims,
            None,
            "9999",
            "9999",
            None,
            False,
        )
        self._put_on_node(copy, state)
        for check in self.checks:
            check.add(pod, copy, state)
        return copy

    def remove(self, pod: PlacedPod) -> None:
        state = self.nodes[self._where.pop(pod.uid)]
        state.remove(pod)
        del self._here[pod.namespace][pod.uid]
        self._picky.pop(pod.uid, None)
        for check in self.checks:
            check.remove(pod)
        for rules in self._rules:
            rules.count(state.node, pod.namespace, pod.labels, pod.keeps_off, -1, is_ending=pod.is_ending)

    def put_back(self, pod: PlacedPod) -> None:
        self._put_on_node(pod, self.nodes[str(pod.node)])
        for check in self.checks:
            check.put_back(pod)

    @contextmanager
    def without(self, pods: Iterable[PlacedPod]) -> Iterator[None]:
        """The world as it would be without some pods."""
        pods = list(pods)
        gone = [pod for pod in pods if pod.uid in self._where]
        ended = {pod.uid: pod.nominated for pod in pods if pod.node is None and pod.nominated in self.nodes}
        before = {str(name): self.nodes[str(name)].nominated for name in ended.values()}
        for pod in gone:
            self.remove(pod)
        for name, nominated in before.items():
            self.nodes[name].nominated = [pod for pod in nominated if pod.uid not in ended]
        try:
            yield
        finally:
            for name, nominated in before.items():
                self.nodes[name].nominated = nominated
            for pod in gone:
                self.put_back(pod)

    # -- what a pod finds ----------------------------------------------------------------------------------------------

    @contextmanager
    def rules_of(self, pod: WantedPod) -> Iterator[PodRules]:
        """The rules between the pod and those on nodes, kept up while pods come and go."""
        rules = PodRules(pod, self.namespaces)
        for other in self._picky.values():
            rules.count_kept_off(self._roomy_node_of(other), other.namespace, other.keeps_off)
        if pod.minds_its_own:
            rules.count_nodes(state.node for state in self.nodes.values())
            for others in self._pods_meant(pod):
                for other in rules.minded(others.values()):
                    node = self._roomy_node_of(other)
                    rules.count(node, other.namespace, other.labels, (), is_ending=other.is_ending)
        self._rules.append(rules)
        try:
            yield rules
        finally:
            self._rules.remove(rules)

    def _roomy_node_of(self, pod: PlacedPod) -> RoomyNode:
        return self.nodes[self._where[pod.uid]].node

    def _pods_meant(self, pod: WantedPod) -> list[dict[str, PlacedPod]]:
        """The pods of the namespaces that its terms may mean."""
        terms = (*pod.near, *pod.away)
        if any(term.get("namespaceSelector") is not None for term in terms):
            return list(self._here.values())
        names = {pod.namespace, *(name for term in terms for name in term.get("namespaces") or ())}
        return [self._here[name] for name in sorted(names) if name in self._here]

    def suitable(self, pod: WantedPod) -> tuple[list[NodeState], Counter[str]]:
        """The nodes that the pod may ever run on, as they are; and why not on how many of the others."""
        key = pod.selection
        if key not in self._suitable:
            found, refused = [], Counter[str]()
            for state in self.nodes.values():
                if reason := unsuitable(pod, state.node):
                    refused[reason] += 1
                else:
                    found.append(state)
            self._suitable[key] = found, refused
        return self._suitable[key]

    def places(self, pod: WantedPod) -> dict[str, str]:
        """The place of each node in the topology that binds the copies of a pod together, "" for all if nothing does;
        without the nodes that lack a label of it."""
        keys = tuple(dict.fromkeys(term["topologyKey"] for term in pod.near))
        if keys not in self._places:
            labels = ((name, state.node.labels) for name, state in self.nodes.items())
            self._places[keys] = {
                name: ", ".join(values[key] for key in keys) for name, values in labels if values.keys() >= {*keys}
            }
        return self._places[keys]

    def rooms(self, pod: WantedPod, nodes: Iterable[NodeState], *, empty: bool = False) -> dict[str, int]:
        """How many copies of the pod there is room for, by amounts alone, in each place that takes one."""
        found: dict[str, int] = {}
        place_of = self.places(pod)
        for state in nodes:
            place = place_of.get(state.name)
            if place is not None and (copies := state.copies(pod, empty=empty)):
                found[place] = found.get(place, 0) + copies
        return found

    def only_amounts(self, pod: WantedPod) -> bool:
        """Whether, apart from rules between pods, only amounts of resources and the number of pods decide."""
        claims = pod.claims or pod.spec.get("resourceClaims") or any(name in pod.requests for name in self.delegated)
        return not (claims or pod.ports)

    def may_take(self, pod: WantedPod, nodes: Iterable[NodeState]) -> bool:
        """False if none of the nodes has enough left of some resource, which is quicker to see than why."""
        amounts = [(name, amount) for name, amount in pod.requests.items() if name not in self.delegated]
        frees = [state.free for state in nodes]
        return all(any(free.get(name, 0) >= amount for free in frees) for name, amount in reversed(amounts))

    def takes(self, pod: WantedPod, state: NodeState, rules: PodRules) -> bool:
        """Whether a suitable node takes the pod now. Most have too little of something, which is quicker to see."""
        free = state.free
        for name, amount in pod.requests.items():
            if amount > free.get(name, 0) and name not in self.delegated:
                return False
        return self.refuse(pod, state, rules) is None

    def refuse(self, pod: WantedPod, state: NodeState, rules: PodRules) -> Refusal | None:
        """Why a suitable node does not take the pod now."""
        refusal = self.lacks(pod, state)
        if refusal is not None:
            return refusal
        early = (check.refuse(pod, state) for check in self.checks)
        return next(filter(None, early), None) or (rules.refuse(state.node) if rules.matter else None)

    def lacks(self, pod: WantedPod, state: NodeState) -> Refusal | None:
        """What of amounts and ports a node does not have; room is kept for pods that are nominated for it."""
        waiting = [one for one in state.nominated if one.priority >= pod.priority] if state.nominated else ()
        if pod.ports:
            used = [*state.ports, *(port for one in waiting for port in one.ports)]
            if any(_clash(port, other) for port in pod.ports for other in used):
                return Refusal(PORTS)
        if len(state.pods) + len(waiting) + 1 > state.node.room.get(PODS, 0):
            return Refusal(TOO_MANY_PODS)
        free, lacking = state.free, []
        for resource, amount in pod.requests.items():
            kept = sum(one.requests.get(resource, 0) for one in waiting) if waiting else 0
            if amount > free.get(resource, 0) - kept:
                if resource in self.delegated and not state.node.room.get(resource):
                    continue
                lacking.append(resource)
        if not lacking:
            return None
        room = state.node.room
        # InsufficientResource.Unresolvable: a request above what the node can allocate fails on the empty node too.
        lasts = any(pod.requests[resource] > room.get(resource, 0) for resource in lacking)
        return Refusal(RESOURCES, lasts=lasts, resources=tuple(lacking))


def unsuitable(pod: WantedPod, node: RoomyNode) -> str | None:
    """What of the node itself keeps the pod off it."""
    tolerations = pod.spec.get("tolerations") or ()
    # NodeUnschedulable.Filter: a cordoned node takes pods that tolerate its taint, even before the taint is set.
    if node.is_cordoned and not any(is_tolerated(_UNSCHEDULABLE, one) for one in tolerations):
        return CORDONED
    if any(untolerated_taints(node.node.taints, tolerations)):
        return TAINTED
    return None if selects_node(pod.spec, node.name, node.labels) else NOT_SELECTED


def _clash(one: HostPort, other: HostPort) -> bool:
    """``HostPortInfo.CheckConflict``."""
    # A pod that binds 0.0.0.0 conflicts with every address of the host (DefaultBindAllHostIP).
    return one[1:] == other[1:] and (one[0] == other[0] or "0.0.0.0" in (one[0], other[0]))
