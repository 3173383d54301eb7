# SPDX-License-Identifier: BSD-2-Clause
"""Which jobs compete for a quota. A quota goes by whose pods are created first, whatever their priority. Pure.

A job that is preempted competes too: its pods give back what they use, and its controller creates new ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from ...cluster.pod_facts import PlacedPod
from ...cluster.quota_fit import Charges, QuotaLack, QuotaState, charges_of_placed
from .fit import Fit, FitJob, JobName


def with_quota_rivals(quotas: Mapping[str, Sequence[QuotaState]], fits: Sequence[Fit]) -> list[Fit]:
    """The answers, with the jobs that may be created first and leave a job fewer pods than it has by itself."""
    by_namespace: dict[str, list[int]] = defaultdict(list)
    for place, fit in enumerate(fits):
        if fit.job.number and not fit.refused and quotas.get(fit.job.namespace):
            by_namespace[fit.job.namespace].append(place)
    found = list(fits)
    for namespace, places in by_namespace.items():
        victims = [pod for fit in fits for pod in fit.victims if pod.namespace == namespace]
        if len(places) + bool(victims) < 2:
            continue
        contest = _Contest.of(quotas[namespace], [fits[place] for place in places], victims)
        for place in places:
            names = contest.rivals(fits[place])
            replaced = tuple(name for name in names if name in contest.replaced)
            rivals = tuple(name for name in names if name not in contest.replaced)
            found[place] = replace(fits[place], rivals=rivals, replaced=replaced)
    return found


@dataclass
class _Contest:
    """The quotas of a namespace without what goes, and with what each job takes of them if it comes first."""

    states: Sequence[QuotaState]
    alone: Mapping[JobName, int]  # the pods of each job if it comes first
    taken: Mapping[JobName, Charges]
    replaced: frozenset[JobName]

    @classmethod
    def of(cls, quotas: Sequence[QuotaState], fits: Sequence[Fit], victims: Sequence[PlacedPod]) -> _Contest:
        common = (state for state in quotas if all(state.concerns(fit.job.pod) for fit in fits))
        states = [replace(state, used=dict(state.used)) for state in common]
        leaving = (*victims, *(pod for fit in fits for pod in (*fit.job.replaces, *fit.job.keeps)))
        gone = {pod.uid: pod for pod in leaving if _is_counted(states, pod)}
        victims = [pod for pod in victims if pod.uid in gone]
        for pod in gone.values():
            _charge_each(states, charges_of_placed(pod), -1)
        alone = {fit.job.id: _let_in_first(states, fit) for fit in fits}
        taken = {fit.job.id: _charges_of_job(fit.job, alone[fit.job.id]) for fit in fits}
        replaced = frozenset(pod.job for pod in victims) - alone.keys()
        for name in replaced:
            taken[name] = _sum_of_charges(charges_of_placed(pod) for pod in victims if pod.job == name)
        for charges in taken.values():
            _charge_each(states, charges, 1)
        return cls(states, alone, taken, replaced)

    def rivals(self, fit: Fit) -> list[JobName]:
        """The others that use what the job lacks, if they come first. What it preempts itself comes after it."""
        job, name = fit.job, fit.job.id
        _charge_each(self.states, self.taken[name], -1)
        lacking = {lack.resource for state in self.states for lack in _missing_quota(state, job, self.alone[name])}
        _charge_each(self.states, self.taken[name], 1)
        own = {name, *fit.evicted}
        others = ((other, charges) for other, charges in self.taken.items() if other not in own)
        return [other for other, charges in others if any(charges.get(resource) for resource in lacking)]


def _is_counted(states: Sequence[QuotaState], pod: PlacedPod) -> bool:
    """Whether a pod that goes gives the quotas something back: an opportunistic one may not be counted."""
    return all(state.counts(pod) for state in states)


def _missing_quota(state: QuotaState, job: FitJob, number: int) -> Iterator[QuotaLack]:
    if number and state.counts_objects:
        yield from state.lacks(job.made, 1)
    yield from state.lacks(job.charges, number)


def _let_in_first(states: Sequence[QuotaState], fit: Fit) -> int:
    """How many of its pods the quotas let in, while what it preempts is still there."""
    job, held = (
        fit.job,
        _sum_of_charges(
            charges_of_placed(pod)
            for pod in fit.victims
            if pod.namespace == fit.job.namespace and _is_counted(states, pod)
        ),
    )
    _charge_each(states, held, 1)
    number = _pods_let_in(states, job)
    _charge_each(states, held, -1)
    return number


def _pods_let_in(states: Sequence[QuotaState], job: FitJob) -> int:
    if any(state.counts_objects and not state.most(job.made, 1) for state in states):
        return 0
    return min([job.number, *(state.most(job.charges, job.number) for state in states)])


def _charges_of_job(job: FitJob, number: int) -> Charges:
    return _sum_of_charges(
        [{name: amount * number for name, amount in job.charges.items()}, job.made if number else {}]
    )


def _sum_of_charges(parts: Iterable[Charges]) -> Charges:
    found: Charges = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, Fraction(0)) + amount
    return found


def _charge_each(states: Iterable[QuotaState], charges: Charges, number: int) -> None:
    for state in states:
        state.charge(charges, number)
