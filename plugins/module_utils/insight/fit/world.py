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
from functools import cached_property
from operator import floordiv
from typing import Any, Protocol

from ...cluster.admitted_pod import WantedPod
from ...cluster.node_affinity import selects_node
from ...cluster.nodes import PodUse, Taint
from ...cluster.pod_facts import PODS, HostPort, PlacedPod, RoomyNode
from ...cluster.pod_requests import Amounts
from ...cluster.taints import is_tolerated, untolerated_taints
from .pod_rules import PodRules, Refusal

CORDONED, TAINTED, NOT_SELECTED = "cordoned", "taint", "node selector or affinity"
PORTS, RESOURCES, TOO_MANY_PODS = "host port in use", "resources", "too many pods"

ENDLESS = ("DaemonSet", "Node")  # their pods come back at once
ENDING = "ending"
_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


Loss = tuple[int, int, int, int, str]


class NodeCheck(Protocol):
    """Further things that a pod needs of a node: volumes, devices."""

    def refuse(self, pod: WantedPod, state: NodeState) -> Refusal | None: ...

    def undecided(self, pod: WantedPod, number: int) -> list[str]: ...

    def add(self, pod: WantedPod, copy: PlacedPod, state: NodeState) -> None: ...

    def remove(self, pod: PlacedPod) -> None: ...

    def put_back(self, pod: PlacedPod) -> None: ...


@dataclass(eq=False)
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
    def namespaces(self) -> frozenset[str]:
        """Their own, and of those that keep others off "*"."""
        return frozenset(
            name for pod in self.pods for name in ((pod.namespace, "*") if pod.keeps_off else (pod.namespace,))
        )

    @cached_property
    def least_loss(self) -> Loss:
        """No eviction of some of them loses less: that of the least important one, whatever room it makes."""
        return loss_of(self.pods[-1:])


NO_PODS = PodsOnNode(())


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


@dataclass(eq=False)
class NodeState:
    """A node and what pods leave of it."""

    node: RoomyNode
    free: Amounts = field(default_factory=dict)
    pods: dict[str, PlacedPod] = field(default_factory=dict)  # by uid
    ports: Counter[HostPort] = field(default_factory=Counter)
    nominated: list[PlacedPod] = field(default_factory=list)
    may_keep: bool = False  # whether pods are nominated, or were, before some jobs ended
    content: int = 0  # the same whenever the same pods are there
    _lower: dict[int, PodsOnNode] = field(default_factory=dict)  # by priority, of the pods that are there now
    _ending: PodsOnNode | None = None
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
            # Of pods alike in both, as the API server lists them: whatever has been tried before must not matter.
            lower.sort(key=lambda other: (-other.priority, other.started_at, other.namespace, other.name))
            self._lower[priority] = PodsOnNode(lower)
        return self._lower[priority]

    @property
    def ending(self) -> PodsOnNode:
        """The pods that do not come back at once when they end."""
        if self._ending is None:
            pods = [pod for pod in self.pods.values() if pod.owner not in ENDLESS]
            self._ending = PodsOnNode(pods)
        return self._ending

    def gone(self, which: int | str) -> PodsOnNode:
        """Its pods below a priority, all that may end (ENDING), or none ("")."""
        if which == ENDING:
            return self.ending
        return self.lower_than(which) if isinstance(which, int) else NO_PODS

    def left_for(self, pod: WantedPod, *, empty: bool = False) -> list[int]:
        """What it has of the resources of a pod, and places for pods at last; if ``empty``, once all pods have ended
        that may. Room is kept for pods that are nominated and as important."""
        ended = self.ending if empty else NO_PODS
        left = [self.free.get(resource, 0) + ended.requests.get(resource, 0) for resource in pod.requests]
        left.append(self.most - len(self.pods) + len(ended.pods))
        for other in self.nominated:
            # addGENominatedPods: nominated pods of equal or higher priority are treated as if they ran there.
            if other.priority >= pod.priority and not (empty and other.owner not in ENDLESS):
                taken = (*(other.requests.get(name, 0) for name in pod.requests), 1)
                left = [amount - used for amount, used in zip(left, taken, strict=True)]
        return left

    def _take(self, pod: PlacedPod, sign: int) -> None:
        free = self.free
        self._lower.clear()
        self._ending = None
        self.content ^= hash(pod.use.uid)
        for resource, amount in pod.requests.items():
            free[resource] = free.get(resource, 0) - sign * amount
        for port in pod.ports:
            self.ports[port] += sign
            if not self.ports[port]:
                del self.ports[port]


class Columns:
    """What nodes have left, by their places in a list, once some of their pods have ``gone``.

    ``touched`` are the names of nodes, each as often as pods came or went. What is known of a node is looked up again
    only then, and only if other pods are there than before; ``renewed`` are the places of these."""

    def __init__(self, states: Sequence[NodeState], touched: Sequence[str], gone: int | str) -> None:
        self.states = states
        self.renewed: list[int] = []
        self.at = {state.name: place for place, state in enumerate(states)}
        self._touched = touched
        self._seen = len(touched)
        self._gone = gone
        self._contents = [state.content for state in states]
        self._columns: dict[str, list[int]] = {}
        self._counts: dict[str, Counter[int]] = {}
        self._most: dict[tuple[str, int], int] = {}  # copies, by a resource and how much each requests
        self.kept = [place for place, state in enumerate(states) if state.may_keep]

    def look(self) -> None:
        """Take notice of the pods that have come and gone."""
        if self._seen == len(self._touched):
            return
        for name in {*self._touched[self._seen :]}:
            place = self.at.get(name)
            if place is not None and self._contents[place] != self.states[place].content:
                self._renew(place)
        self._seen = len(self._touched)

    def _renew(self, place: int) -> None:
        state = self.states[place]
        self._contents[place] = state.content
        gone = state.gone(self._gone)
        for resource, column in self._columns.items():
            before, column[place] = column[place], _left(state, resource, gone)
            if resource in self._counts and before != column[place]:
                counts = self._counts[resource]
                counts[column[place]] += 1
                counts[before] -= 1
                if not counts[before]:
                    del counts[before]
        self._most.clear()
        self.renewed.append(place)

    def left(self, resource: str) -> list[int]:
        """What each node has left of a resource; of PODS, the places for pods."""
        self.look()
        if resource not in self._columns:
            self._columns[resource] = [_left(state, resource, state.gone(self._gone)) for state in self.states]
        return self._columns[resource]

    def counts(self, resource: str) -> Counter[int]:
        """How many nodes have so much left."""
        self.look()
        if resource not in self._counts:
            self._counts[resource] = Counter(self.left(resource))
        return self._counts[resource]

    def most(self, resource: str, amount: int) -> int:
        """How many copies of a pod there is room for by one resource alone."""
        counts = self.counts(resource)
        if (resource, amount) not in self._most:
            room = sum(count * (left // amount) for left, count in counts.items() if left >= amount)
            self._most[resource, amount] = room
        return self._most[resource, amount]

    def copies(self, pod: WantedPod) -> dict[int, int]:
        """How many copies of the pod there is room for by amounts alone, by the places of the nodes that take one."""
        columns = [(self.left(PODS), 1), *((self.left(name), amount) for name, amount in pod.requests.items())]
        column, amount = columns.pop()  # Devices, which are scarce, come last.
        found = {place: left // amount for place, left in enumerate(column) if left >= amount}
        for column, amount in columns:
            found = {
                place: min(room, column[place] // amount) for place, room in found.items() if column[place] >= amount
            }
        if self.kept:  # In the order of the nodes, too.
            asked = (*pod.requests.values(), 1)
            for place in self.kept:
                left = self.states[place].left_for(pod, empty=self._gone == ENDING)
                found[place] = max(0, min(map(floordiv, left, asked)))
            found = dict(sorted(found.items()))
        return found


def _left(state: NodeState, resource: str, gone: PodsOnNode) -> int:
    if resource == PODS:
        return state.most - len(state.pods) + len(gone.pods)
    return state.free.get(resource, 0) + gone.requests.get(resource, 0)


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
        # By namespace, by the labels that copies share, and by uid
        self._here: dict[str, dict[int, dict[str, PlacedPod]]] = defaultdict(lambda: defaultdict(dict))
        self._picky: dict[str, PlacedPod] = {}
        self._rules: list[PodRules] = []
        self._suitable: dict[str, tuple[list[NodeState], Counter[str]]] = {}
        self._places: dict[tuple[str, ...], dict[str, str]] = {}  # by the keys of a topology, and node
        self._views: dict[tuple[str, int | str], Columns] = {}
        self._touched: list[str] = []  # names of nodes
        self._made = 0
        self.candidates: dict[tuple[str, int], Any] = {}  # see victims.py
        self.order: tuple[Sequence[NodeState], Mapping[int, int], bool] | None = None  # as above
        for pod in pods:
            if pod.node in self.nodes:
                self._put_on_node(pod, self.nodes[pod.node])
            elif pod.node is None and pod.nominated in self.nodes:
                self.nodes[pod.nominated].nominated.append(pod)
                self.nodes[pod.nominated].may_keep = True

    def pods(self) -> Iterator[PlacedPod]:
        for state in self.nodes.values():
            yield from state.pods.values()

    def has(self, pod: PlacedPod) -> bool:
        return pod.uid in self._where

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
        self._touched.append(state.name)
        self._where[pod.uid] = state.name
        self._here[pod.namespace][id(pod.labels)][pod.uid] = pod
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
        self._touched.append(state.name)
        here = self._here[pod.namespace]
        del here[id(pod.labels)][pod.uid]
        if not here[id(pod.labels)]:
            del here[id(pod.labels)]
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
        known = next((rules for rules in self._rules if rules.pod.spec is pod.spec), None)
        if known is not None:
            yield known
            return
        rules = PodRules(pod, self.namespaces)
        for other in self._picky.values():
            rules.count_kept_off(self._roomy_node_of(other), other.namespace, other.keeps_off)
        if pod.minds_its_own:
            rules.count_nodes(state.node for state in self.nodes.values())
            for others in self._pods_meant(pod):
                for other in rules.minded(map(dict.values, others.values())):
                    node = self._roomy_node_of(other)
                    rules.count(node, other.namespace, other.labels, (), is_ending=other.is_ending)
        self._rules.append(rules)
        try:
            yield rules
        finally:
            self._rules.remove(rules)

    def _roomy_node_of(self, pod: PlacedPod) -> RoomyNode:
        return self.nodes[self._where[pod.uid]].node

    def _pods_meant(self, pod: WantedPod) -> list[dict[int, dict[str, PlacedPod]]]:
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

    def view(self, pod: WantedPod, gone: int | str = "") -> Columns:
        """The nodes that the pod may ever run on, without some of their pods: see ``NodeState.gone``."""
        key = pod.selection, gone
        if key not in self._views:
            self._views[key] = Columns(self.suitable(pod)[0], self._touched, gone)
        return self._views[key]

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

    def rooms(self, pod: WantedPod, nodes: Iterable[NodeState], gone: int | str = "") -> dict[str, int]:
        """How many copies of the pod there is room for, by amounts alone, in each place that takes one."""
        view = self.view(pod, gone)
        copies = view.copies(pod)
        if not pod.near:
            return {"": room} if (room := sum(copies.values())) else {}
        found: dict[str, int] = {}
        place_of, listed = self.places(pod), view.states
        for at in copies if nodes is listed else (view.at[state.name] for state in nodes):
            where = place_of.get(listed[at].name)
            if where is not None and (room := copies.get(at, 0)):
                found[where] = found.get(where, 0) + room
        return found

    def only_amounts(self, pod: WantedPod) -> bool:
        """Whether, apart from rules between pods, only amounts of resources and the number of pods decide."""
        claims = pod.claims or pod.spec.get("resourceClaims") or any(name in pod.requests for name in self.delegated)
        return not (claims or pod.ports)

    def may_take(self, pod: WantedPod, number: int = 1, gone: int | str = "") -> bool:
        """False if its nodes have too little of a resource for so many copies of the pod, which is quicker to see than
        why. ``gone`` as in ``view``."""
        view = self.view(pod, gone)
        for name, amount in reversed(pod.requests.items()):
            if name not in self.delegated and view.most(name, amount) < number:
                return False
        return True

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

    def lacking(self, pod: WantedPod) -> Counter[str] | None:
        """What how many suitable nodes have too little of; None if more than amounts decides, but for rules."""
        view = self.view(pod)
        if view.kept or not self.only_amounts(pod):
            return None
        found = Counter[str]()
        for (places, *left), nodes in Counter(zip(view.left(PODS), *map(view.left, pod.requests), strict=True)).items():
            lacks = [name for (name, amount), has in zip(pod.requests.items(), left, strict=True) if amount > has]
            if lacks or places < 1:
                found[", ".join(lacks) if places > 0 else TOO_MANY_PODS] += nodes
        return found


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
