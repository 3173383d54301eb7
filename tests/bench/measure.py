# SPDX-License-Identifier: BSD-2-Clause
"""Run contenders in turns and write down what each run took.

Contenders take turns, so that a busy machine troubles all of them alike, and ratios are taken round by round.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.cluster import Served

LAUNCHER = Path(__file__).parents[1] / "launcher.py"


@dataclass(frozen=True)
class Run:
    """One run. ``busy`` is its processor time; the server's and ``requests`` are known of a simulated cluster only."""

    seconds: float
    busy: float
    mib: float
    requests: int | None
    server_busy: float | None


@dataclass
class Contender:
    """A command. What is measured happens ``times`` times in it, of ``out_of`` where the rest is extrapolated.

    ``says`` reads the seconds from what the command prints, where it knows better than its start and end. ``after`` is
    a command that makes the next round possible; it is not measured.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    times: float = 1
    out_of: float | None = None
    after: Sequence[str] | None = None
    says: Callable[[str], float] | None = None
    runs: list[Run] = field(default_factory=list)

    @property
    def factor(self) -> float:
        """From the measured to the reported value: for one run, or extrapolated from the part that was measured."""
        return (self.out_of or 1) / self.times


@dataclass
class Step:
    """What several contenders do, each in its way. Ratios are to the ``reference``."""

    name: str
    contenders: list[Contender]
    reference: str | None = None


@dataclass
class Group:
    """Steps that follow each other, with so many of the things that the title is about.

    ``base`` is the empty playbook: its median is taken off the times of the contenders that are playbooks.
    """

    key: str
    title: str
    size: int
    steps: list[Step]
    base: Contender | None = None

    @property
    def base_seconds(self) -> float:
        return statistics.median(run.seconds for run in self.base.runs) if self.base else 0.0

    def seconds(self, contender: Contender) -> list[float]:
        """Of each round, without the empty playbook."""
        base = self.base_seconds if contender.command[0].endswith("ansible-playbook") else 0.0
        return [(run.seconds - base) * contender.factor for run in contender.runs]

    def ratios(self, step: Step, contender: Contender) -> list[float] | None:
        """Of each round, to the reference of the step."""
        reference = next((one for one in step.contenders if one.name == step.reference), None)
        if reference is None or reference is contender:
            return None
        return [ours / theirs for ours, theirs in zip(self.seconds(contender), self.seconds(reference), strict=True)]


def measure(group: Group, cluster: Served, rounds: int, *, warm_up: bool) -> Group:
    """Run all steps of the group so many times; with ``warm_up`` once more before, for caches of all kinds."""
    for number in range(-1 if warm_up else 0, rounds):
        if group.base:
            _take(group.base, cluster, number)
        for step in group.steps:
            for contender in step.contenders:
                _take(contender, cluster, number)
    return group


def _take(contender: Contender, cluster: Served, number: int) -> None:
    run = _run(contender, cluster)
    if number >= 0:
        contender.runs.append(run)
    if contender.after:
        _run(Contender("after", contender.after, contender.environment), cluster)


def _run(contender: Contender, cluster: Served) -> Run:
    cluster.forget_requests()
    before = cluster.processor_seconds()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as took:
        process = subprocess.run(
            [sys.executable, "-S", str(LAUNCHER), str(took.fileno()), *contender.command],
            env={**cluster.environment, **contender.environment},
            pass_fds=[took.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        output.seek(0)
        said = output.read()
        took.seek(0)
        used = json.loads(took.read() or "{}")
    if process.returncode:
        sys.exit(f"{' '.join(contender.command)} has failed:\n{said[-4000:]}")
    after = cluster.processor_seconds()
    return Run(
        seconds=contender.says(said) if contender.says else used["seconds"],
        busy=used["busy"],
        mib=used["mib"],
        requests=cluster.requests(),
        server_busy=None if before is None or after is None else after - before,
    )
