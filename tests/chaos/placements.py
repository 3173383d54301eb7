# SPDX-License-Identifier: BSD-2-Clause
"""Random submits, moves and deletes of jobs that are placed in one of three clusters, while runs are killed, answers
are lost and clusters stop: no job is in two clusters, none is lost, and what a run says is true.

What is true is read from the clusters themselves, without any of our code.
"""

from __future__ import annotations

import os
import random
import re
import secrets
import signal
import subprocess
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from integration.ansible import BIN, Ansible
from integration.manifests import training
from integration.recorder import Request

from . import places
from .faults import FAULTS, Fault
from .places import Place
from .proxy import Lane, Plan, Proxy

CLUSTERS = ("east", "west", "north")
HOME = "east"
JOBS = {"one": 2, "two": 5, "three": 8}  # GPUs; a cluster has eight
SAID = {"two": {"clusters": ["west", "north"], "order": "cheapest"}}  # placement in the manifest
ORDERS = ("free", "cheapest", "listed")
PATIENCE = 240.0  # seconds that a run may take
MARK = "GPUCTL_TEST_RUN"
_KILLS = (FAULTS["kill"], FAULTS["kill-after"])
_FAULTS = (
    *_KILLS,
    *_KILLS,
    *(FAULTS[name] for name in ("reset", "reset-after", "reset-after", "503", "409", "outage")),
)
_PLACED = r"(?:\bJob |/){}(?:(?:, \S+)*: It)? (goes to|stays in) (\w+)"
_MOVED = re.compile(r"\bIt (?:moves|goes) from (\w+) to (\w+)")
_MOVING = "has been moving from"  # why a submit changes nothing
_GLANCE = 0.5  # seconds
_EVERY = 10  # turns, after which nothing fails for a while


class Marked:
    """A run of a playbook in processes of its own. A signal reaches all of them, also those with their own session."""

    def __init__(self, ansible: Ansible, *command: str, output: int = subprocess.PIPE) -> None:
        self._mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [str(BIN / "ansible-playbook"), *command],
            cwd=ansible.directory,
            env={**ansible.full_environment, MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def send(self, number: int) -> None:
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"{MARK}={self._mark}".encode() in path.read_bytes():
                    os.kill(int(path.parent.name), number)


@dataclass(frozen=True)
class Turn:
    """One command, or several at once; ``k``: which request of all clusters together is struck, or which write."""

    commands: tuple[tuple[str, ...], ...]
    job: str
    fault: Fault | None = None
    k: int = 0
    of_writes: bool = False
    silent: frozenset[str] = frozenset()  # clusters that are stopped
    also: str = ""  # another job that is submitted by the same command

    @property
    def jobs(self) -> tuple[str, ...]:
        return (self.job, self.also) if self.also else (self.job,)

    @property
    def is_delete(self) -> bool:
        return self.commands[0][0] == "delete"

    @property
    def is_move(self) -> bool:
        return self.commands[0][0] == "move"

    @property
    def is_check(self) -> bool:
        return "--check" in self.commands[0]

    def __str__(self) -> str:
        said = " and at once ".join(" ".join(command) for command in self.commands)
        wrong = f", {self.fault.name} at {'write' if self.of_writes else 'request'} {self.k}" if self.fault else ""
        return said + wrong + (f", {' and '.join(sorted(self.silent))} stopped" if self.silent else "")


def turns_of(name: str, number: int) -> Iterator[Turn]:
    """The turns of a history; the same for the same name."""
    chance, silent = random.Random(name), frozenset[str]()
    for count in range(1, number + 1):
        if silent and chance.random() < 0.5:
            silent = frozenset()
        elif not silent and chance.random() < 0.12:
            silent = frozenset({chance.choice(CLUSTERS)})
        job = chance.choice(list(JOBS))
        if count % _EVERY == 0:
            silent = frozenset()
            yield Turn((_submit(chance, job),), job)
            continue
        kind = chance.choices(("submit", "check", "delete", "race", "move"), (6, 1, 3, 2, 3))[0]
        if kind == "race":
            commands = tuple(_submit(chance, job) for _run in range(chance.choice((2, 2, 3))))
            yield Turn(commands, job, silent=silent)
            continue
        make = {"delete": _delete, "move": _move}.get(kind, _submit)
        also = (
            chance.choice([each for each in JOBS if each != job]) if kind == "submit" and chance.random() < 0.3 else ""
        )
        command = _submit(chance, f"{job}.yaml,{also}") if also else make(chance, job)
        if kind == "check":
            command = (*command, "--check")
        fault = chance.choice(_FAULTS) if chance.random() < 0.7 else None
        of_writes = chance.random() < 0.6
        most = (12 if kind == "move" else 6) if of_writes else 40
        yield Turn((command,), job, fault, chance.randint(1, most) if fault else 0, of_writes, silent, also)


def _submit(chance: random.Random, job: str) -> tuple[str, ...]:
    order = chance.choice(ORDERS)
    if job in SAID and chance.random() < 0.4:
        return "submit", "-e", f"gpuctl_src={job}.yaml"
    return ("submit", "-e", f"gpuctl_src={job}.yaml", *_clusters(chance), "-e", f"gpuctl_order={order}")


def _move(chance: random.Random, job: str) -> tuple[str, ...]:
    return ("move", "-e", f"gpuctl_name={job}", *_clusters(chance), "-e", "gpuctl_running=true")


def _delete(_chance: random.Random, job: str) -> tuple[str, ...]:
    return "delete", "-e", f"gpuctl_name={job}"


def _clusters(chance: random.Random) -> tuple[str, str]:
    names = "all" if chance.random() < 0.4 else ",".join(chance.sample(CLUSTERS, chance.randint(1, 3)))
    return "-e", f"gpuctl_clusters={names}"


# -- the clusters ------------------------------------------------------------------------------------------------------


@dataclass
class NthRequest(Plan):
    """Strikes the k-th request to all clusters together, or the k-th write; ``meanwhile`` is called before that."""

    seen: list[str] = field(default_factory=list)
    of_writes: bool = False

    def strikes(self, request: Request) -> bool:  # type: ignore[override]
        if self.fault is None or (self.of_writes and not request.writes):
            return False
        self.seen.append(str(request))
        if len(self.seen) != self.k:
            # The cluster that has gone stays away; a single answer was lost.
            return self.struck is not None and self.fault.name == "outage" and len(self.seen) < self.k + 12
        self.struck = (request.method, request.path)
        self.meanwhile()
        return True


@dataclass
class Truth:
    """What the clusters have: of each job the clusters with a copy and its UID, the cluster that is recorded, and the
    one that it leaves."""

    copies: Mapping[str, Mapping[str, str]]
    records: Mapping[str, str]
    leaving: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Sites:
    """Three clusters, each behind a proxy, and Ansible with an inventory of them."""

    places: Mapping[str, Place]
    lanes: Mapping[str, Lane]
    ansible: Ansible
    doubled: set[str] = field(default_factory=set)  # jobs that were seen in two clusters at once

    @property
    def namespace(self) -> str:
        return self.places[HOME].names["@ns"]

    def truth(self) -> Truth:
        copies: dict[str, dict[str, str]] = {job: {} for job in JOBS}
        records: dict[str, str] = {}
        leaving: dict[str, str] = {}
        for site, place in self.places.items():
            for obj in place.api.list("job", self.namespace):
                metadata = obj["metadata"]
                if metadata["name"] in copies and "deletionTimestamp" not in metadata:
                    copies[metadata["name"]][site] = metadata["uid"]
            for obj in place.api.list("configmap", self.namespace):
                name = obj["metadata"]["name"].removeprefix("gpuctl-placement-")
                if name in JOBS:
                    records[name] = obj["data"]["cluster"] if site == HOME else f"{site} has a record of {obj['data']}"
                    leaving |= {name: obj["data"]["leaving"]} if obj["data"].get("leaving") else {}
        return Truth(copies, records, leaving)

    def run(self, turn: Turn) -> list[tuple[int, str]]:
        """Exit code and screen of each command."""
        seen: list[str] = []
        runs: list[Marked] = []
        started = threading.Event()

        def kill() -> None:
            started.wait(PATIENCE)
            runs[0].send(signal.SIGKILL)

        kills = turn.fault in _KILLS
        fault = FAULTS[{"kill": "reset", "kill-after": "reset-after"}[turn.fault.name]] if kills else turn.fault  # type: ignore[union-attr]
        for site, lane in self.lanes.items():
            if site in turn.silent:
                lane.begin(Plan(FAULTS["down"], 1))
            else:
                meanwhile: Callable[[], object] = kill if kills else lambda: None
                lane.begin(NthRequest(fault, turn.k, meanwhile=meanwhile, seen=seen, of_writes=turn.of_writes))
        runs += [Marked(self.ansible, f"runwhere.gpuctl.{name}", *rest) for name, *rest in turn.commands]
        started.set()
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(ended,), daemon=True)
        watcher.start()
        found = []
        for run in runs:
            try:
                output, _ = run.process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                run.send(signal.SIGKILL)
                output = run.process.communicate()[0] + "\nThe run did not end."
            found.append((run.process.returncode, output))
        ended.set()
        watcher.join()
        return found

    def _watch(self, ended: threading.Event) -> None:
        """See what is in two clusters only for a while."""
        while not ended.wait(_GLANCE):
            self.doubled |= {job for job, copies in self.truth().copies.items() if len(copies) > 1}

    @property
    def writes(self) -> list[str]:
        sent = ((site, request) for site, lane in self.lanes.items() for request in lane.requests)
        asks = "/selfsubjectreviews"  # asking who one is writes nothing
        return [f"{site}: {each}" for site, each in sent if each.writes and not each.path.endswith(asks)]


@contextmanager
def sites(directory: Path, kubeconfigs: Sequence[Path] = ()) -> Iterator[Sites]:
    """Simulated clusters of eight GPUs, or those of three kubeconfigs, whose nodes have as many."""
    mark = secrets.token_hex(4)
    with ExitStack() as stack:
        given = [places.named(path, cluster_wide=False, mark=mark) for path in kubeconfigs]
        entered = [stack.enter_context(place) for place in given or [places.simulated(1) for _site in CLUSTERS]]
        found = dict(zip(CLUSTERS, entered, strict=True))
        lanes = {}
        (directory / "kubeconfigs").mkdir()
        for site, place in found.items():
            proxy = Proxy(place.url)
            stack.callback(proxy.close)
            lanes[site] = proxy.lane()
            (directory / "kubeconfigs" / f"{site}.kubeconfig").write_text(
                yaml.safe_dump(_kubeconfig(site, lanes[site].url, place.token))
            )
        tags = {site: {"price": price, "storage": "one"} for site, price in zip(CLUSTERS, (3.5, 2.0, 1.0), strict=True)}
        plugin = {"plugin": "runwhere.gpuctl.clusters", "kubeconfig": ["kubeconfigs"], "home": HOME, "tags": tags}
        (directory / "clusters.yml").write_text(yaml.safe_dump(plugin))
        for job, gpus in JOBS.items():
            manifest = training(job, resources={"gpu": gpus})
            manifest |= {"placement": SAID[job]} if job in SAID else {}
            (directory / f"{job}.yaml").write_text(yaml.safe_dump(manifest))
        variables = {
            "ANSIBLE_INVENTORY": str(directory / "clusters.yml"),
            "ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain",
            "COLUMNS": "200",
            "GPUCTL_NAMESPACE": found[HOME].names["@ns"],
        }
        yield Sites(found, lanes, Ansible(directory, variables))


def _kubeconfig(name: str, url: str, token: str) -> dict[str, Any]:
    named = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{**named, "cluster": {"server": url}}],
        "users": [{**named, "user": {"token": token}}],
        "contexts": [{**named, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


# -- the judge ---------------------------------------------------------------------------------------------------------


def judge(turn: Turn, before: Truth, after: Truth, results: Sequence[tuple[int, str]]) -> Iterator[str]:
    """What is wrong after a turn."""
    for job, copies in after.copies.items():
        if len(copies) > 1:
            yield f"job {job} is in {' and '.join(copies)}"
        recorded = after.records.get(job)
        for site in copies:
            if site not in (recorded, after.leaving.get(job)):
                yield f"job {job} is in {site}, and its record says {recorded}"
        had = before.copies[job]
        may_go = job == turn.job and (turn.is_delete or turn.is_move)
        if had and not may_go and copies != had:
            yield f"job {job} was {dict(had)}, and is {dict(copies)}"
        if had and not copies and not recorded and job == turn.job and turn.is_move:
            yield f"job {job} is lost on its way"
        if job not in turn.jobs and before.records.get(job) != recorded:
            yield f"the record of job {job} has changed, which nobody asked for"
    for status, screen in results:
        for job in turn.jobs:
            yield from _untrue(turn, job, before, after, status, " ".join(screen.split()))


def _untrue(turn: Turn, job: str, before: Truth, after: Truth, status: int, said: str) -> Iterator[str]:
    here, had, recorded = after.copies[job], before.copies[job], after.records.get(job)
    if "Traceback" in said or "did not end" in said:
        yield "a run ended with a traceback, or did not end"
    calm = turn.fault is None and not turn.silent
    recorded_before = before.records.get(job) or had
    is_moving = any(each in before.leaving for each in turn.jobs)
    is_there = bool(recorded_before) or not turn.is_delete
    if status != 0 and calm and is_there and not turn.is_move and not is_moving:
        yield f"exit code {status}, though nothing failed"
    if calm and not is_there and not (status == 2 and f"job {job} not found in" in said):
        yield f"exit code {status}, and it does not say that there is no such job"
    if _MOVING in said and not is_moving:
        yield "it has been moving, it says, and it was not"
    if turn.is_check:
        if here != had or recorded != before.records.get(job):
            yield "check mode has changed something"
        return
    if status == 0 and turn.is_delete:
        if here or recorded:
            yield f"deleted, says the exit code, and the job is in {list(here)}, recorded in {recorded}"
        if "not found" in said and had:
            yield "not found, it says, and it was there"
    if status == 0 and turn.is_move:
        moved = _MOVED.search(said)
        if turn.job in after.leaving:
            yield f"exit code 0, and the job is still leaving {after.leaving[turn.job]}"
        if moved and list(here) != [moved[2]]:
            yield f"{moved[0]}, it says, and the job is in {list(here)}"
    elif status == 0 and not turn.is_delete:
        placed = re.search(_PLACED.format(job), said)
        if placed is None:
            yield "a run that submitted the job does not say where"
        elif list(here) != [placed[2]]:
            yield f"{placed[0]}, it says, and the job is in {list(here)}"
        elif had and placed[1] == "goes to":
            yield f"{placed[0]}, it says, and the job was there before"
        elif (
            len(turn.commands[0]) == 3
            and job in SAID
            and not recorded_before
            and placed[2] not in SAID[job]["clusters"]
        ):
            yield f"{placed[0]}, it says, and its manifest is for other clusters"
    if "Nothing was submitted" in said and len(turn.commands) == 1 and here != had:
        yield "Nothing was submitted, it says, and the job has changed"


@dataclass
class PlacementVerdict:
    """The number of turns, of those with a fault, with a killed run, with a stopped cluster; and what is wrong."""

    name: str
    turns: int = 0
    struck: int = 0
    killed: int = 0
    silent: int = 0
    wrong: list[str] = field(default_factory=list)
    exits: Counter[int] = field(default_factory=Counter)


def summary(verdict: PlacementVerdict) -> str:
    ended = ", ".join(f"{number} with {status}" for status, number in sorted(verdict.exits.items()))
    return (
        f"{verdict.turns} turns: {verdict.struck} with a fault, of which {verdict.killed} killed the run, and "
        f"{verdict.silent} with a cluster that was stopped. Runs ended: {ended}. Wrong: {len(verdict.wrong)}."
    )


def play(name: str, number: int, directory: Path, kubeconfigs: Sequence[Path] = ()) -> PlacementVerdict:
    """Play a whole history."""
    *_, verdict = playing(name, number, directory, kubeconfigs)
    return verdict


def playing(name: str, number: int, directory: Path, kubeconfigs: Sequence[Path] = ()) -> Iterator[PlacementVerdict]:
    """Play a history and judge each of its turns: the verdict by then, after every tenth and at the end. Then each job
    that was ever claimed is submitted again, without a fault."""
    verdict = PlacementVerdict(name)
    with sites(directory, kubeconfigs) as all_sites:
        before = all_sites.truth()
        for count, turn in enumerate(turns_of(name, number), 1):
            results = all_sites.run(turn)
            after = all_sites.truth()
            struck = any(lane.fired for site, lane in all_sites.lanes.items() if site not in turn.silent)
            verdict.turns += 1
            verdict.silent += bool(turn.silent)
            verdict.struck += struck
            verdict.killed += struck and turn.fault in _KILLS
            verdict.exits.update(status for status, _screen in results)
            wrong = [*judge(turn, before, after, results), *(f"job {job} was in two" for job in all_sites.doubled)]
            all_sites.doubled.clear()
            verdict.wrong += [f"{name}, turn {count} ({turn}): {each}\n{results[-1][1]}" for each in wrong]
            before = after
            if count % _EVERY == 0 or count == number:
                verdict.wrong += [f"{name}, after turn {count}: {each}" for each in _settle(all_sites, before)]
                before = all_sites.truth()
                yield verdict


def _settle(all_sites: Sites, before: Truth) -> Iterator[str]:
    """Each is one job once it is submitted again, and then there is nothing to write."""
    for job in [job for job in JOBS if before.copies[job] or job in before.records]:
        if job in before.leaving:
            turn = Turn((("move", "-e", f"gpuctl_name={job}", "-e", "gpuctl_running=true"),), job)
            results = all_sites.run(turn)
            after = all_sites.truth()
            yield from judge(turn, before, after, results)
            if job in after.leaving:
                yield f"job {job} is still leaving {after.leaving[job]}\n{results[0][1]}"
            before = after
        turn = Turn((("submit", "-e", f"gpuctl_src={job}.yaml", "-e", "gpuctl_clusters=all"),), job)
        for again in (False, True):
            results = all_sites.run(turn)
            after = all_sites.truth()
            yield from judge(turn, before, after, results)
            if len(after.copies[job]) != 1:
                yield f"job {job} is in {list(after.copies[job])}\n{results[0][1]}"
            if again and all_sites.writes:
                yield f"job {job} submitted again: {all_sites.writes}"
            before = after
