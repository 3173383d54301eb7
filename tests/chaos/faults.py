# SPDX-License-Identifier: BSD-2-Clause
"""What can go wrong with a request or with the process that sends it, as data.

A fault strikes request number ``k`` of a run. With the suffix ``-always`` it strikes the repetitions of that request as
well (the same method and path), so that sending it again is no cure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

ALWAYS = "-always"


class Group(str, Enum):
    """What a case counts as in the figures."""

    REQUEST = "faults"
    KILL = "kills"
    RACE = "races"


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    ``status``: answered instead of the server. ``forwarded``: the server has got the request and has acted on it.
    ``transient``: a run survives a single one of them. ``watch``: only watches are struck. ``write``: only writes.
    """

    name: str
    group: Group = Group.REQUEST
    status: int = 0
    forwarded: bool = False
    transient: bool = False
    watch: bool = False
    write: bool = False
    repeats: bool = True


NONE = Fault("none", transient=True)
_REQUEST_FAULTS = (
    Fault("429", status=429, transient=True),
    Fault("500", status=500, transient=True),
    Fault("503", status=503, transient=True),
    Fault("504-after", status=504, forwarded=True, transient=True),  # written, but not in time
    Fault("409", status=409),
    Fault("410", status=410),
    Fault("401", status=401),
    Fault("reset", transient=True),
    Fault("reset-after", forwarded=True, transient=True),
    Fault("truncated", forwarded=True, transient=True),  # half of the bytes that Content-Length announces
    Fault("half-json", forwarded=True),  # half of the JSON, as if that were all
    Fault("html", status=200),  # the page of a load balancer, a captive portal, a login
    Fault("html-after", status=200, forwarded=True),
    Fault("html-404", status=404),
    Fault("redirect", status=302),
    Fault("empty", status=200),
    Fault("other", status=200),  # JSON, of another kind than what was asked for
    Fault("slow", transient=True, repeats=False),
    Fault("silent"),  # takes the request and says nothing
    Fault("silent-after", forwarded=True),
    Fault("down", repeats=False),  # this request and all that follow it: the server has gone
    Fault("outage", repeats=False),  # the server is gone for 20 s
    Fault("watch-end", watch=True),
    Fault("watch-cut", watch=True),  # in the middle of an event
    Fault("watch-silent", watch=True),
    Fault("watch-410", watch=True),
    Fault("watch-html", watch=True),
)
_PROCESS_FAULTS = (
    Fault("kill", Group.KILL, repeats=False),  # SIGKILL before the request reaches the server
    Fault("kill-after", Group.KILL, forwarded=True, repeats=False),
    Fault("race", Group.RACE, repeats=False),  # a second writer runs from start to end while request k is on its way
    Fault("race3", Group.RACE, repeats=False),  # two of them at once
    Fault("freeze", Group.RACE, repeats=False),  # SIGSTOP, a second writer, SIGCONT
    Fault("skew", Group.RACE, repeats=False),  # the second writer's clock is an hour fast
)
FAULTS = {fault.name: fault for fault in (NONE, *_REQUEST_FAULTS, *_PROCESS_FAULTS)}

# Those of random histories (histories.py).
OF_HISTORIES = (
    *(FAULTS[name] for name in ("409", "401", "reset", "reset-after", "kill", "kill-after")),
    Fault("webhook", status=403, write=True),  # refuses what its dry run has not refused
    Fault("interrupt", Group.KILL, repeats=False),  # Ctrl-C: SIGINT
    Fault("interrupt-after", Group.KILL, forwarded=True, repeats=False),
)


@dataclass(frozen=True, order=True)
class Case:
    """``training-recreate/reset-after/7``: everything that it takes to repeat a case."""

    scenario: str
    fault: str
    k: int

    @classmethod
    def parse(cls, text: str) -> Case:
        """Raises ValueError for what is no case."""
        scenario, _, rest = text.partition("/")
        fault, _, k = rest.partition("/")
        case = cls(scenario, fault, int(k))
        if case.kind.name not in FAULTS or k != str(case.k):
            raise ValueError(f"{text}: unknown fault")
        return case

    @property
    def kind(self) -> Fault:
        name = self.fault.removesuffix(ALWAYS)
        if name not in FAULTS:
            raise ValueError(f"{self.fault}: unknown fault. Valid faults: {', '.join(FAULTS)}")
        return FAULTS[name]

    @property
    def always(self) -> bool:
        return self.fault.endswith(ALWAYS)

    @property
    def row(self) -> str:
        return f"{self.scenario}/{self.fault}"

    def __str__(self) -> str:
        return f"{self.scenario}/{self.fault}/{self.k}"
