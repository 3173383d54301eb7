# SPDX-License-Identifier: BSD-2-Clause
"""Which jobs of a task compete for room on nodes: there is some for each by itself, and not for all. Pure.

Controllers create the pods of a task in any order, and among pods of one priority the scheduler goes by it. A more
important job has its room in any case: it may preempt what was created before it, unless it never preempts.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from .fit import PACKED, STUCK, Cluster, Fit, FitJob, Trial, crowds_of, number_of_trials
from .verdicts import AFTER_JOBS, AFTER_NODES, AFTER_PREEMPTION, NEVER, NOW, UNKNOWN

_MOST_PLACED = 1_500  # jobs of a crowd in all orders together; of more than that, nothing is said


def with_room_rivals(cluster: Cluster, fits: Sequence[Fit]) -> list[Fit]:
    """The answers, with the jobs that leave another one no room if their pods are created first."""
    found, jobs, world = list(fits), [fit.job for fit in fits], cluster.world
    for crowd in _short_of_room(cluster, fits):
        competing, taking = _competing_and_taking(cluster, jobs, crowd)
        nodes = {place: {state.name for state in world.suitable(jobs[place].pod)[0]} for place in crowd}
        for place in (one for one in competing if fits[one].verdict != UNKNOWN):
            near = [other for other in crowd if other != place and not nodes[other].isdisjoint(nodes[place])]
            equals = [other for other in near if not _priority_decides(jobs[other], jobs[place])]
            # Those that run in any order may be in its way, and so may a part of the pods of one that never runs.
            rivals = [one for one in equals if one in competing] or [one for one in equals if one in taking]
            found[place] = replace(fits[place], room_rivals=tuple(jobs[other].id for other in rivals))
            if not rivals:  # Which of several more important jobs is first decides.
                found[place] = replace(fits[place], verdict=UNKNOWN, depends_on_batch=True)
    return found


def _priority_decides(one: FitJob, other: FitJob) -> bool:
    higher = max(one.pod, other.pod, key=lambda pod: pod.priority)
    return one.pod.priority != other.pod.priority and higher.preempts


def _short_of_room(cluster: Cluster, fits: Sequence[Fit]) -> list[list[int]]:
    """The places of the jobs of each crowd where one waits of which a pod might find room if it came first. A rolling
    update might wait then: it needs more room while it goes on than in the end."""
    world, jobs = cluster.world, [fit.job for fit in fits]

    def might_be_first(fit: Fit) -> bool:
        waits = fit.depends_on_batch or fit.verdict in (AFTER_JOBS, AFTER_NODES, NEVER)
        pod, number = fit.job.pod, fit.job.number if fit.job.together else 1
        return waits and world.may_take(pod, number, pod.priority if pod.preempts else "")

    with world.without(cluster.gone_before(jobs)):
        first = {place for place, fit in enumerate(fits) if fit.job.rolls or might_be_first(fit)}
    crowds: dict[int, list[int]] = defaultdict(list)
    for place, number in enumerate(crowds_of(world, jobs) if first else ()):
        crowds[number].append(place)
    return [crowd for crowd in crowds.values() if len(crowd) > 1 and not first.isdisjoint(crowd)]


def _competing_and_taking(cluster: Cluster, jobs: Sequence[FitJob], crowd: Sequence[int]) -> tuple[set[int], set[int]]:
    """The jobs of a crowd that find room in some orders and not in others, and those of which a pod does in some.
    What has taken room less often goes first in the next order, as far as priorities allow."""
    rest = [place for place in range(len(jobs)) if place not in crowd]  # They use quotas.
    lowest = min(jobs[place].pod.priority for place in crowd)
    won, lost, taken = Counter[int](), Counter[int](), Counter[int]()
    order = sorted(crowd, key=lambda place: -jobs[place].pod.priority)
    tried: list[list[int]] = []
    most = min(number_of_trials(cluster.world), _MOST_PLACED // len(crowd))
    while order not in tried and len(tried) < most:
        tried.append(order)
        trial = Trial(cluster, random.Random(0), PACKED)
        answers = trial.run([jobs[place] for place in (*rest, *order)], among=range(len(rest), len(jobs)))
        for place, fit in zip(order, answers.values(), strict=True):
            won[place] += fit.verdict in (NOW, AFTER_PREEMPTION)
            lost[place] += fit.verdict == STUCK
            taken[place] += bool(fit.nodes)
        ranks = {place: jobs[place].pod.priority for place in crowd}
        ranks |= {place: lowest for place in crowd if taken[place] and not jobs[place].pod.preempts}
        order = order[::-1]
        order.sort(key=lambda place: (-ranks[place], taken[place], -lost[place]))
    return _with_those_alike(jobs, crowd, +won) & _with_those_alike(jobs, crowd, +lost), {*+taken}


def _with_those_alike(jobs: Sequence[FitJob], crowd: Sequence[int], places: Counter[int]) -> set[int]:
    likenesses = {jobs[place].likeness for place in places if not jobs[place].rolls}
    return {place for place in crowd if place in places or jobs[place].likeness in likenesses}
