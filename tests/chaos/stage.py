# SPDX-License-Identifier: BSD-2-Clause
"""Play one case: prepare a place, run the task while something goes wrong, run it twice more, and judge."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any

from . import places
from .faults import FAULTS, Case, Fault, Group
from .oracle import Observation, Violation, judge
from .places import Place
from .proxy import Lane, Plan, Proxy, Request
from .runner import Outcome, PlaybookRunner, Runner, TaskCall
from .scenarios import BY_NAME, Do, Scenario, in_place, prepare
from .snapshot import Snapshot

WRITERS = 3
_ATTEMPTS = 5
_SHOWN = 200  # requests of a case; one that hangs may send a hundred thousand
# Seconds that a request is held for the others, at most; another run that wants the Lease waits as long.
_HELD, _HELD_WITH_LEASE = 12.0, 2.5
_PATIENT = 30  # seconds; for all runs but the one that is to be impatient with what is broken
_SETTLING = 3.0  # seconds that controllers get to bring a state about
_COLLECTING = 60.0  # … and the garbage collector, which has a queue that a loaded machine makes long
_QUIET = 1.5  # … and to come to rest, where it is not known which state that is
_LOOK_AGAIN = 0.03
_SKEW = 3600.0
_UNREACHABLE = "cannot reach the API server"

State = dict[str, str]


@dataclass
class Reference:
    """A scenario without any fault: its requests as text, the state that it leaves, and what it takes.

    ``problems`` are what did not hold in the first plays; it is ``usable`` if all did in the last one.
    """

    scenario: str
    requests: list[str] = field(default_factory=list)
    watches: list[int] = field(default_factory=list)
    state: State = field(default_factory=dict)
    seconds: float = 1.0
    problems: list[Violation] = field(default_factory=list)
    usable: bool = True


@dataclass
class _RaceReference:
    """The states after writers that run one after the other; ``fails``: the first one may fail if it runs second."""

    expected: list[State]
    rival_alone: list[State]
    healed_to: list[State]
    fails: bool


@dataclass
class Verdict:
    """``reached``: the fault has struck. ``messages`` is what the three runs said.

    ``overloaded``: the run gave up a request that no fault had struck, and the server answered it too late.
    """

    case: str
    reached: bool
    violations: list[Violation]
    messages: list[str]
    seconds: float
    requests: list[str] = field(default_factory=list)
    broken: str = ""
    overloaded: bool = False


class Stage:
    """A worker's processes and ports, used for one case after the other."""

    def __init__(self, kubeconfig: Path | None = None, runners: Sequence[Runner | PlaybookRunner] = ()) -> None:
        self.runners = list(runners) or [Runner() for _ in range(WRITERS)]
        self.proxy = Proxy()
        self.lanes = [self.proxy.lane() for _ in range(WRITERS)]
        self._kubeconfig = kubeconfig
        self._races: dict[tuple[str, int], _RaceReference] = {}

    def close(self) -> None:
        for runner in self.runners:
            runner.close()
        self.proxy.close()

    # -- what happens without faults

    def reference(self, name: str) -> Reference:
        """Play a scenario without a fault, again if it does not hold the promises: a cluster has races of its own."""
        problems: list[Violation] = []
        for _attempt in range(_ATTEMPTS):
            reference = self._reference(name)
            problems += reference.problems
            if not reference.problems:
                return replace(reference, problems=problems)
        return replace(reference, problems=problems, usable=False)

    def _reference(self, name: str) -> Reference:
        scenario = BY_NAME[name]
        with self._place(scenario) as place:
            prepare(scenario, place, lambda do: self._prepare(do, place))
            before = place.snapshot()
            began = time.monotonic()
            first, requests = self._run(scenario.action, place)
            seconds = time.monotonic() - began
            after = _at_rest(place)
            second, _ = self._run(scenario.action, place)
            healed = _settled(place, [after.contents])
            third, third_requests = self._run(scenario.again or scenario.action, place)
            _settled(place, [after.contents])
            final = _without_orphans(place)
        seen = Observation(
            Case(name, "none", 0), scenario, before, after, healed, final,
            first, second, third, requests, third_requests,
            expected=[after.contents], healed_to=[after.contents], unmanaged=_unmanaged(before),
        )  # fmt: skip
        problems = judge(seen)
        missing = sorted(scenario.leaves - after.contents.keys())
        if missing:
            problems.append(
                Violation(
                    "exit", f"it does not leave {', '.join(missing)}; there are {', '.join(sorted(after.contents))}"
                )
            )
        watches = [request.number for request in requests if request.watch]
        return Reference(name, [str(each) for each in requests], watches, after.contents, seconds, problems)

    def _race_reference(self, scenario: Scenario, rivals: int) -> _RaceReference:
        if (scenario.name, rivals) not in self._races:
            a, b = scenario.action, scenario.rivals[0]
            one, two = self._serial(scenario, [a]), self._serial(scenario, [b])
            ab, ba, aba = (self._serial(scenario, order) for order in ([a, b], [b, a], [a, b, a]))
            self._races[scenario.name, rivals] = _RaceReference(
                [ab[0], ba[0]], [two[0], ab[0]], [one[0], ba[0], aba[0]], not (ba[1] and aba[1])
            )
        return self._races[scenario.name, rivals]

    def _serial(self, scenario: Scenario, order: Sequence[Do]) -> tuple[State, bool]:
        """The state after runs one after the other; one without an answer, on a busy machine, is no measure."""
        said = ""
        for _attempt in range(_ATTEMPTS):
            with self._place(scenario) as place:
                prepare(scenario, place, lambda do, place=place: self._prepare(do, place))  # type: ignore[misc]
                outcomes = [self._run(do, place)[0] for do in order]
                state = _at_rest(place).contents
            said = next((each.text for each in outcomes if each.killed or _UNREACHABLE in each.text), "")
            if not said and not any(each.killed for each in outcomes):
                return state, outcomes[-1].ok
        raise AssertionError(f"without a race it fails: {said or 'no end'}")

    # -- what happens with one

    def play(self, case: Case, reference: Reference) -> Verdict:
        """A case; again if promises were broken while the machine was overloaded, which is a second fault."""
        for _attempt in range(_ATTEMPTS - 1):
            verdict = self._play(case, reference)
            if not (verdict.violations and verdict.overloaded):
                return verdict
        return self._play(case, reference)

    def _play(self, case: Case, reference: Reference) -> Verdict:
        scenario, fault = BY_NAME[case.scenario], case.kind
        began = time.monotonic()
        race = self._race_reference(scenario, 1) if fault.group is Group.RACE else None
        expected = race.expected if race else [reference.state]
        healed_to = race.healed_to if race else [reference.state]
        with self._place(scenario) as place:
            prepare(scenario, place, lambda do: self._prepare(do, place))
            before = place.snapshot()
            others = _Others(self, scenario, place, fault)
            plan = Plan(fault, case.k, case.always, others.act)
            first, requests = self._run(scenario.action, place, plan)
            others.join()
            reached = self.lanes[0].fired
            after = _settled(place, expected) if first.ok else _at_rest(place)
            second, _ = self._run(scenario.action, place)
            healed = _settled(place, healed_to) if second.ok else _at_rest(place)
            third, third_requests = self._run(scenario.again or scenario.action, place)
            final = _without_orphans(place)
        seen = Observation(
            case, scenario, before, after, healed, final, first, second, third, requests, third_requests,
            others.outcomes, expected, race.rival_alone if race else (), healed_to, reference.seconds,
            _unmanaged(before),
        )  # fmt: skip
        violations = judge(seen) if reached else []
        if any(each.oracle == "stands" for each in violations) and fault.name == "freeze":
            # What it wrote before the other one took over is as if it had been killed: the other one has read it.
            violations = judge(replace(seen, rival_alone=[*seen.rival_alone, *self._after_kills(case)]))
        if race and race.fails and not second.ok:  # It fails without a race as well.
            violations = [each for each in violations if each.oracle != "heals"]
        messages = [each.text for each in (first, *others.outcomes, second, third)]
        sent = [_described(request) for request in requests[:_SHOWN]]
        overloaded = any(request.unread and not request.fault for request in requests)
        seconds = round(time.monotonic() - began, 2)
        return Verdict(str(case), reached, violations, messages, seconds, sent, overloaded=overloaded)

    def _after_kills(self, case: Case) -> Iterator[State]:
        """The states that the other writer leaves after one that was killed at the request."""
        scenario = BY_NAME[case.scenario]
        for name in ("kill", "kill-after"):
            with self._place(scenario) as place:
                prepare(scenario, place, lambda do, place=place: self._prepare(do, place))  # type: ignore[misc]
                self._run(scenario.action, place, Plan(FAULTS[name], case.k, False, lambda: None))
                self._run(scenario.rivals[0], place)
                yield _at_rest(place).contents

    def _place(self, scenario: Scenario) -> AbstractContextManager[Place]:
        if self._kubeconfig:
            return places.named(self._kubeconfig, cluster_wide=scenario.cluster_wide)
        return places.simulated(slow_pods=scenario.slow_pods)

    def _prepare(self, do: Do, place: Place) -> None:
        outcome, _ = self._run(do, place)
        if not outcome.ok:
            raise AssertionError(f"the setup fails: {outcome.text}")

    def _run(self, do: Do, place: Place, plan: Plan | None = None) -> tuple[Outcome, list[Request]]:
        """One task through the first lane, and its requests."""
        self.proxy.target = place.url
        lane, runner = self.lanes[0], self.runners[0]
        lane.begin(plan)
        patient = plan is None or plan.fault is None or plan.fault.group is Group.RACE
        lane.pid = runner.start(call(do, place, lane, patient=patient))
        runner.go()
        outcome = runner.wait()
        return outcome, lane.requests


class _Others:
    """The other writers of a case: they act while the first one's request is held."""

    def __init__(self, stage: Stage, scenario: Scenario, place: Place, fault: Fault) -> None:
        self._stage, self._scenario, self._place, self._fault = stage, scenario, place, fault
        self._threads: list[Thread] = []
        self._found: dict[int, Outcome] = {}

    @property
    def outcomes(self) -> list[Outcome]:
        return [self._found[number] for number in sorted(self._found)]

    def act(self) -> None:
        """Called by the proxy while it holds the request."""
        first = self._stage.lanes[0].pid
        if self._fault.name == "freeze":
            os.kill(first, signal.SIGSTOP)
        for number in range(1, 3 if self._fault.name == "race3" else 2):
            thread = Thread(target=self._run, args=(number,), daemon=True)
            self._threads.append(thread)
            thread.start()
        waits_for_lease = self._scenario.cluster_wide and self._fault.name != "freeze"
        deadline = time.monotonic() + (_HELD_WITH_LEASE if waits_for_lease else _HELD)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._fault.name == "freeze":
            os.kill(first, signal.SIGCONT)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        lane, runner = self._stage.lanes[number], self._stage.runners[number]
        lane.begin()
        do = self._scenario.rivals[0]
        skew = _SKEW if self._fault.name == "skew" else 0.0
        lane.pid = runner.start(call(do, self._place, lane, skew=skew))
        runner.go()
        self._found[number] = runner.wait()


def call(do: Do, place: Place, lane: Lane, *, patient: bool = True, skew: float = 0.0) -> TaskCall:
    options = in_place(do, place)
    patience = {name: _PATIENT for name in ("request_timeout", "wait_timeout") if patient and name in options}
    return TaskCall(do.module, {**options, "host": lane.url, "api_key": place.token, **patience}, skew)


def _settled(place: Place, expected: Sequence[Mapping[str, str]]) -> Snapshot:
    return _until(place, lambda state: state.contents in expected, _SETTLING)


def _without_orphans(place: Place) -> Snapshot:
    def clean(state: Snapshot) -> bool:
        owned = [obj["metadata"].get("ownerReferences") or () for obj in state.objects.values()]
        return all(not each or any(owner["uid"] in state.live_uids for owner in each) for each in owned)

    return _until(place, clean, _COLLECTING)


def _until(place: Place, holds: Callable[[Snapshot], bool], seconds: float) -> Snapshot:
    deadline = time.monotonic() + seconds
    while True:
        state = place.snapshot()
        if holds(state) or time.monotonic() > deadline:
            return state
        time.sleep(_LOOK_AGAIN)


def _at_rest(place: Place) -> Snapshot:
    """The state when nothing moves any more and nothing is on its way out."""
    deadline = time.monotonic() + _QUIET
    state = place.snapshot()
    while True:
        time.sleep(_LOOK_AGAIN)
        now = place.snapshot()
        moving = now.contents != state.contents or any("terminating" in text for text in now.contents.values())
        if not moving or time.monotonic() > deadline:
            return now
        state = now


def _unmanaged(before: Snapshot) -> frozenset[str]:
    return frozenset(key for key in before.contents if key.endswith("/theirs"))


def _described(request: Request) -> str:
    marks = [f"{request.status}"]
    if request.fault:
        marks.append(f"<- {request.fault}{' (after the server)' if request.reached else ''}")
    return f"{request.number:3} {request} {' '.join(marks)}"


def as_data(verdict: Verdict) -> dict[str, Any]:
    return {**vars(verdict), "violations": [vars(each) for each in verdict.violations]}
