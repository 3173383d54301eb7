# SPDX-License-Identifier: BSD-2-Clause
"""Which cases there are, and which of them a run takes. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping

from .faults import ALWAYS, FAULTS, Case, Fault, Group
from .scenarios import BY_NAME, Scenario
from .stage import Reference

# How likely a case is taken, where 1 is not right: those that wait for a timeout take long.
_WEIGHTS = {"silent": 0.1, "silent-after": 0.1, "outage": 0.02}
# Few tasks watch.
_WEIGHTS |= {fault.name: 5.0 for fault in FAULTS.values() if fault.watch}


def all_cases(references: Mapping[str, Reference]) -> Iterator[Case]:
    """Every scenario, every fault and every request."""
    for name, reference in references.items():
        for fault in FAULTS.values():
            for k in _numbers(BY_NAME[name], fault, reference):
                yield Case(name, fault.name, k)
                if fault.repeats:
                    yield Case(name, f"{fault.name}{ALWAYS}", k)


def _numbers(scenario: Scenario, fault: Fault, reference: Reference) -> Iterable[int]:
    if fault.name == "none":
        return ()
    if fault.watch:
        return reference.watches
    if fault.group is Group.RACE and (not scenario.rivals or (fault.name == "skew" and not scenario.cluster_wide)):
        return ()
    return range(1, len(reference.requests) + 1)


def sample(cases: Iterable[Case], wanted: Mapping[Group, int | None], seed: int) -> list[Case]:
    """So many cases of each group, None for all of them.

    Whether a case is taken depends on the seed and on its own id, so that a case more or less elsewhere changes little.
    """
    by_group: dict[Group, list[Case]] = {group: [] for group in Group}
    for case in cases:
        by_group[case.kind.group].append(case)
    taken: list[Case] = []
    for group, found in by_group.items():
        number = wanted.get(group, 0)
        found.sort(key=lambda case: _rank(case, seed), reverse=True)
        taken += found if number is None else found[:number]
    return sorted(taken)


def _rank(case: Case, seed: int) -> float:
    """Weighted sampling without replacement (Efraimidis and Spirakis, 2006)."""
    weight = _WEIGHTS.get(case.kind.name, 1.0)
    return float(random.Random(f"{seed}:{case}").random() ** (1 / weight))
