# SPDX-License-Identifier: BSD-2-Clause
"""What has to go so that a pod fits: pods of lower priority, or jobs that end first where amounts decide alone. Pure.

Source: pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode), framework/preemption.
"""

from __future__ import annotations

import copy
from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from operator import add, floordiv, sub
from typing import NamedTuple, TypeAlias

from ...cluster.admitted_pod import WantedPod
from ...cluster.label_selectors import selects
from ...cluster.pod_facts import PODS, PlacedPod
from ...kube.resources import Object
from .pod_rules import PodRules
from .world import ENDING, ENDLESS, Loss, NodeState, PodsOnNode, World, loss_of


class Eviction(NamedTuple):
    """The pods to take off a node, and what is lost by it."""

    node: NodeState
    pods: Sequence[PlacedPod]
    loss: Loss


JobName = tuple[str, str]  # namespace, name
_Freed = dict[JobName, list[tuple[int, tuple[int, ...]]]]  # of each job: places of nodes, and what it leaves there
_Turns = list[tuple[int, JobName]]
Ranks = Mapping[JobName, int]  # the places of jobs in the order in which they end
_Needs = tuple[tuple[str, int], ...]  # resources, and how much of each
_Ranks: TypeAlias = "Mapping[int, int] | Sequence[int]"  # where nodes are in some order, by their places
_Ranked: TypeAlias = "tuple[Loss, int, Eviction | None]"  # what is lost, or at least, and the place of the node


class _Candidates:
    """The nodes of a selection with pods below a priority. ``known``, by needs: which of these go by amounts alone,
    what loses the least first; without an eviction, where that has not been looked at."""

    def __init__(self, world: World, pod: WantedPod) -> None:
        self.view = world.view(pod, pod.priority)
        self._world = world
        self._now = world.view(pod)
        self._priority = pod.priority
        self._seen = 0
        self._losses: dict[int, Loss] = {}  # at least
        self._namespaces: dict[int, frozenset[str]] = {}
        self._known: dict[_Needs, tuple[int, list[_Ranked]]] = {}  # with what had been renewed then
        for place in range(len(self.view.states)):
            self._note(place)

    def ranks(self, nodes: Sequence[NodeState]) -> tuple[_Ranks, bool]:
        """Where some nodes are in their order, by their places; and whether that is the order of the list."""
        states, at, known = self.view.states, self.view.at, self._world.order
        if nodes is states:
            return range(len(states)), True
        if known is None or known[0] is not nodes:
            order = [at[state.name] for state in nodes]
            ranks = {place: rank for rank, place in enumerate(order)}
            known = self._world.order = nodes, ranks, order == sorted(order)
        return known[1:]

    def lower(self, place: int) -> PodsOnNode:
        return self.view.states[place].lower_than(self._priority)

    def look(self) -> None:
        """Take notice of the pods that have come and gone."""
        self.view.look()
        for place in {*self.view.renewed[self._seen :]}:
            self._note(place)
        self._seen = len(self.view.renewed)

    def _note(self, place: int) -> None:
        lower = self.lower(place)
        if lower.pods:
            self._losses[place], self._namespaces[place] = lower.least_loss, lower.namespaces
        else:
            self._losses.pop(place, None)

    def _ranked(self, needs: _Needs) -> list[_Ranked]:
        """What is known of the nodes that may have enough, once lower pods have gone."""
        seen, ranked = self._known.get(needs, (-1, []))
        if seen == self._seen:
            return ranked
        renewed = {*self.view.renewed[seen:]} if seen >= 0 else self._losses.keys()
        columns = [(self.view.left(name), amount) for name, amount in needs]
        fresh = [place for place in renewed if place in self._losses and all(c[place] >= a for c, a in columns)]
        ranked = [each for each in ranked if each[1] not in renewed]
        ranked += ((self._losses[place], place, None) for place in fresh)
        ranked.sort()
        self._known[needs] = self._seen, ranked
        return ranked

    def needs(self, pod: WantedPod) -> _Needs:
        """What some node has too little of: unlike pods are alike to nodes that have plenty of the rest."""
        left = ((name, amount, self._now.counts(name)) for name, amount in pod.requests.items())
        return tuple((name, amount) for name, amount, counts in left if amount > min(counts, default=0))

    def by_amounts(self, pod: WantedPod, places: Container[int], budgets: Sequence[Object]) -> Iterator[Eviction]:
        """What would go on which nodes if amounts were all that decides: what loses the least first, then by place."""
        needs = self.needs(pod)
        known, at = self._ranked(needs), 0
        while at < len(known):
            _loss, place, eviction = known[at]
            if place not in places:
                at += 1
            elif eviction is not None:
                yield eviction
                at += 1
            else:
                del known[at]
                eviction = _eviction_by_amounts(needs, self.view.states[place], self.lower(place), budgets)
                if eviction is not None:
                    insort(known, (eviction.loss, place, eviction), lo=at)

    def beyond_amounts(self, pod: WantedPod, rules: PodRules) -> set[int]:
        """The nodes where more than amounts decides."""
        if not self._world.only_amounts(pod):
            return {*range(len(self.view.states))}
        kept = (place for place in self.view.kept if self.view.states[place].nominated)
        return {*kept, *(self._minded(rules) if rules.matter else ())}

    def _minded(self, rules: PodRules) -> Iterator[int]:
        """The nodes where rules are about some of the pods."""
        scope = rules.scope
        for place in self._losses:
            if scope is None or not scope.isdisjoint(self._namespaces[place]):
                pods = self.lower(place).pods
                if any(rules.concerns(one.namespace, one.labels, one.keeps_off) for one in pods):
                    yield place

    def cheapest_first(self, places: Collection[int]) -> list[tuple[Loss, int]]:
        """With what is lost at least."""
        return sorted((self._losses[place], place) for place in places if place in self._losses)


def best_eviction(
    world: World, pod: WantedPod, nodes: Sequence[NodeState], rules: PodRules, budgets: Sequence[Object]
) -> Eviction | None:
    """The eviction that loses the least, on the first of several nodes; None if none helps."""
    if not pod.preempts:
        return None
    key = pod.selection, pod.priority
    candidates = world.candidates.get(key) or world.candidates.setdefault(key, _Candidates(world, pod))
    candidates.look()
    states, at, matter = candidates.view.states, candidates.view.at, rules.matter
    ranks, are_listed = candidates.ranks(nodes)
    tried = candidates.beyond_amounts(pod, rules).intersection(ranks)
    plain = {*ranks} - tried if tried else ranks
    best: list[tuple[int, Eviction]] = []  # with the ranks of nodes, all with the same loss
    least: Loss | None = None
    if plain:
        for eviction in candidates.by_amounts(pod, plain, budgets):
            if least is not None and (are_listed or eviction.loss > least):
                break  # The first of several nodes has been found.
            if not (matter and rules.refuse(eviction.node.node)):
                best.append((ranks[at[eviction.node.name]], eviction))
                least = eviction.loss
    for loss, place in candidates.cheapest_first(tried):
        if least is not None and loss > least:
            break
        found = _eviction(world, pod, states[place], rules, budgets)
        if found is not None and (least is None or found.loss <= least):
            best = [*(best if found.loss == least else ()), (ranks[place], found)]
            least = found.loss
    return min(best)[1] if best else None


def _eviction_by_amounts(
    needs: _Needs, state: NodeState, lower: PodsOnNode, budgets: Sequence[Object]
) -> Eviction | None:
    """The same as ``_eviction`` where no rule is about the pods of lower priority, by arithmetic."""
    free, freed = state.free, lower.requests
    places = state.most - len(state.pods)
    if places > 0 and all(amount <= free.get(name, 0) for name, amount in needs):
        return None  # It takes the pod as it is.
    places += len(lower.pods) - 1
    left = {name: free.get(name, 0) + freed.get(name, 0) - amount for name, amount in needs}
    if places < 0 or any(amount < 0 for amount in left.values()):
        return None
    # Pods that a budget protects are reprieved first, then the others, each the most important first.
    protected = _protected(lower.pods, budgets) if budgets else set()
    important = sorted(lower.pods, key=lambda other: other.uid not in protected) if protected else lower.pods
    victims = []
    for other in important:
        requests = other.requests
        stays = places > 0
        for name, amount in left.items():
            stays = stays and amount >= requests.get(name, 0)
        if stays:
            places -= 1
            for name in left:
                left[name] -= requests.get(name, 0)
        else:
            victims.append(other)
    breaks = sum(other.uid in protected for other in victims) if protected else 0
    return Eviction(state, victims, loss_of(victims, breaks)) if victims else None


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
    return Eviction(state, victims, loss_of(victims, breaks)) if victims else None


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


# -- jobs that end -----------------------------------------------------------------------------------------------------


class Ends:
    """What jobs leave on the nodes of a selection when they end. Looked up again only where pods have come or gone."""

    def __init__(self, world: World, pod: WantedPod, ranks_of: Callable[[Iterable[JobName]], Ranks]) -> None:
        self._view = world.view(pod, ENDING)
        self._ranks_of = ranks_of
        self._seen = 0
        self._jobs: dict[JobName, dict[int, list[PlacedPod]]] = {}  # by the places of nodes
        self._there: dict[int, list[JobName]] = {}
        self._freed: dict[tuple[str, ...], _Freed] = {}  # by resources
        self._order: list[JobName] = []
        self._turns: dict[tuple[str, ...], Sequence[_Turns]] = {}  # by the keys of a topology
        self._note(range(len(self._view.states)))

    def _note(self, places: Iterable[int]) -> None:
        """Look up which pods are on some nodes."""
        changed: dict[JobName, None] = {}
        for place in places:
            pods = self._view.states[place].ending.pods
            for job in self._there.get(place, ()):
                del self._jobs[job][place]
                changed[job] = None
            names = [pod.job for pod in pods]
            for job, pod in zip(names, pods, strict=True):
                self._jobs.setdefault(job, {}).setdefault(place, []).append(pod)
            self._there[place] = list(dict.fromkeys(names))
            changed |= dict.fromkeys(names)
        self._seen = len(self._view.renewed)
        self._turns.clear()
        for resources, freed in self._freed.items():
            freed |= ((job, self._freed_by(job, resources)) for job in changed)
        if not changed.keys() <= {*self._order}:
            self._order = sorted(self._jobs, key=self._ranks_of(self._jobs).__getitem__)

    def _freed_by(self, job: JobName, resources: tuple[str, ...]) -> list[tuple[int, tuple[int, ...]]]:
        return [(place, _sum(pods, resources)) for place, pods in self._jobs[job].items()]

    def of(self, pod: WantedPod, where: Sequence[str | None]) -> tuple[Sequence[_Turns], _Freed]:
        """The jobs, the first to end first: those with pods in each place, if there are several (``where`` has that of
        each node), then all. And what each leaves of the resources of a pod, and of places for pods."""
        self._view.look()
        if self._seen < len(self._view.renewed):
            self._note({*self._view.renewed[self._seen :]})
        resources = tuple(pod.requests)
        if resources not in self._freed:
            self._freed[resources] = {job: self._freed_by(job, resources) for job in self._jobs}
        freed = self._freed[resources]
        nominated = list(self._nominated(pod))
        if not nominated:
            keys = tuple(term["topologyKey"] for term in pod.near)
            if keys not in self._turns:
                self._turns[keys] = _turns_of(where, self._order, freed)
            return self._turns[keys], freed
        freed = dict(freed)
        for place, other in nominated:
            freed[other.job] = [*freed.get(other.job, ()), (place, _sum([other], resources))]
        return _turns_of(where, sorted(freed, key=self._ranks_of(freed).__getitem__), freed), freed

    def _nominated(self, pod: WantedPod) -> Iterator[tuple[int, PlacedPod]]:
        """The pods that room is kept for where this one would have it."""
        for place in self._view.kept:
            for other in self._view.states[place].nominated:
                if other.priority >= pod.priority and other.owner not in ENDLESS:
                    yield place, other


def _sum(pods: Sequence[PlacedPod], resources: Sequence[str]) -> tuple[int, ...]:
    if len(pods) > 1:
        return (*(sum(pod.requests.get(name, 0) for pod in pods) for name in resources), len(pods))
    requests = pods[0].requests
    return (*[requests.get(name, 0) for name in resources], 1)


class _Rooms:
    """How many copies of a pod the nodes have room for, by the place of the topology that binds them together, while
    jobs end and start again."""

    def __init__(self, world: World, pod: WantedPod, number: int) -> None:
        view, place_of = world.view(pod), world.places(pod)
        columns = [view.left(name) for name in pod.requests]
        self._number = number
        self._amounts = (*pod.requests.values(), 1)
        self._free = list(zip(*columns, view.left(PODS), strict=True))
        for place in view.kept:
            self._free[place] = tuple(view.states[place].left_for(pod))
        self.where = [place_of.get(state.name) for state in view.states]
        self._room = [0] * len(self.where)
        self._sums: Counter[str] = Counter()
        self._few = self._enough = 0  # places with too little room for all copies, and those with enough
        for place, room in view.copies(pod).items():
            self._set(place, room)

    def copy(self) -> _Rooms:
        other = copy.copy(self)
        other._free, other._room, other._sums = list(self._free), list(self._room), self._sums.copy()
        return other

    def change(self, how: Callable[[int, int], int], freed: Iterable[tuple[int, tuple[int, ...]]]) -> None:
        """``add`` what a job frees that ends, or ``sub`` what one takes that starts again."""
        scarce = max(0, len(self._amounts) - 2)  # devices, before places for pods
        for node, amounts in freed:
            left = self._free[node] = tuple(map(how, self._free[node], amounts))
            if left[scarce] < self._amounts[scarce] and not self._room[node]:
                continue
            room = max(0, min(map(floordiv, left, self._amounts)))
            if room != self._room[node]:
                self._set(node, room)

    def _set(self, node: int, room: int) -> None:
        where = self.where[node]
        if where is None:
            return
        before = self._sums[where]
        after = self._sums[where] = before + room - self._room[node]
        self._room[node] = room
        number = self._number
        self._few += (0 < after < number) - (0 < before < number)
        self._enough += (after > 0 and after >= number) - (before > 0 and before >= number)

    def has_room(self, freed: Iterable[tuple[int, tuple[int, ...]]]) -> bool:
        """Whether one of the nodes takes a copy. Else it makes no difference that what was there starts again."""
        return any(self._room[node] for node, _amounts in freed)

    def fit(self) -> bool:
        """Whether all copies find room, wherever the first goes."""
        return self._enough > 0 and not self._few


def jobs_to_end(world: World, pod: WantedPod, number: int, ends: Ends) -> list[JobName]:
    """The first jobs to end that make room, without those that do not matter: in whichever place that is first."""
    rooms = _Rooms(world, pod, number)
    turns, freed = ends.of(pod, rooms.where)
    found: list[tuple[int, int, list[JobName]]] = []  # when the last of them ends, how many they are
    for names in turns:
        left = rooms.copy()
        ended: list[JobName] = []
        last = 0
        for rank, name in names:
            if left.fit() or (found and rank > found[0][0]):
                break
            left.change(add, freed[name])
            ended.append(name)
            last = rank
        if left.fit():
            ended = _without_others(left, freed, ended)
            found = [min([*found, (last, len(ended), ended)], key=lambda each: each[:2])]
    return found[0][2]


def _turns_of(where: Sequence[str | None], order: Sequence[JobName], freed: _Freed) -> list[_Turns]:
    """The jobs with pods in each place, where there are several, and all; with the number of those that end before."""
    found: dict[str | None, _Turns] = {}
    if len({*where} - {None}) > 1:
        for rank, job in enumerate(order):
            for place in dict.fromkeys([where[node] for node, _amounts in freed[job]]):
                found.setdefault(place, []).append((rank, job))
        found.pop(None, None)
    return [*found.values(), list(enumerate(order))]


def _without_others(rooms: _Rooms, freed: _Freed, ended: Sequence[JobName]) -> list[JobName]:
    """Those of the jobs that have ended that matter; the others start again."""
    needed = []
    for name in ended[:-1]:
        if rooms.has_room(freed[name]):
            rooms.change(sub, freed[name])
            if not rooms.fit():
                rooms.change(add, freed[name])
                needed.append(name)
    return [*needed, ended[-1]]
