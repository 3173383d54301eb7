# SPDX-License-Identifier: BSD-2-Clause
"""Break things on purpose and see whether the promises of docs/reliability.md hold: what `make chaos` does.

Each case runs a task while one request fails, the process is killed, or others write at the same time; then it runs the
task twice more, and judges. build/chaos.jsonl has a line for each case. GPUCTL_TEST_KUBECONFIG=/path breaks requests to
that cluster instead of simulated ones.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / ".cache" / "collections")]

import yaml  # noqa: E402
from chaos import histories, placements, recreations  # noqa: E402  (tests and the collection are not installed)
from chaos import report as reporting  # noqa: E402
from chaos.cases import all_cases, sample  # noqa: E402
from chaos.faults import Case, Group  # noqa: E402
from chaos.histories import HistoryVerdict  # noqa: E402
from chaos.scenarios import BY_NAME  # noqa: E402
from chaos.stage import Reference, Stage, Verdict, as_data  # noqa: E402

RESULTS = ROOT / "build" / "chaos.jsonl"
PAGE = ROOT / "docs" / "reliability.md"
SHORT = Path(__file__).with_name("short.yaml")


def main() -> None:
    arguments = _arguments()
    if arguments.placements:
        _play_placements(arguments)
        return
    kubeconfig = Path(given).resolve() if (given := os.environ.get("GPUCTL_TEST_KUBECONFIG")) else None
    if arguments.recreations:
        found = recreations.play(kubeconfig, arguments.recreations)
        sys.exit(str(found) if found.lost else print(found))
    if arguments.histories or arguments.history:
        _play_histories(arguments.history or histories.names(arguments.histories, arguments.seed), arguments)
        return
    cases = [Case.parse(text) for text in (yaml.safe_load(SHORT.read_text()) if arguments.short else arguments.case)]
    names = sorted({case.scenario for case in cases}) or arguments.scenario or list(BY_NAME)
    began = time.monotonic()
    crew = Crew(min(arguments.workers, len(cases) or arguments.workers), kubeconfig)
    try:
        references, untrue = crew.references(names)
        untrue = [each for each in untrue if each.broken or not arguments.short]
        if not cases:
            cases = _chosen(arguments, references)
        untrue += [_not_played(case) for case in cases if case.scenario not in references]
        cases = [case for case in cases if case.scenario in references]
        where = str(kubeconfig) if kubeconfig else "simulated clusters"
        print(f"{len(cases)} cases on {where}, {crew.size} workers", flush=True)
        verdicts = [*untrue, *_played(crew, cases, references, arguments, began)]
    finally:
        crew.close()
    if arguments.write:
        given = " ".join(argument for argument in sys.argv[1:] if argument not in ("--short", "--write"))
        command = "make chaos-short" if arguments.short else f'make chaos ARGS="{given}"' if given else "make chaos"
        reporting.write_page(PAGE, verdicts, "a real API server" if kubeconfig else "simulated clusters", command)
    _finish(arguments, verdicts, time.monotonic() - began)


def _play_histories(names: list[str], arguments: argparse.Namespace) -> None:
    began, crew = time.monotonic(), Crew(min(arguments.workers, len(names)), None)
    verdicts: list[HistoryVerdict] = []
    try:
        for verdict in crew.histories(names):
            verdicts.append(verdict)
            if arguments.history or arguments.verbose:
                print("\n".join([f"{verdict.name}:", *verdict.turns, *verdict.unknown, verdict.broken]), flush=True)
            elif len(verdicts) % 50 == 0:
                print(
                    f"  {len(verdicts)} of {len(names)}, {sum(bool(one.wrong) for one in verdicts)} wrong", flush=True
                )
    finally:
        crew.close()
    print("\n".join(histories.summary(verdicts)), f"{time.monotonic() - began:.0f} s.", sep="\n")
    if histories.has_failed(verdicts):
        sys.exit(1)


def _play_placements(arguments: argparse.Namespace) -> None:
    given = os.environ.get("GPUCTL_TEST_KUBECONFIG", "")
    kubeconfigs = [Path(path).resolve() for path in given.split(os.pathsep) if path]
    if kubeconfigs and len(kubeconfigs) != len(placements.CLUSTERS):
        sys.exit("GPUCTL_TEST_KUBECONFIG: placements need three clusters, a:b:c, or none for simulated ones.")
    with tempfile.TemporaryDirectory() as directory:
        for verdict in placements.playing(str(arguments.seed), arguments.placements, Path(directory), kubeconfigs):
            print(f"  {placements.summary(verdict)}", flush=True)
    print(*verdict.wrong, sep="\n")
    if verdict.wrong:
        sys.exit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--case", action="append", default=[], help="this one, e.g. training-recreate/reset-after/7; repeatable"
    )
    parser.add_argument("--scenario", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--fault", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--recreations", type=int, help="only recreate that many distributed trainings, at least")
    parser.add_argument("--histories", type=int, help="only that many random histories: GPU-hours against what ran")
    parser.add_argument("--history", action="append", default=[], help="only this one, e.g. 1:17; repeatable")
    parser.add_argument("--placements", type=int, help="only so many random submits, moves and deletes of placed jobs")
    parser.add_argument("--short", action="store_true", help="the cases of short.yaml: `make chaos-short`")
    parser.add_argument("--all", action="store_true", help="every scenario, every fault, every request: hours")
    parser.add_argument("--faults", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--races", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=None, help="begin no case after that; cases in random order")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/reliability.md")
    parser.add_argument("--workers", type=int, default=3 * (os.cpu_count() or 2), help="they mostly wait")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file with a line for each case")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def _without_fault(reference: Reference) -> Verdict:
    """Without faults every promise holds as well; where it did not at first, that counts as a case."""
    broken = "" if reference.usable else "without any fault, there is no measure to judge by"
    case = f"{reference.scenario}/none/0"
    return Verdict(case, reference.usable, reference.problems, [], reference.seconds, broken=broken)


def _not_played(case: Case) -> Verdict:
    return Verdict(str(case), False, [], [], 0.0, broken="its scenario cannot be played without a fault")


def _chosen(arguments: argparse.Namespace, references: dict[str, Reference]) -> list[Case]:
    cases: Iterable[Case] = all_cases(references)
    if arguments.fault:
        cases = (case for case in cases if case.fault in arguments.fault)
    if arguments.all:
        return sample(cases, dict.fromkeys(Group), arguments.seed)
    wanted = {Group.REQUEST: arguments.faults, Group.KILL: arguments.kills, Group.RACE: arguments.races}
    chosen = sample(cases, wanted, arguments.seed)
    if arguments.minutes is not None:  # Otherwise the scenarios at the end of the alphabet would never be played.
        random.Random(arguments.seed).shuffle(chosen)
    return chosen


def _played(
    crew: Crew, cases: list[Case], references: dict[str, Reference], arguments: argparse.Namespace, began: float
) -> list[Verdict]:
    verdicts: list[Verdict] = []
    arguments.results.parent.mkdir(exist_ok=True)
    limit = None if arguments.minutes is None else began + 60 * arguments.minutes
    shown = arguments.verbose or bool(arguments.case)
    with open(os.devnull if arguments.case else arguments.results, "w") as results:
        for verdict in crew.play(cases, references, limit):
            verdicts.append(verdict)
            results.write(json.dumps(as_data(verdict)) + "\n")
            results.flush()
            if shown or verdict.broken:
                print(reporting.details(verdict), flush=True)
            elif len(verdicts) % 100 == 0:
                violated = sum(bool(each.violations) for each in verdicts)
                print(f"  {len(verdicts)} of {len(cases)}, {violated} violated", flush=True)
    return verdicts


def _finish(arguments: argparse.Namespace, verdicts: list[Verdict], seconds: float) -> None:
    verdicts.sort(key=lambda verdict: Case.parse(verdict.case))
    where = "" if arguments.case else f" Every case is in {arguments.results}."
    print(f"\n{reporting.table(verdicts)}\n\n{seconds:.0f} s.{where}")
    unplayed = [verdict.case for verdict in verdicts if verdict.broken]
    if unplayed:
        print(f"{len(unplayed)} not played, because what comes before the fault went wrong: {', '.join(unplayed)}")
    for verdict in verdicts:
        for violation in verdict.violations:
            print(f"VIOLATED {verdict.case} {violation.oracle}: {violation.text}")
            print(f'    make chaos ARGS="--case {verdict.case}"')
        if verdict.broken:
            print(f"NOT PLAYED {verdict.case}: {verdict.broken.strip().splitlines()[-1]}")
    if any(verdict.violations or verdict.broken for verdict in verdicts):
        sys.exit(1)


class Crew:
    """Worker processes, each with a stage of its own."""

    def __init__(self, size: int, kubeconfig: Path | None) -> None:
        context = multiprocessing.get_context("fork")  # of a process that has imported everything
        self.size = size
        self._lines: list[Connection] = []
        self._processes = []
        for _number in range(size):
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(there, kubeconfig))
            process.start()
            there.close()
            self._lines.append(here)
            self._processes.append(process)

    def references(self, names: list[str]) -> tuple[dict[str, Reference], list[Verdict]]:
        """The scenarios without a fault, where that is a measure; and what is wrong with these and the others."""
        usable: dict[str, Reference] = {}
        bad: list[Verdict] = []
        for answer in self._share([("reference", name, None) for name in names], None):
            if isinstance(answer, Verdict):
                bad.append(replace(answer, case=f"{answer.case}/none/0"))
                continue
            if answer.usable:
                usable[answer.scenario] = answer
            if answer.problems:
                bad.append(_without_fault(answer))
        return {name: usable[name] for name in names if name in usable}, bad

    def play(self, cases: list[Case], references: dict[str, Reference], limit: float | None) -> Iterator[Verdict]:
        yield from self._share([("case", str(case), references[case.scenario]) for case in cases], limit)

    def histories(self, names: list[str]) -> Iterator[HistoryVerdict]:
        for answer in self._share([("history", name, None) for name in names], None):
            yield HistoryVerdict(answer.case, broken=answer.broken) if isinstance(answer, Verdict) else answer

    def _share(self, orders: list[Any], limit: float | None) -> Iterator[Any]:
        """Runs of neighbours go to one worker, which knows what their races are measured by."""
        waiting = list(reversed(orders))
        idle, busy = list(self._lines), []
        while waiting or busy:
            if limit is not None and time.monotonic() > limit:
                waiting.clear()
            while waiting and idle:
                line = idle.pop()
                line.send(waiting.pop())
                busy.append(line)
            for line in wait(busy):
                assert isinstance(line, Connection)
                yield line.recv()
                busy.remove(line)
                idle.append(line)

    def close(self) -> None:
        for line in self._lines:  # A worker has copies of these ends, so closing them would not end it.
            with suppress(OSError):
                line.send(None)
        for process in self._processes:
            process.join(10)
            if process.is_alive():
                process.kill()


def _work(line: Connection, kubeconfig: Path | None) -> None:
    stage = Stage(kubeconfig)
    try:
        while order := line.recv():
            what, name, reference = order
            try:
                answer: Any = _obey(stage, what, name, reference)
            except (Exception, SystemExit):
                answer = Verdict(name, False, [], [], 0.0, broken=traceback.format_exc())
            line.send(answer)
    except (EOFError, KeyboardInterrupt):
        pass
    finally:
        stage.close()


def _obey(stage: Stage, what: str, name: str, reference: Reference | None) -> Any:
    if what == "history":
        return histories.play(stage, name)
    if what == "reference" or reference is None:
        return stage.reference(name)
    return stage.play(Case.parse(name), reference)


if __name__ == "__main__":
    main()
