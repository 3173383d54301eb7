# SPDX-License-Identifier: BSD-2-Clause
"""Whether jobs would run now, and if not, what they wait for: the scheduler's rules, played through. Pure.

Where the answer depends on what the scheduler is free to choose (which of several nodes takes the first pod), each
choice is tried. Only what comes out the same for all of them is reported.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, NamedTuple

from ...cluster.admitted_pod import WantedPod
from ...cluster.pod_facts import PlacedPod
from ...cluster.pod_requests import Amounts
from ...cluster.quota_fit import Charges, QuotaLack, QuotaState, charges_of_placed
from ...kube.resources import Object
from ...labels import POOL
from .pod_rules import PodRules
from .verdicts import AFTER_JOBS, AFTER_NODES, AFTER_PREEMPTION, AFTER_QUOTA, NEVER, NOW, UNKNOWN
from .victims import Ends, best_eviction, jobs_to_end
from .world import CORDONED, ENDING, ENDLESS, TAINTED, NodeState, World, unsuitable

JobName = tuple[str, str]  # namespace, name

STUCK = "stuck"
_HIGHEST = 2**31  # above all priorities

_TRIALS = 8  # ways to place the earlier jobs of a batch
_FEW_TRIALS, _MANY_NODES = 3, 200  # On many nodes there is more room to differ, and less that depends on it.
_ROOMIEST = 2  # the number of the trial that takes the emptiest nodes first
PACKED, _SPREAD = 101, 102  # numbers of trials with a target: an even one puts copies on as many nodes as it can
_STARTS = 64  # places where the first pod may go
_LOOKED_AT = 200  # nodes of which it is said how many would take a pod
_CONDITIONS = "node.kubernetes.io/"
_RESOURCE_FIELDS = {"resources.memory": "memory", "resources.cpu": "cpu"}


@dataclass(frozen=True)
class FitJob:
    """A job that is judged. ``charges`` are what each pod uses of quotas, ``made`` what its objects do. ``replaces``:
    its own pods that go before it starts, or as the new ones come, where it ``rolls``: ``maxSurge`` and
    ``maxUnavailable`` of a rolling update. ``keeps``: those on nodes that stay, unless a job before it preempts them.
    ``undecided``: further things that cannot be judged, such as a queue that admits it. ``refusals``: why the server
    takes none of its objects; those of its pod matter only if it has pods. ``together``: none of its pods is started
    before there is room for all."""

    namespace: str
    name: str
    pod: WantedPod
    number: int
    charges: Charges = field(default_factory=dict)
    made: Charges = field(default_factory=dict)
    replaces: tuple[PlacedPod, ...] = ()
    keeps: tuple[PlacedPod, ...] = ()
    rolls: tuple[int, int] | None = None
    undecided: tuple[str, ...] = ()
    together: bool = False
    refusals: tuple[str, ...] = ()

    @property
    def id(self) -> JobName:
        return self.namespace, self.name

    @cached_property
    def likeness(self) -> str:
        """Jobs that are alike get the same answer, for the same reasons, unless pods mind their labels."""
        pod = self.pod
        containers = ("containers", "initContainers")
        own = (*containers, "hostname", "subdomain")
        spec = {key: value for key, value in pod.spec.items() if key not in own}
        spec["resources"] = [one.get("resources") for key in containers for one in pod.spec.get(key) or ()]
        charges = [{name: str(amount) for name, amount in one.items()} for one in (self.charges, self.made)]
        texts = [*pod.undecided, *self.undecided], [*pod.refusals, *self.refusals]
        amounts = pod.requests, charges, pod.priority, self.number, self.together
        return json.dumps([self.namespace, spec, amounts, pod.ports, texts], sort_keys=True)


class FitChange(NamedTuple):
    """Other values of fields of the manifest, with those before, and what would come of them."""

    fields: tuple[tuple[str, str, str | None], ...]  # field, before, after; None if it is left out
    verdict: str = NOW
    only_moves: bool = False  # It changes nothing but the pool that pods select.

    @property
    def of(self) -> tuple[str, ...]:
        return tuple(field for field, _before, _after in self.fields)


@dataclass(frozen=True)
class Fit:
    """The answer for one job.

    ``nodes`` are those that take its pods, as far as they find some, ``possible`` the number of nodes that would take
    one now. ``victims`` are the pods that are preempted, also where that is not enough for all of its pods, ``after``
    the jobs that have to end first. ``refusals`` say why how many nodes do not take the next pod. ``lacks`` is what
    quotas lack, and ``fits_nowhere`` that with enough of that, no node would take its pods. ``places`` are those of the
    topology where its first pod may go, and for how many there is room from there. ``rivals`` and ``replaced`` are who
    competes with it for a quota: jobs of the task, and jobs that the task preempts; ``room_rivals`` are who does for
    room on nodes.
    """

    job: FitJob
    verdict: str
    nodes: tuple[str, ...] = ()
    possible: int = 0
    victims: tuple[PlacedPod, ...] = ()
    after: tuple[JobName, ...] = ()
    lacks: tuple[QuotaLack, ...] = ()
    fits_nowhere: bool = False
    rivals: tuple[JobName, ...] = ()
    replaced: tuple[JobName, ...] = ()
    room_rivals: tuple[JobName, ...] = ()
    with_quota: str = ""  # the verdict if the quotas let it in
    refused: tuple[str, ...] = ()
    refusals: Mapping[str, int] = field(default_factory=dict)
    away: tuple[str, ...] = ()  # nodes that do not accept pods at the moment, and would help
    undecided: tuple[str, ...] = ()
    otherwise: str = ""  # the verdict without what is not judged
    places: tuple[tuple[str, int], ...] = ()
    depends_on_place: bool = False
    depends_on_batch: bool = False
    is_one_of_several: bool = False
    rollout: Rollout | None = None
    changes: tuple[FitChange, ...] = ()

    @property
    def evicted(self) -> tuple[JobName, ...]:
        """The jobs that are preempted."""
        return tuple(dict.fromkeys(pod.job for pod in self.victims))


IsWanted = Callable[[FitChange], bool]  # whether a change may be of use, asked before a job is built for it
Variants = Callable[[FitJob, IsWanted], Iterable[tuple[FitChange, FitJob]]]


@dataclass
class Cluster:
    """What jobs are judged against. ``ends``: when jobs end, as far as that is known, as seconds from now. ``users``:
    what jobs use of quotas, by namespace. ``leaving``: pods that end, and leave their room and quota to the jobs.
    ``knows_nodes``: without permission to list nodes, the world has none."""

    world: World
    quotas: Mapping[str, Sequence[QuotaState]] = field(default_factory=dict)  # by namespace
    budgets: Sequence[Object] = ()
    ends: Mapping[JobName, float] = field(default_factory=dict)
    users: Mapping[str, Mapping[JobName, Charges]] = field(default_factory=dict)
    endless: frozenset[JobName] = frozenset()  # services and notebooks without a time limit
    knows_nodes: bool = True
    leaving: Sequence[PlacedPod] = ()

    def gone_before(self, jobs: Iterable[FitJob]) -> list[PlacedPod]:
        """The pods that end before these jobs start."""
        return [*self.leaving, *(pod for job in jobs for pod in job.replaces)]


class Rollout(NamedTuple):
    """What a rolling update leaves that does not get through, beside the new pods that run: old pods that do, and old
    and new ones that wait."""

    old: int
    old_waiting: int
    new_waiting: int


class _LetIn(NamedTuple):
    """How many pods of a job are created, and whether its other objects are; what quotas lack, of those that count its
    pods, and why the server refuses it."""

    number: int
    is_made: bool
    states: Sequence[QuotaState]
    lacks: tuple[QuotaLack, ...]
    refused: tuple[str, ...]


class _Outcome(NamedTuple):
    """What comes of a job whose first pod goes to a place, and how many of its pods find nodes then."""

    start: str
    kind: str
    placed: int


@dataclass
class _Attempt:
    """Pods that were put on nodes, and those that were taken off for them; ``undo`` puts everything back."""

    world: World
    placed: list[PlacedPod] = field(default_factory=list)
    evicted: list[PlacedPod] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    log: list[tuple[bool, PlacedPod]] = field(default_factory=list)
    rollout: Rollout | None = None
    is_unplaced: bool = False  # the first of several pods that must be near each other waits for what it preempts

    def kind(self, number: int) -> str:
        if len(self.nodes) < number:
            return STUCK
        if self.is_unplaced:
            return UNKNOWN
        return AFTER_PREEMPTION if self.evicted else NOW

    def outcome(self, start: str, number: int) -> _Outcome:
        return _Outcome(start, self.kind(number), len(self.nodes))

    def undo(self) -> None:
        for was_placed, pod in reversed(self.log):
            if was_placed:
                self.world.remove(pod)
            else:
                self.world.put_back(pod)
        self.log.clear()

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Everything is restored at the end of the block."""
        log = list(self.log)
        self.undo()
        try:
            yield
        finally:
            for was_placed, pod in log:
                if was_placed:
                    self.world.put_back(pod)
                else:
                    self.world.remove(pod)
            self.log = log


def fit_jobs(cluster: Cluster, jobs: Sequence[FitJob], variants: Variants | None = None) -> list[Fit]:
    """The answers, in the order of the jobs. More important ones go first, as in the scheduler's queue."""
    # PrioritySort.Less: by priority, then by time in the queue. sorted() is stable, so the order of the task is kept.
    order = sorted(range(len(jobs)), key=lambda index: -jobs[index].pod.priority)
    ordered = [jobs[index] for index in order]
    matters = len(jobs) > 1 and not _are_alike(jobs)
    number = number_of_trials(cluster.world)
    trial = Trial(cluster, random.Random(0), 0)
    answers = [trial.run(ordered, variants)]
    for seed in range(1, number) if matters else ():
        answers.append(Trial(cluster, random.Random(seed), seed).run(ordered))
    if matters:
        answers += _against_each_other(cluster, ordered, number)
    if matters and any(map(trial.undecided, jobs)):
        # What is not decided of a job, such as when its gates are removed, may leave the others its room.
        answers.append(Trial(cluster, random.Random(0), _ROOMIEST, places_undecided=False).run(ordered))
    fits = []
    for place, fit in enumerate(answers[0].values()):
        found = (one[place] for one in answers if place in one)
        verdicts = {each.otherwise or each.verdict for each in found}
        rough = {STUCK if verdict not in (NOW, AFTER_PREEMPTION, UNKNOWN) else verdict for verdict in verdicts}
        differs = len(rough) > 1 and fit.verdict != UNKNOWN
        fit = replace(fit, is_one_of_several=len(jobs) > 1)
        fits.append(replace(fit, verdict=UNKNOWN, depends_on_batch=True) if differs else fit)
    of_jobs: dict[int, Fit] = dict(zip(order, fits, strict=True))
    return [of_jobs[index] for index in range(len(jobs))]


def number_of_trials(world: World) -> int:
    return _FEW_TRIALS if len(world.nodes) > _MANY_NODES else _TRIALS


def _against_each_other(cluster: Cluster, jobs: Sequence[FitJob], most: int) -> Iterator[dict[int, Fit]]:
    """Answers where the jobs that share nodes with a later one leave that the least room, or the most. To the other
    jobs it makes no difference who that is, so that these are put on as few nodes as they can once."""
    crowds = crowds_of(cluster.world, jobs)
    others: set[int] = set()
    for later in _crowded(cluster.world, jobs)[:most]:
        crowd = {place for place, number in enumerate(crowds) if number == crowds[later]}
        others |= set(range(len(jobs))) - crowd
        for seed, hostile in ((PACKED, True), (_SPREAD, True), (PACKED, False)):
            yield Trial(cluster, random.Random(0), seed, jobs[later].pod, hostile).run(jobs, among=crowd)
    if others:
        yield Trial(cluster, random.Random(0), PACKED).run(jobs, among=others)


def _crowded(world: World, jobs: Sequence[FitJob]) -> list[int]:
    """The jobs that may go to nodes where earlier ones may go too."""
    taken: set[str] = set()
    found = []
    for place, job in enumerate(jobs):
        names = {state.name for state in world.suitable(job.pod)[0]}
        if names & taken:
            found.append(place)
        taken |= names
    return found


def crowds_of(world: World, jobs: Sequence[FitJob]) -> list[int]:
    """The number of the crowd of each job: what jobs of one crowd get is no matter to those of another."""
    nodes = {job.pod.selection: {state.name for state in world.suitable(job.pod)[0]} for job in jobs}
    crowds: list[set[str]] = []  # of nodes
    for names in nodes.values():
        shared = [one for one in crowds if not one.isdisjoint(names)]
        crowds = [*(one for one in crowds if one.isdisjoint(names)), names.union(*shared)]
    if len(crowds) == 1 or not all(_keeps_to_its_nodes(world, job, jobs) for job in jobs):
        return [0] * len(jobs)
    of_selection = {
        selection: next(place for place, one in enumerate(crowds) if names <= one) for selection, names in nodes.items()
    }
    return [of_selection[job.pod.selection] for job in jobs]


def _keeps_to_its_nodes(world: World, job: FitJob, jobs: Iterable[FitJob]) -> bool:
    """Whether the job and the others do not mind each other but for the room on nodes that both may go to."""
    with world.rules_of(job.pod) as rules:
        if job.rolls or job.keeps or rules.beyond_own_kind or not world.only_amounts(job.pod):
            return False
        others = (other.pod for other in jobs if other is not job) if job.pod.near else ()
        return not any(rules.concerns(other.namespace, other.labels, ()) for other in others)


def _are_alike(jobs: Sequence[FitJob]) -> bool:
    """Copies of one pod without rules of its own: it does not matter which of the nodes that fit take some of them."""
    first = jobs[0].pod
    return all(
        job.pod.requests == first.requests
        and job.pod.ports == first.ports
        and job.pod.priority == first.priority
        and not job.pod.minds_its_own
        and all(job.pod.spec.get(key) == first.spec.get(key) for key in ("nodeSelector", "affinity", "tolerations"))
        for job in jobs
    )


class Trial:
    """One way in which the jobs of a batch may be placed, one after the other.

    With a ``target``, the jobs before it go where they leave it the least room, or the most.
    """

    def __init__(
        self,
        cluster: Cluster,
        chance: random.Random,
        seed: int,
        target: WantedPod | None = None,
        hostile: bool = False,
        *,
        places_undecided: bool = True,
    ) -> None:
        self._target = target
        self._places_undecided = places_undecided
        self._hostile = hostile
        self._cluster = cluster
        self._world = cluster.world
        self._targeted = {state.name for state in self._world.suitable(target)[0]} if target else set()
        self._chance = chance
        self._seed = seed
        self._attempts: list[_Attempt] = []
        self._known: dict[tuple[Any, ...], Fit] = {}
        self._waits: dict[tuple[str, int], Fit] = {}
        self._moves = 0
        self._names: list[JobName] = []  # of the batch
        self._ranks: dict[JobName, int] = {}
        self._ends: dict[str, Ends] = {}  # by selection
        self._reaching: dict[str, bool] = {}  # by selection: whether it has nodes of the target
        self._order: tuple[tuple[Any, ...], list[NodeState]] | None = None

    def run(
        self, jobs: Sequence[FitJob], variants: Variants | None = None, among: Collection[int] | None = None
    ) -> dict[int, Fit]:
        """The answers by the places of the jobs; with ``among``, of only these: the others just use quotas."""
        charged: list[tuple[QuotaState, dict[str, Any]]] = [
            (state, dict(state.used)) for states in self._cluster.quotas.values() for state in states
        ]
        self._names = [job.id for job in jobs]
        gone = self._cluster.gone_before(jobs)
        self._discharge(gone)
        try:
            with self._world.without(gone):
                fits = {}
                for place, job in enumerate(jobs):
                    self._discharge(job.keeps)  # They are counted with the job.
                    if among is None or place in among:
                        fits[place] = self._judge(job, variants)
                    else:
                        self._let_in(job)
                for attempt in reversed(self._attempts):
                    attempt.undo()
            return fits
        finally:
            for state, used in charged:
                state.used = used

    def _discharge(self, pods: Iterable[PlacedPod]) -> None:
        for pod in pods:
            for state in self._cluster.quotas.get(pod.namespace, ()):
                if state.counts(pod):
                    state.charge(charges_of_placed(pod), -1)

    # -- one job -------------------------------------------------------------------------------------------------------

    def _judge(self, job: FitJob, variants: Variants | None) -> Fit:
        if not self._is_like_others(job):
            return self._answer(job, variants)
        used = (tuple(sorted(state.used.items())) for state in self._cluster.quotas.get(job.namespace, ()))
        key = job.likeness, self._moves, *used
        if key in self._known:
            return replace(self._known[key], job=job)
        fit = self._known[key] = self._answer(job, variants)
        return fit

    def _is_like_others(self, job: FitJob) -> bool:
        """Whether jobs of its likeness get its answer: no rule between pods looks at labels, and none of it runs."""
        return not (job.rolls or job.keeps or job.pod.minds_its_own or self._world.has_rules)

    def _let_in(self, job: FitJob) -> _LetIn:
        """What the server and the quotas let in, and what these are charged with from now on."""
        states = [one for one in self._cluster.quotas.get(job.namespace, ()) if one.concerns(job.pod)]
        counting = [one for one in self._cluster.quotas.get(job.namespace, ()) if one.counts_objects]
        lacks = [lack for state in counting for lack in state.lacks(job.made, 1)]
        is_made = not lacks
        lacks += (lack for state in states for lack in state.lacks(job.charges, job.number))
        refused = [*job.refusals, *(job.pod.refusals if job.number else ())]
        if job.number:
            unnamed = ((one.name, resource) for one in states for resource in one.unnamed(job.pod))
            refused += [f"quota {name} requires {resource} in each container" for name, resource in unnamed]
        let_in = (
            0 if refused or not is_made else min([job.number, *(one.most(job.charges, job.number) for one in states)])
        )
        self._charge(job, let_in, is_made=is_made)
        return _LetIn(let_in, is_made, states, tuple(lacks), tuple(refused))

    def _answer(self, job: FitJob, variants: Variants | None) -> Fit:
        undecided = self.undecided(job)
        let_in, is_made, states, lacks, refused = self._let_in(job)
        with self._world.rules_of(job.pod):  # For all of these, as it takes long to count pods.
            possible = 0 if self._seed else self._possible(job)
            if job.pod.near:
                outcomes = self._explore(job, let_in)
                chosen = self._place(job, let_in, self._start(outcomes))
            else:
                chosen = self._place(job, let_in)
                outcomes = [chosen.outcome("", let_in)]
        fit = self._verdict(job, chosen, outcomes, possible)
        if not self._cluster.knows_nodes and fit.verdict != NOW:
            fit = replace(fit, verdict=UNKNOWN)
        if refused:
            fit = replace(fit, verdict=NEVER, refused=refused)
        elif lacks:
            if let_in < job.number:
                fit = self._on_nodes(fit, job, chosen)
            ever = any(lack.ever for lack in lacks) or fit.verdict == NEVER
            fit = replace(fit, verdict=NEVER if ever else AFTER_QUOTA, lacks=lacks)
            fit = replace(fit, with_quota=self._with_quota(job, chosen))
            if not ever:
                after = (*self._needed_for_quotas(job, states, lacks), *fit.after)
                fit = replace(fit, after=tuple(dict.fromkeys(after)))
        if undecided and fit.verdict != NEVER:
            otherwise = "" if fit.verdict == UNKNOWN else fit.verdict
            fit = replace(fit, verdict=UNKNOWN, otherwise=otherwise, undecided=tuple(undecided))
        if variants and (fit.depends_on_place or fit.verdict not in (NOW, UNKNOWN)):
            self._charge(job, -let_in, is_made=is_made, sign=-1)
            better = (NOW,) if fit.verdict == AFTER_PREEMPTION else (NOW, AFTER_PREEMPTION)
            with chosen.undone(), self._world.without(job.keeps):
                changes = tuple(self._changes(job, variants, better))
                if not changes and fit.verdict == NEVER and not refused:
                    changes = tuple(self._later_change(job, variants))
            fit = replace(fit, changes=changes)
            self._charge(job, let_in, is_made=is_made)
        if job.together and len(chosen.nodes) < job.number and not chosen.evicted:
            chosen.undo()  # Its pods hold nothing that the following jobs need.
        if undecided and not self._places_undecided:
            chosen.undo()
            self._charge(job, -let_in, is_made=is_made, sign=-1)
        return fit

    def _on_nodes(self, fit: Fit, job: FitJob, chosen: _Attempt) -> Fit:
        """The answer with what nodes say of the pods that quotas keep out: more quota is no help if none takes them."""
        if self._seed or not self._cluster.knows_nodes:
            return fit
        with chosen.undone():
            if self._ever_fits(replace(job, pod=_healthy(job.pod)), everywhere=False):
                return fit
            with self._world.rules_of(job.pod) as rules:
                refusals = dict(self._refusals(job.pod, rules).most_common())
        return replace(fit, verdict=NEVER, fits_nowhere=True, refusals=refusals)

    def _charge(self, job: FitJob, number: int, *, is_made: bool, sign: int = 1) -> None:
        """Charge the quotas with so many pods of the job, and with its objects."""
        for state in self._cluster.quotas.get(job.namespace, ()):
            if state.concerns(job.pod):
                state.charge(job.charges, number)
            if state.counts_objects and is_made:
                state.charge(job.made, sign)

    def _with_quota(self, job: FitJob, chosen: _Attempt) -> str:
        """The verdict if its quotas let all of it in; "" if it does not run then either."""
        if self._seed:
            return ""
        with chosen.undone():
            kinds = {one.kind for one in self._explore(job, job.number)}
        return kinds.pop() if len(kinds) == 1 and kinds <= {NOW, AFTER_PREEMPTION} else ""

    def _needed_for_quotas(
        self, job: FitJob, states: Sequence[QuotaState], lacks: Sequence[QuotaLack]
    ) -> list[JobName]:
        """The first jobs of the namespace to end that leave it enough of its quotas; none where that is unknown."""
        missing: dict[str, Fraction] = {}
        for lack in lacks:
            missing[lack.resource] = max(missing.get(lack.resource, Fraction(0)), lack.missing)
        users = {name: uses for name, uses in self._cluster.users.get(job.namespace, {}).items() if name[1] != job.name}
        needed: list[JobName] = []
        for name in sorted(users, key=self._end_key):
            if any(amount > 0 and users[name].get(resource) for resource, amount in missing.items()):
                needed.append(name)
                missing = {resource: amount - users[name].get(resource, 0) for resource, amount in missing.items()}
        if any(amount > 0 for amount in missing.values()) or any(state.scopes for state in states):
            return []
        for name in needed[:-1]:
            without = {resource: amount + users[name].get(resource, 0) for resource, amount in missing.items()}
            if all(amount <= 0 for amount in without.values()):
                needed, missing = [one for one in needed if one != name], without
        return needed

    def undecided(self, job: FitJob) -> list[str]:
        found = (text for check in self._world.checks for text in check.undecided(job.pod, job.number))
        return list(dict.fromkeys([*job.pod.undecided, *job.undecided, *found]))

    def _start(self, outcomes: Sequence[_Outcome]) -> str:
        """Where the first pod goes for the following jobs: where the job fits, if there is such a place."""
        best = [one for one in outcomes if one.kind == NOW] or list(outcomes)
        return self._chance.choice(best).start if self._seed else best[0].start

    def _explore(self, job: FitJob, number: int) -> list[_Outcome]:
        """What comes of it from each place where the first pod may go. Nothing stays."""
        found = []
        pod = job.pod
        with self._world.rules_of(pod) as rules:
            nodes = self._ordered(self._world.suitable(pod)[0], job)
            by_amounts = self._amounts_decide(job, rules)
            if by_amounts:
                rooms = self._world.rooms(pod, nodes)
                places = list(rooms) or [""]
            else:
                places = list(_places(self._world, pod, nodes, rules)) if pod.near else [""]
            for place in places[:_STARTS]:
                if by_amounts and ((room := rooms.get(place, 0)) >= number or not pod.preempts):
                    found.append(_Outcome(place, NOW if room >= number else STUCK, min(room, number)))
                elif by_amounts and not self._world.view(pod).kept:
                    has_first = not pod.near or place in rooms
                    starts = () if has_first else self._starts(pod, nodes, place)
                    found.append(self._preempting(pod, number, place, starts, rules))
                else:
                    attempt = self._attempt(job, number, nodes, self._starts(pod, nodes, place), rules)
                    attempt.undo()
                    found.append(attempt.outcome(place, number))
        return found

    def _preempting(
        self, pod: WantedPod, number: int, place: str, starts: Sequence[NodeState], rules: PodRules
    ) -> _Outcome:
        """The same where amounts decide and some have to preempt: each copy takes the room of one, whatever goes.
        Only copies that must be near each other mind where the first preempts: on one of ``starts``."""
        where = place
        if starts:
            eviction = best_eviction(self._world, pod, starts, rules, self._cluster.budgets)
            if eviction is None:
                return _Outcome(place, STUCK, 0)
            where = self._world.places(pod)[eviction.node.name]
        room = self._world.rooms(pod, self._world.suitable(pod)[0], pod.priority).get(where, 0)
        kind = UNKNOWN if starts and number > 1 else AFTER_PREEMPTION  # See _fill.
        return _Outcome(place, kind if room >= number else STUCK, min(room, number))

    def _starts(self, pod: WantedPod, nodes: Sequence[NodeState], place: str) -> Sequence[NodeState]:
        """The nodes of a place of its topology; all of them where no place takes it."""
        if not pod.near:
            return nodes
        place_of = self._world.places(pod)
        return [state for state in nodes if place_of.get(state.name) == place] or nodes

    def _place(self, job: FitJob, number: int, start: str = "") -> _Attempt:
        """The attempt that stays, so that the following jobs find it."""
        with self._world.rules_of(job.pod) as rules:
            nodes = self._ordered(self._world.suitable(job.pod)[0], job)
            attempt = self._attempt(job, number, nodes, self._starts(job.pod, nodes, start), rules)
            if len(attempt.nodes) < number and not self._seed:
                attempt.refusals = self._refusals(job.pod, rules)
        if attempt.log:
            self._moves += 1
        self._attempts.append(attempt)
        return attempt

    def _attempt(
        self,
        job: FitJob,
        number: int,
        nodes: Sequence[NodeState],
        starts: Sequence[NodeState],
        rules: PodRules,
    ) -> _Attempt:
        attempt = _Attempt(self._world)
        if job.rolls:
            self._roll_out(attempt, job, number, *job.rolls, nodes, rules)
        else:
            attempt.nodes += [str(pod.node) for pod in job.keeps if self._world.has(pod)][:number]
            self._fill(attempt, job.pod, number, nodes, starts, rules)
        return attempt

    def _ordered(self, nodes: list[NodeState], job: FitJob) -> list[NodeState]:
        """The nodes in the order of this trial: as listed, the fullest first, the emptiest first, and by chance."""
        pod, target = job.pod, self._target
        if target is None and self._seed not in (0, 1, 2, PACKED):
            return self._chance.sample(nodes, len(nodes))
        takes_none = not (job.rolls or pod.preempts or self._world.may_take(pod))
        if takes_none or not (self._seed in (1, 2) if target is None else self._may_harm(target, nodes, pod)):
            return nodes
        key = pod.selection, self._target and pod.requests, self._moves
        if self._order is None or self._order[0] != key:
            self._order = key, self._sorted(nodes, pod)
        return self._order[1]

    def _may_harm(self, target: WantedPod, nodes: Iterable[NodeState], pod: WantedPod) -> bool:
        """Whether it may matter to the target where the pod goes: it has room, and on some of the same nodes."""
        if pod.selection not in self._reaching:
            self._reaching[pod.selection] = any(state.name in self._targeted for state in nodes)
        return self._reaching[pod.selection] and self._world.may_take(target)

    def _sorted(self, nodes: Sequence[NodeState], pod: WantedPod) -> list[NodeState]:
        if self._target is None:
            return sorted(nodes, key=lambda state: len(state.pods), reverse=self._seed == 1)
        lost = self._lost_rooms(self._target, nodes, pod)
        ranks = sorted(range(len(nodes)), key=lost.__getitem__, reverse=self._hostile)
        return [nodes[rank] for rank in ranks]

    def _lost_rooms(self, target: WantedPod, nodes: Iterable[NodeState], pod: WantedPod) -> list[tuple[int, int]]:
        """How many copies of the target fit less on each node once the pod is there; and how many fit at all."""
        if target.minds_its_own or target.ports:  # Who else is there may matter as much as how much is left.
            with self._world.rules_of(target) as rules:
                return [
                    (int(state.name in self._targeted and self._world.refuse(target, state, rules) is None), 0)
                    for state in nodes
                ]
        amounts = [(name, amount, pod.requests.get(name, 0)) for name, amount in reversed(target.requests.items())]
        return [self._lost_room(state.free, amounts) if state.name in self._targeted else (0, 0) for state in nodes]

    def _lost_room(self, free: Amounts, amounts: Iterable[tuple[str, int, int]]) -> tuple[int, int]:
        """``amounts``: the resources, what the target requests of each, and what the pod does."""
        before = after = sys.maxsize
        for name, amount, taken in amounts:
            left = free.get(name, 0)
            if left < amount:
                return 0, 0
            before, after = min(before, left // amount), min(after, (left - taken) // amount)
        return before - max(0, after), -before if self._hostile else before

    def _fill(
        self,
        attempt: _Attempt,
        pod: WantedPod,
        number: int,
        nodes: Sequence[NodeState],
        starts: Sequence[NodeState],
        rules: PodRules,
    ) -> None:
        """Put as many copies on nodes as find room, the first on one of ``starts``; then make room for the others."""
        is_spread = self._seed % 2 == 0
        if len(attempt.nodes) < number and not self._take_any(attempt, pod, starts, rules):
            self._make_room(attempt, pod, starts, rules)
            # Rules between pods do not see those that are only nominated for another node (the scheduler's
            # RunFilterPluginsWithNominatedPods): until the first one is there, the others may be nominated elsewhere.
            attempt.is_unplaced = bool(pod.near) and number > 1
        if not attempt.nodes:
            return
        open_nodes = rules.near_enough(nodes)
        if is_spread and (first := self._world.nodes[attempt.nodes[-1]]) in open_nodes:
            open_nodes.remove(first)
            open_nodes.append(first)
        while len(attempt.nodes) < number:
            taking = []
            for state in open_nodes if self._world.may_take(pod) else ():
                while len(attempt.nodes) < number and self._take(attempt, pod, state, rules):
                    taking.append(state)
                    if is_spread:
                        break
            if taking:
                # A copy that finds no room now finds none later, except by rules among copies.
                open_nodes = open_nodes if pod.minds_its_own else taking
            elif self._make_room(attempt, pod, nodes, rules):
                open_nodes = rules.near_enough(nodes)
            else:
                break

    def _roll_out(
        self,
        attempt: _Attempt,
        job: FitJob,
        number: int,
        surge: int,
        unavailable: int,
        nodes: Sequence[NodeState],
        rules: PodRules,
    ) -> None:
        """Put new pods in the place of the old ones, as the Deployment controller does (pkg/controller/deployment,
        sync.go and rolling.go): it scales the old ones to the new number first. Each look at them brings new pods as
        far as ``surge`` allows, then old ones end, those that wait first, as long as enough pods run. Quotas let
        ``number`` of the new ones in.

        An old pod that ends keeps its room until its containers have stopped. The scheduler does not wait for that:
        until then the new pod goes to other room, or preempts what is less important."""
        least = job.number - unavailable
        present = [pod for pod in job.replaces if self._return(attempt, pod)]
        old, ending = present[: job.number], present[job.number :]
        old_waiting, new, new_waiting, refused = job.number - len(old), 0, 0, 0
        while True:
            wanted = job.number - new - new_waiting - refused
            grown = max(0, min(wanted, wanted + surge - len(old) - old_waiting))
            created = min(grown, number - new - new_waiting)
            new_waiting, refused, placed = new_waiting + created, refused + grown - created, 0
            while placed < new_waiting and (
                self._take_any(attempt, job.pod, nodes, rules) or self._make_room(attempt, job.pod, nodes, rules)
            ):
                placed += 1
            new, new_waiting = new + placed, new_waiting - placed
            preempted = [pod for pod in old if pod in attempt.evicted]  # Their controller creates them again.
            old, old_waiting = [pod for pod in old if pod not in preempted], old_waiting + len(preempted)
            ending = [pod for pod in ending if pod not in attempt.evicted]
            if ending and (placed or new_waiting):  # Until the next pods end or are looked at, these have stopped.
                for pod in ending:
                    self._end(attempt, pod)
                ending = []
                if new_waiting:
                    continue
            spare = len(old) + old_waiting + new - least
            cleaned = max(0, min(spare, old_waiting))
            stopped = max(0, min(len(old), len(old) + new - least)) if spare > 0 else 0
            old_waiting -= cleaned
            old, ending = old[: len(old) - stopped], [*ending, *old[len(old) - stopped :]]
            if not (grown or placed or cleaned or stopped):
                break
        for pod in ending:
            self._end(attempt, pod)
        if new < job.number:
            attempt.rollout = Rollout(len(old), old_waiting, new_waiting)
        own = {pod.uid for pod in job.replaces}
        attempt.evicted = [pod for pod in attempt.evicted if pod.uid not in own]

    def _return(self, attempt: _Attempt, pod: PlacedPod) -> bool:
        """Put back a pod that has not ended yet, unless jobs before this one have taken its room."""
        state = self._world.nodes.get(str(pod.node))
        if state is None or any(amount > state.free.get(name, 0) for name, amount in pod.requests.items()):
            return False
        self._world.put_back(pod)
        attempt.log.append((True, pod))
        return True

    def _end(self, attempt: _Attempt, pod: PlacedPod) -> None:
        self._world.remove(pod)
        attempt.log.append((False, pod))

    def _refusals(self, pod: WantedPod, rules: PodRules) -> Counter[str]:
        """Why how many nodes do not take one more."""
        nodes, found = self._world.suitable(pod)
        found = Counter(found)
        if not rules.matter and (lacking := self._world.lacking(pod)) is not None:
            found.update(lacking)
            return found
        for refusal in filter(None, (self._world.refuse(pod, state, rules) for state in nodes)):
            found[", ".join(refusal.resources) or refusal.reason] += 1
        return found

    def _take_any(self, attempt: _Attempt, pod: WantedPod, nodes: Sequence[NodeState], rules: PodRules) -> bool:
        if not self._world.may_take(pod):
            return False
        return any(self._take(attempt, pod, state, rules) for state in nodes)

    def _take(self, attempt: _Attempt, pod: WantedPod, state: NodeState, rules: PodRules) -> bool:
        if not self._world.takes(pod, state, rules):
            return False
        copy = self._world.place(pod, state)
        attempt.log.append((True, copy))
        attempt.placed.append(copy)
        attempt.nodes.append(state.name)
        return True

    def _make_room(self, attempt: _Attempt, pod: WantedPod, nodes: Sequence[NodeState], rules: PodRules) -> bool:
        eviction = best_eviction(self._world, pod, nodes, rules, self._cluster.budgets)
        if eviction is None:
            return False
        for victim in eviction.pods:
            self._end(attempt, victim)
            attempt.evicted.append(victim)
        return self._take(attempt, pod, eviction.node, rules)

    # -- why not -------------------------------------------------------------------------------------------------------

    def _verdict(self, job: FitJob, chosen: _Attempt, outcomes: Sequence[_Outcome], possible: int) -> Fit:
        kinds = {one.kind for one in outcomes}
        nodes, victims, refusals = tuple(chosen.nodes), tuple(chosen.evicted), dict(chosen.refusals.most_common())
        fit = partial(
            Fit, job, nodes=nodes, possible=possible, victims=victims, refusals=refusals, rollout=chosen.rollout
        )
        only = "" if len(kinds) > 1 else kinds.pop()
        if only in (NOW, AFTER_PREEMPTION):
            return fit(verdict=only)
        if only == UNKNOWN:
            text = "it preempts other jobs, and until these have ended nothing keeps its pods near each other"
            return fit(verdict=UNKNOWN, otherwise=AFTER_PREEMPTION, undecided=(text,))
        fit = partial(fit, places=tuple((one.start, one.placed) for one in outcomes if one.start))
        if not only:
            return fit(verdict=UNKNOWN, depends_on_place=True)
        if self._seed:
            return fit(verdict=STUCK)
        key = job.likeness, self._moves
        if key in self._waits and self._is_like_others(job):  # What is left of quotas does not matter here.
            known = self._waits[key]
            return fit(verdict=known.verdict, away=known.away, after=known.after, undecided=known.undecided)
        with chosen.undone():
            self._waits[key] = self._waiting(fit(verdict=STUCK), job)
        return self._waits[key]

    def _possible(self, job: FitJob) -> int:
        """How many of the first nodes would take a pod now."""
        pod = job.pod
        if not self._world.may_take(pod):
            return 0
        with self._world.rules_of(pod) as rules:
            if not self._world.only_amounts(pod):
                suitable = self._world.suitable(pod)[0][:_LOOKED_AT]
                return sum(self._world.takes(pod, state, rules) for state in suitable)
            view = self._world.view(pod)
            taking = (view.states[place] for place, room in view.copies(pod).items() if room and place < _LOOKED_AT)
            return sum(not (rules.matter and rules.refuse(state.node)) for state in taking)

    def _waiting(self, fit: Fit, job: FitJob) -> Fit:
        """What has to end, or to come back, before the job runs."""
        fitting = self._finally_fits(job)
        if not any(fitting):
            if not self._ever_fits(replace(job, pod=_healthy(job.pod)), everywhere=False):
                return replace(fit, verdict=NEVER)
            away = [one.name for one in self._nodes_out_of_service(job)]
            return replace(fit, verdict=AFTER_NODES, away=tuple(away))
        if not all(fitting):
            text = "even once other jobs have ended, it depends on where the scheduler puts the first pod"
            return replace(fit, verdict=UNKNOWN, undecided=(text,))
        needed = self._needed_for_room(job) if self._by_amounts(job) else self._needed_victims(job)
        return replace(fit, verdict=AFTER_JOBS, after=tuple(needed))

    def _needed_for_room(self, job: FitJob) -> list[JobName]:
        pod = job.pod
        if pod.selection not in self._ends:
            self._ends[pod.selection] = Ends(self._world, pod, self._end_ranks)
        return jobs_to_end(self._world, pod, job.number, self._ends[pod.selection])

    def _by_amounts(self, job: FitJob) -> bool:
        with self._world.rules_of(job.pod) as rules:
            return self._amounts_decide(job, rules)

    def _amounts_decide(self, job: FitJob, rules: PodRules) -> bool:
        """Whether the room on nodes is all that decides."""
        return not (job.rolls or job.keeps) and self._world.only_amounts(job.pod) and not rules.beyond_own_kind

    def _ever_fits(self, job: FitJob, *, everywhere: bool = True) -> bool:
        """Whether it runs once all other jobs have ended, wherever its first pod goes; or else somewhere."""
        found = self._finally_fits(job)
        return all(found) if everywhere else any(found)

    def _finally_fits(self, job: FitJob) -> list[bool]:
        """The same for each place where its first pod may go; [False] where there is none."""
        if self._by_amounts(job):
            rooms = self._world.rooms(job.pod, self._world.suitable(job.pod)[0], ENDING)
            return [room >= job.number for room in rooms.values()] or [False]
        everything = [pod for pods in self._groups(job).values() for pod in pods]
        return self._fitting(job, everything)

    def _needed_victims(self, job: FitJob) -> list[JobName]:
        """The first jobs to end that make room, without those that do not matter."""
        groups = self._groups(job)
        ordered = sorted(groups, key=self._end_ranks(groups).__getitem__)
        low, high = 1, len(ordered)
        while low < high:
            middle = (low + high) // 2
            if all(self._fitting(job, [pod for name in ordered[:middle] for pod in groups[name]])):
                high = middle
            else:
                low = middle + 1
        needed = list(ordered[:high])
        for name in ordered[: high - 1][-20:]:
            fewer = [one for one in needed if one != name]
            if all(self._fitting(job, [pod for one in fewer for pod in groups[one]])):
                needed = fewer
        return needed

    def _groups(self, job: FitJob) -> dict[JobName, list[PlacedPod]]:
        """The pods of others that may end, by job."""
        groups: dict[JobName, list[PlacedPod]] = {}
        suitable, _refused = self._world.suitable(job.pod)
        near = {state.name for state in suitable}
        others = [pod for pod in self._world.keeping_off() if _node_of(pod) not in near]
        for state in suitable:
            for pod in state.ending.pods:
                groups.setdefault(pod.job, []).append(pod)
            others += state.nominated
        for pod in others:
            if pod.owner not in ENDLESS:
                groups.setdefault(pod.job, []).append(pod)
        groups.pop(job.id, None)
        return groups

    def _end_ranks(self, jobs: Iterable[JobName]) -> Mapping[JobName, int]:
        """The places of jobs in the order in which they end: quicker to compare than times and names."""
        if not all(map(self._ranks.__contains__, jobs)):
            known = {*self._ranks, *self._names, *jobs, *(pod.job for pod in self._world.pods())}
            self._ranks = {name: rank for rank, name in enumerate(sorted(known, key=self._end_key))}
        return self._ranks

    def _end_key(self, name: JobName) -> tuple[bool, float, JobName]:
        return name in self._cluster.endless, self._cluster.ends.get(name, float("inf")), name

    def _fitting(self, job: FitJob, gone: Iterable[PlacedPod]) -> list[bool]:
        """Whether it runs without some pods, for each place where its first pod may go."""
        with self._world.without(gone):
            return [one.kind == NOW for one in self._explore(_without_preempting(job), job.number)]

    def _nodes_out_of_service(self, job: FitJob) -> Iterator[NodeState]:
        """The nodes that would be suitable if they were well and not cordoned."""
        healthy = _healthy(job.pod)
        for state in self._world.nodes.values():
            if unsuitable(job.pod, state.node) in (CORDONED, TAINTED) and not unsuitable(healthy, state.node):
                yield state

    def _changes(self, job: FitJob, variants: Variants, better: Sequence[str]) -> Iterator[FitChange]:
        """The first change of each field that makes the job run, in the order in which they are proposed."""
        found: set[tuple[str, ...]] = set()
        preempts = AFTER_PREEMPTION in better

        def is_wanted(change: FitChange) -> bool:
            return change.of not in found and may_help(change)

        def has_room(pod: WantedPod, number: int) -> bool:
            if pod.near and number > 1 and not self._world.may_take(pod):
                return False  # The first would have to preempt, after which it is not known where the others go.
            return self._world.may_take(pod, number, pod.priority if preempts and pod.preempts else "")

        may_help = _may_help(job, has_room)
        for change, changed in self._changed(job, variants, is_wanted):
            if has_room(changed.pod, changed.number):
                tried = changed if preempts else _without_preempting(changed)
                kinds = {one.kind for one in self._explore(tried, tried.number)}
                if len(kinds) == 1 and kinds <= set(better):
                    found.add(change.of)
                    yield change._replace(verdict=kinds.pop())

    def _later_change(self, job: FitJob, variants: Variants) -> Iterator[FitChange]:
        """The first change that makes the job run once others have ended; perhaps before, if that is not certain."""

        def has_room(pod: WantedPod, number: int) -> bool:
            return self._world.may_take(pod, number, ENDING)

        for change, other in self._changed(job, variants, _may_help(job, has_room)):
            if has_room(other.pod, other.number) and self._ever_fits(other):
                waits = {one.kind for one in self._explore(other, other.number)} == {STUCK}
                yield change._replace(verdict=AFTER_JOBS if waits else UNKNOWN)
                return

    def _changed(self, job: FitJob, variants: Variants, is_wanted: IsWanted) -> Iterator[tuple[FitChange, FitJob]]:
        """The changed jobs that the quotas and limits let in, of those that can be judged."""
        for change, other in variants(job, is_wanted):
            if other.pod.refusals or other.refusals or self.undecided(other):
                continue
            quotas = self._cluster.quotas.get(job.namespace, ())
            pods = all(
                one.most(other.charges, other.number) >= other.number for one in quotas if one.concerns(other.pod)
            )
            if pods and all(one.most(other.made, 1) for one in quotas if one.counts_objects):
                yield change, other


def _may_help(job: FitJob, has_room: Callable[[WantedPod, int], bool]) -> IsWanted:
    """Whether a change may help, by what it asks for at least. Lower amounts of a resource ask for the same."""
    known: dict[tuple[Any, ...], bool] = {}

    def may_help(change: FitChange) -> bool:
        of = change.of
        key = of if _RESOURCE_FIELDS.keys() >= {*of} else change.fields
        if key not in known:
            least = _at_least(job, change)
            known[key] = least is None or has_room(*least)
        return known[key]

    return may_help


def _at_least(job: FitJob, change: FitChange) -> tuple[WantedPod, int] | None:
    """What the job with the change asks for at least, and how often; None where only building it tells."""
    pod, of = job.pod, change.of
    if change.only_moves:
        selector = {**pod.spec["nodeSelector"], POOL: change.fields[0][2]}
        return replace(pod, spec={**pod.spec, "nodeSelector": selector}), job.number
    if _RESOURCE_FIELDS.keys() >= {*of}:
        lowered = {_RESOURCE_FIELDS[field] for field in of}
        kept = {name: amount for name, amount in pod.requests.items() if name not in lowered}
        return _like(pod, requests=kept), job.number
    if of == ("distributed.placement.required",):
        affinity = {**(pod.spec.get("affinity") or {}), "podAffinity": None}
        return replace(pod, spec={**pod.spec, "affinity": affinity}), job.number
    if of == ("job.priority",):  # It may preempt what a lower class never does.
        return _like(pod, priority=_HIGHEST, preempts=True), job.number
    return _with_fewer(job, change)


def _with_fewer(job: FitJob, change: FitChange) -> tuple[WantedPod, int] | None:
    """The same with other numbers of GPUs and of nodes; None for other changes."""
    pod, number = job.pod, job.number
    for name, before, after in change.fields:
        if name == "resources.node_count":
            number = int(str(after))
        elif name == "resources.gpu":
            share = Fraction(int(str(after)), int(before))
            requests = {key: int(amount * share) if "/" in key else amount for key, amount in pod.requests.items()}
            pod = _like(pod, requests={key: amount for key, amount in requests.items() if amount})
        else:
            return None
    return pod, number


def _like(pod: WantedPod, **changes: Any) -> WantedPod:
    """The pod with other values of fields that do not decide which nodes are suitable."""
    other = object.__new__(WantedPod)
    vars(other).update(vars(pod), **changes)  # With what is cached, which takes long to find out.
    return other


def _without_preempting(job: FitJob) -> FitJob:
    """The job if it preempted nothing."""
    return replace(job, pod=_like(job.pod, preempts=False))


def _places(world: World, pod: WantedPod, nodes: Sequence[NodeState], rules: PodRules) -> Iterable[str]:
    """The places of the topology that binds the pods together where the first may go; "" if there is none."""
    place_of = world.places(pod)
    return dict.fromkeys(place_of[state.name] for state in nodes if world.takes(pod, state, rules)) or [""]


def _node_of(pod: PlacedPod) -> str:
    """Where it is, or is to come."""
    return str(pod.node or pod.nominated)


def _healthy(pod: WantedPod) -> WantedPod:
    """The pod on nodes without what Kubernetes and cordons keep pods off for."""
    names = ("unschedulable", "not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure")
    keys = (*names, "network-unavailable")
    accepted = [{"key": f"{_CONDITIONS}{name}", "operator": "Exists"} for name in keys]
    return replace(pod, spec={**pod.spec, "tolerations": [*(pod.spec.get("tolerations") or ()), *accepted]})
