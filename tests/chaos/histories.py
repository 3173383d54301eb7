# SPDX-License-Identifier: BSD-2-Clause
"""Random histories of jobs, with faults: the GPU-hours of gpuctl_usage_info against those of the pods that ran.

The clock of the simulated cluster, and that of the tasks, jumps by hours from one task to the next, so a pod that the
records lack is missing with hours. What really ran is metered by the cluster's own events, without any of our code.
"""

from __future__ import annotations

import random
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from integration import kubelet
from integration.manifests import compute, notebook, training
from kubesim import Cluster

from . import places
from .faults import OF_HISTORIES, Fault
from .places import Place
from .proxy import Plan
from .runner import Outcome
from .scenarios import WAIT, Do, deepspeed, job, served
from .stage import Stage, call

GPU = "nvidia.com/gpu"
NODES = 8
_HOUR = 3600
_DAYS = 20  # that a history may take
_SETTLED = 0.12  # seconds without an event
_PATIENCE = 8.0  # … and for how long that is waited for
# Seconds by which a pod may have ended earlier or later than it is recorded: a task records its end before it comes.
_INEXACT = 20.0
_DISCLAIMER = re.compile(r"the history .*(is not up to date|does not have the GPU-hours)")


@dataclass(frozen=True)
class Turn:
    """A task, so many hours after the one before it, and what goes wrong with its request number ``k``."""

    title: str
    act: Do | Callable[[Place], object]
    hours: int
    fault: Fault | None = None
    k: int = 0
    always: bool = False

    def __str__(self) -> str:
        wrong = f", {self.fault.name}{'-always' if self.always else ''} at request {self.k}" if self.fault else ""
        return f"after {self.hours} h: {self.title}{wrong}"


@dataclass
class HistoryVerdict:
    """``wrong``: figures that differ from what ran. ``unknown``: those of which a task has said so."""

    name: str
    tasks: int = 0
    struck: int = 0
    killed: int = 0
    hours: float = 0.0
    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    broken: str = ""


# -- what happens


def turns_of(name: str) -> list[Turn]:
    """The turns of a history, by its name: ``1:17`` is number 17 of seed 1."""
    chance = random.Random(name)
    versions: dict[str, int] = defaultdict(int)
    turns: list[Turn] = []
    for _number in range(chance.randint(5, 9)):
        title, act = _action(chance, versions)
        turn = Turn(title, act, chance.randint(1, 9))
        if isinstance(act, Do) and act.module == "gpuctl_job" and chance.random() < 0.6:
            fault = chance.choice(OF_HISTORIES)
            always = fault.repeats and chance.random() < 0.2
            most = 45 if "six" in title else 18  # requests; a fault beyond the last one does not strike
            turn = Turn(title, act, turn.hours, fault, chance.randint(2, most), always)
        turns.append(turn)
        if turn.fault and chance.random() < 0.4:
            turns.append(Turn(f"{title}, again", act, chance.choice((0, 0, 3))))
    return turns


def _action(chance: random.Random, versions: dict[str, int]) -> tuple[str, Do | Callable[[Place], object]]:
    there = [name for name in versions if name != "batch"]
    weights = (6, 6 if there else 0, 4, 1 if "train" in there else 0, 1, 2 if "serve" in there else 0)
    kind = chance.choices(("apply", "state", "batch", "finish", "record", "scale"), weights)[0]
    wait = WAIT if chance.random() < 0.25 else {}
    if kind == "record":
        return "record the history", Do("gpuctl_job_history", {"namespaces": ["@ns"]})
    if kind == "finish":
        return "train ends", _end_training
    if kind == "scale":
        return "scale serve", job(name="serve", replicas=chance.randint(1, 4))
    if kind == "batch":
        return _batch(chance, versions, wait)
    if kind == "apply":
        name = chance.choice([*_JOBS, *there])
        versions[name] += chance.choice((0, 1, 1))
        return f"apply v{versions[name]} of {name}", job(_JOBS[name](versions[name]), **wait)
    name = chance.choice(there)
    state = chance.choice(("paused", "resumed", "restarted", "absent"))
    return f"{name} {state}", job(name=name, state=state, **(wait if state != "restarted" else {}))


def _batch(chance: random.Random, versions: dict[str, int], wait: Mapping[str, Any]) -> tuple[str, Do]:
    others = ("absent", "paused", "resumed", "restarted") if versions["batch"] else ()
    state = chance.choice(("present", "present", "present", *others))
    versions["batch"] += state == "present"
    manifests = _six(versions["batch"])
    options = {"concurrency": chance.choice((1, 4)), "continue_on_error": chance.random() < 0.5, **wait}
    return f"v{versions['batch']} of a batch of six: {state}", job(manifests, state=state, **options)


def _image(version: int) -> dict[str, Any]:
    return {"image": f"registry.example.com/ml:v{version}"}


_SMALL = {"gpu": 1, "cpu": 1, "memory": "1Gi"}
_JOBS: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "train": lambda v: deepspeed(resources={**_SMALL, "gpu": 2, "node_count": 2}, environment=_image(v)),
    "solo": lambda v: training("solo", resources=_SMALL, environment=_image(v)),
    "serve": lambda v: served(resources=_SMALL, environment=_image(v)),
    "lab": lambda v: notebook("lab", resources=_SMALL, environment=_image(v)),
    # Of another kind by turns: its workload is replaced.
    "web": lambda v: (compute if v % 3 else notebook)("web", resources=_SMALL, environment=_image(v)),
}


def _six(version: int) -> list[dict[str, Any]]:
    blocks = {"resources": _SMALL, "environment": _image(version)}
    return [
        *(training(f"six-{number}", **blocks) for number in (1, 2, 3)),
        compute("six-4", **blocks),
        notebook("six-5", **blocks),
        training("six-6", **{**blocks, "resources": {**_SMALL, "node_count": 2}}),
    ]


def _end_training(place: Place) -> None:
    moment = _now(place).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": moment, "finishedAt": moment}}
    for pod in place.api.list("pod", place.names["@ns"]):
        if pod["metadata"]["labels"].get("app") == "train" and pod["status"].get("phase") == "Running":
            kubelet.report(place.api, pod, "Succeeded", state)


# -- what ran


@dataclass
class _Held:
    job: str
    gpus: int
    since: float
    until: float | None = None


class PodMeter:
    """How long each pod has held its GPUs, from its binding to a node to its end, by the events of the cluster."""

    def __init__(self, place: Place) -> None:
        self.events = 0
        self._held: dict[str, _Held] = {}
        self._place = place
        cluster = _cluster(place)
        cluster.call(lambda: cluster.registry.subscribe(self._see))

    def _see(self, event: str, kind: str, obj: Mapping[str, Any], _old: object) -> None:
        self.events += 1
        if kind != "Pod":
            return
        uid, now = obj["metadata"]["uid"], _now(self._place).timestamp()
        has_ended = event == "DELETED" or obj.get("status", {}).get("phase") in ("Succeeded", "Failed")
        held = self._held.get(uid)
        if held is None and obj["spec"].get("nodeName") and not has_ended:
            gpus = sum(int(each["resources"].get("requests", {}).get(GPU, 0)) for each in obj["spec"]["containers"])
            self._held[uid] = _Held(obj["metadata"]["labels"].get("app", ""), gpus, now)
        elif held is not None and has_ended and held.until is None:
            held.until = now

    def hours(self, until: float) -> dict[str, float]:
        """GPU-hours by job."""
        found: dict[str, float] = defaultdict(float)
        for held in self._held.values():
            found[held.job] += held.gpus * ((held.until or until) - held.since) / _HOUR
        return found

    def tolerance(self, job: str) -> float:
        """GPU-hours by which a job may differ: times are whole seconds, and some ends are recorded before they come."""
        return 0.001 + sum(held.gpus for held in self._held.values() if held.job == job) * _INEXACT / _HOUR


def _cluster(place: Place) -> Cluster:
    assert place._cluster is not None, "histories need a cluster whose clock can be set"
    return place._cluster


def _now(place: Place) -> datetime:
    return _cluster(place).registry.clock.now()


# -- play


def play(stage: Stage, name: str) -> HistoryVerdict:
    verdict, disclaimers = HistoryVerdict(name), []
    behind = _DAYS * 24 * _HOUR
    with places.simulated(nodes=NODES, behind=behind) as place:
        meter, start = PodMeter(place), _now(place)
        for turn in turns_of(name):
            behind = _advance(place, behind, turn.hours)
            outcome = _take(stage, place, turn, -behind)
            _settle(place, meter)
            struck = stage.lanes[0].fired and turn.fault is not None
            verdict.tasks += outcome is not None
            verdict.struck += struck
            verdict.killed += outcome is not None and outcome.killed
            verdict.turns.append(f"{turn}{'' if struck or not turn.fault else ' (not reached)'}: {_said(outcome)}")
            disclaimers += [text for text in (outcome.warnings if outcome else ()) if _DISCLAIMER.search(text)]
        behind = _advance(place, behind, 2)
        end = _now(place)
        options = {
            "start": _text(start),
            "end": _text(end),
            "group_by": ["job"],
            "namespaces": ["@ns"],
            "use_prometheus": "never",
        }
        usage = _run(stage, place, Do("gpuctl_usage_info", options), Plan(), -behind)
        if not usage.ok:
            raise AssertionError(f"gpuctl_usage_info fails: {usage.text}")
        found = {row["job"].partition("/")[2]: row["gpu_hours"] for row in (usage.result or {})["results"]}
        ran = meter.hours(end.timestamp())
        verdict.hours = round(sum(ran.values()), 2)
        wrong = [
            f"{job}: {found.get(job, 0.0):.2f} GPU-hours, and its pods ran {ran.get(job, 0.0):.2f}"
            for job in sorted({*found, *ran})
            if abs(found.get(job, 0.0) - ran.get(job, 0.0)) > meter.tolerance(job)
        ]
        if disclaimers:
            verdict.unknown = [*wrong, *disclaimers] if wrong else []
        else:
            verdict.wrong = wrong
    return verdict


def _take(stage: Stage, place: Place, turn: Turn, skew: float) -> Outcome | None:
    if isinstance(turn.act, Do):
        return _run(stage, place, turn.act, Plan(turn.fault, turn.k, turn.always), skew)
    stage.lanes[0].begin()
    turn.act(place)
    return None


def _run(stage: Stage, place: Place, do: Do, plan: Plan, skew: float) -> Outcome:
    lane, runner = stage.lanes[0], stage.runners[0]
    stage.proxy.target = place.url
    lane.begin(plan)
    lane.pid = runner.start(call(do, place, lane, patient=False, skew=skew))
    runner.go()
    return runner.wait()


def _advance(place: Place, behind: float, hours: int) -> float:
    behind -= hours * _HOUR
    _cluster(place).set_clock(behind=behind)
    return behind


def _settle(place: Place, meter: PodMeter) -> None:
    """Until nothing moves any more, and no pod is on its way out: the clock must not jump before."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        seen = meter.events
        time.sleep(_SETTLED)
        pods = place.api.list("pod", place.names["@ns"])
        if seen == meter.events and not any("deletionTimestamp" in pod["metadata"] for pod in pods):
            return


def _text(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _said(outcome: Outcome | None) -> str:
    if outcome is None:
        return "done"
    if outcome.killed:
        return "killed"
    return (outcome.text.strip().splitlines() or ["-"])[0][:160]


# -- report


def names(number: int, seed: int) -> list[str]:
    return [f"{seed}:{each}" for each in range(1, number + 1)]


def summary(verdicts: Sequence[HistoryVerdict]) -> Iterator[str]:
    """The figures, and each history whose GPU-hours are wrong with all that happened."""
    for verdict in verdicts:
        for text in verdict.wrong:
            yield f"WRONG {verdict.name} {text}"
        if verdict.wrong:
            yield from (f"    {turn}" for turn in verdict.turns)
            yield f'    make chaos ARGS="--history {verdict.name}"'
        if verdict.broken:
            yield f"NOT PLAYED {verdict.name}: {verdict.broken.strip().splitlines()[-1]}"
    played = [verdict for verdict in verdicts if not verdict.broken]
    right = sum(not verdict.wrong and not verdict.unknown for verdict in played)
    unknown = sum(bool(verdict.unknown) for verdict in played)
    yield (
        f"{len(played)} histories, {sum(each.tasks for each in played):,} tasks, "
        f"{sum(each.struck for each in played)} faults, of which {sum(each.killed for each in played)} ended the task; "
        f"{sum(each.hours for each in played):,.0f} GPU-hours: {right} right, {unknown} not known, as a task said, "
        f"{len(played) - right - unknown} wrong."
    )


def has_failed(verdicts: Sequence[HistoryVerdict]) -> bool:
    return any(verdict.wrong or verdict.broken for verdict in verdicts)
