# SPDX-License-Identifier: BSD-2-Clause
"""The pods that were, and what exporters would have shown of them: series over hours without waiting for hours.

A pod tells its own history: when it was created, got its node, started and ended. Only when it was deleted it does not.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TextIO

from kubesim.clock import parse_time, rfc3339
from kubesim.controllers.base import find_condition
from kubesim.controllers.pods import is_terminal

from . import kube_state, targets, workloads
from .exposition import Sample, number, series
from .load import Profiles
from .measurements import Measurements, Reading
from .readings import DeviceReading, PodReading
from .targets import CADVISOR, EXPORTERS, KUBE_STATE, PROGRAM, Options

Object = dict[str, Any]
#: exporter -> its options, and whether Prometheus honors its labels
Exporters = Mapping[str, tuple[Options, bool]]
#: Deleted pods beyond these are forgotten, the oldest first.
KEPT = 50_000
#: Prometheus' blocks: a file for each, as promtool reads a file once for every block in it.
BLOCK_SECONDS = 7200


class History:
    """All pods, deleted ones among them."""

    def __init__(self) -> None:
        self._there: dict[str, Object] = {}
        self._deleted: dict[str, tuple[Object, float]] = {}

    def observe(self, pod: Object, deleted: float | None = None) -> None:
        uid = pod["metadata"]["uid"]
        if deleted is None:
            self._there[uid] = pod
            return
        self._there.pop(uid, None)
        self._deleted[uid] = (pod, deleted)
        if len(self._deleted) > KEPT:
            del self._deleted[next(iter(self._deleted))]

    def pods(self) -> list[tuple[Object, float]]:
        """Each with the time of its deletion, which may never come."""
        return [*self._deleted.values(), *((pod, math.inf) for pod in self._there.values())]


def versions(pod: Object, deleted: float = math.inf) -> list[tuple[float, float, Object]]:
    """The pod as it was: (from, to, object), from its creation to its deletion."""
    created = _seconds(pod["metadata"]["creationTimestamp"])
    has_node = bool(pod["spec"].get("nodeName"))
    scheduled = _scheduled(pod) if has_node else math.inf
    started = _started(pod)
    ended = _ended(pod) if is_terminal(pod) else math.inf
    steps = [
        (created, _waiting(pod)),
        (scheduled, _with_status(pod, "Pending", None)),
        (started, _with_status(pod, "Running", "running")),
        (ended, pod),
    ]
    if ended == math.inf:
        steps[-1] = (started if started < math.inf else scheduled if has_node else created, pod)
    found: list[tuple[float, float, Object]] = []
    for index, (start, obj) in enumerate(steps):
        end = min([deleted, *(later for later, _ in steps[index + 1 :])])
        if max(start, created) < end:
            found.append((max(start, created), end, obj))
    return found


def _waiting(pod: Object) -> Object:
    """Before it got its node."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {**pod, "spec": spec, "status": {"phase": "Pending", "conditions": [condition]}}


def _with_status(pod: Object, phase: str, state: str | None) -> Object:
    """Before it ended; without `state`, before it started."""
    status = {key: value for key, value in pod["status"].items() if key not in ("reason", "message")}
    statuses = [_container(each) for each in status.get("containerStatuses") or ()] if state else []
    return {**pod, "status": {**status, "phase": phase, "containerStatuses": statuses}}


def _container(status: Object) -> Object:
    state = status.get("state") or {}
    started = (state.get("terminated") or state.get("running") or {}).get("startedAt")
    return {**status, "ready": True, "state": {"running": {"startedAt": started}}} if started else status


def _scheduled(pod: Object) -> float:
    condition = find_condition(pod, "PodScheduled") or {}
    text = condition.get("lastTransitionTime") if condition.get("status") == "True" else None
    return _seconds(text or pod["status"].get("startTime") or pod["metadata"]["creationTimestamp"])


def _started(pod: Object) -> float:
    """When it began to run; never for a pod that has not, or that ended before it could."""
    statuses = pod["status"].get("containerStatuses") or ()
    if any(each.get("restartCount") for each in statuses):
        return _scheduled(pod)  # nothing tells any more when the first of its containers started
    states = [each.get("state") or {} for each in statuses]
    bodies = [state.get("running") or state.get("terminated") or {} for state in states]
    times = [_seconds(body["startedAt"]) for body in bodies if body.get("startedAt")]
    if not times and pod["status"].get("phase") == "Running":
        return _scheduled(pod)
    return min(times, default=math.inf)


def _ended(pod: Object) -> float:
    states = [
        (each.get("state") or {}).get("terminated") or {} for each in pod["status"].get("containerStatuses") or ()
    ]
    times = [_seconds(state["finishedAt"]) for state in states if state.get("finishedAt")]
    return max(
        times,
        default=_scheduled(pod) if pod["spec"].get("nodeName") else _seconds(pod["metadata"]["creationTimestamp"]),
    )


def _seconds(text: str) -> float:
    return parse_time(text).timestamp()


def past_pod(
    name: str,
    *,
    created: float,
    namespace: str = "default",
    node: str = "",
    started: float | None = None,
    ended: float | None = None,
    phase: str = "",
    resources: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    owner: Mapping[str, str] | None = None,
    image: str = "busybox",
    **metadata: Any,
) -> Object:
    """A pod of one container with times (Unix seconds) that a test chooses. With a node, it got it when it was created.

    `started`: when it began to run. `ended`: when it ended, by default well. `owner`: kind and name of what made it."""
    phase = phase or ("Succeeded" if ended is not None else "Running" if started is not None else "Pending")
    state: Object = {}
    if started is not None:
        state = {"running": {"startedAt": _text(started)}}
    if ended is not None:
        code, reason = (0, "Completed") if phase == "Succeeded" else (1, "Error")
        begun = {"startedAt": _text(started)} if started is not None else {}
        state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": _text(ended), **begun}}
    container: Object = {"name": "main", "image": image}
    if resources:
        container["resources"] = {"requests": dict(resources), "limits": dict(resources)}
    moment = {"lastTransitionTime": _text(created)}
    status: Object = {"phase": phase, "conditions": [{"type": "PodScheduled", "status": str(bool(node)), **moment}]}
    if node:
        status["startTime"] = _text(created)
    if state:
        ready = "running" in state
        status["containerStatuses"] = [
            {"name": "main", "image": image, "ready": ready, "restartCount": 0, "state": state}
        ]
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "uid": str(uuid.uuid4()), **owner, "controller": True}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": _text(created),
            "labels": dict(labels or {}),
            **metadata,
        },
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": status,
    }


def _text(moment: float) -> str:
    return rfc3339(datetime.fromtimestamp(moment, timezone.utc))


def replay(history: Iterable[tuple[Object, float]], measurements: Measurements, until: float) -> None:
    """Let the measurements see what happened until then."""
    events: list[tuple[float, int, Object, bool]] = []
    for pod, deleted in history:
        there = [each for each in versions(pod, deleted) if each[2]["spec"].get("nodeName")]
        for start, end, obj in there:
            events.append((start, 1, obj, is_terminal(obj)))
            if end == deleted:
                events.append((end, 0, obj, True))
    events.sort(key=lambda event: event[:2])
    for moment, _, obj, ended in events:
        if moment <= until:
            measurements.observe_pod(obj, moment, ended=ended)


@dataclass(frozen=True)
class Past:
    """All that series are made of. `others`: objects of other kinds than pods, as they are all the time."""

    pods: Sequence[tuple[Object, float]]
    others: Mapping[str, Sequence[Object]]
    profiles: Profiles


def write(
    directory: Path,
    past: Past,
    start: float,
    end: float,
    step: float,
    exporters: Exporters,
    names: str = ".*",
) -> list[Path]:
    """Files of OpenMetrics text with what Prometheus would have scraped every `step` seconds from `start` to `end`.

    `exporters`: for each its options, and whether its scrape configuration has honor_labels. `names`: the pattern of
    the metrics to write."""
    nodes = {node["metadata"]["name"]: node for node in past.others["Node"]}
    with _Writer(directory, start, end, step, re.compile(names)) as out:
        _write_kube_state(out, past, exporters)

        def over(reading: Reading, moment: float) -> None:
            if isinstance(reading, DeviceReading):
                _write_device(out, reading, moment, exporters)
            else:
                _write_pod(out, reading, moment, exporters)

        measurements = Measurements(past.profiles, nodes, beginning(past.pods, start), over)
        replay(past.pods, measurements, end)
        measurements.close(end + step)
    return out.paths


def beginning(history: Iterable[tuple[Object, float]], start: float) -> float:
    created = (_seconds(pod["metadata"]["creationTimestamp"]) for pod, _ in history)
    return min(start, min(created, default=start))


def _write_kube_state(out: _Writer, past: Past, exporters: Exporters) -> None:
    if KUBE_STATE not in exporters:
        return
    options, honor = exporters[KUBE_STATE]
    allowed, target = kube_state.AllowList(options.get("metric_labels_allowlist", "")), targets.kube_state_target()
    for kind, objects in past.others.items():
        for obj in objects:
            for sample in kube_state.samples(kind, obj, allowed):
                out.add(sample, target, honor, out.start, math.inf)
    for pod, deleted in past.pods:
        for start, end, obj in versions(pod, deleted):
            for sample in kube_state.samples("Pod", obj, allowed):
                out.add(sample, target, honor, start, end)


def _write_device(out: _Writer, reading: DeviceReading, end: float, exporters: Exporters) -> None:
    for name, kind in EXPORTERS.items():
        if name in exporters and kind.runs_beside([reading.device]):
            options, honor = exporters[name]
            target = kind.target(reading.device.node)
            for sample in kind.samples([reading], options):
                out.add(sample, target, honor, reading.since, end)


def _write_pod(out: _Writer, reading: PodReading, end: float, exporters: Exporters) -> None:
    if CADVISOR in exporters:
        target = targets.cadvisor_target(reading.pod["spec"]["nodeName"])
        for sample in workloads.cadvisor([reading]):
            out.add(sample, target, exporters[CADVISOR][1], reading.since, end)
    if PROGRAM in exporters and workloads.has_program(reading):
        target = targets.program_target(reading.pod)
        for sample in workloads.program(reading)[1]:
            out.add(sample, target, exporters[PROGRAM][1], reading.since, end)


class _Writer:
    """The files, one for each of Prometheus' blocks."""

    def __init__(self, directory: Path, start: float, end: float, step: float, names: re.Pattern[str]) -> None:
        self.directory, self.start, self.step, self.names = directory, start, step, names
        self.paths: list[Path] = []
        self._moments = [start + step * number for number in range(int((end - start) // step) + 1)]
        self._texts = [f" {moment:.3f}\n" for moment in self._moments]
        self._files: dict[int, TextIO] = {}
        self._open = ExitStack()

    def __enter__(self) -> _Writer:
        self.directory.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *arguments: object) -> None:
        for file in self._files.values():
            file.write("# EOF\n")
        self._open.close()

    def add(self, sample: Sample, target: Mapping[str, str], honor: bool, start: float, end: float) -> None:
        """The samples of a series from `start` until before `end`."""
        if not self.names.fullmatch(sample.name):
            return
        head = series(sample.name, targets.scraped(sample.labels, target, honor)) + " "
        for block, first, last in self._blocks(start, end):
            texts = self._texts[first:last]
            if callable(sample.value):
                values = [number(sample.value(moment)) for moment in self._moments[first:last]]
                lines = [f"{head}{value}{text}" for value, text in zip(values, texts, strict=True)]
            else:
                fixed = head + number(sample.value)
                lines = [fixed + text for text in texts]
            self._file(block).write("".join(lines))

    def _blocks(self, start: float, end: float) -> Iterator[tuple[int, int, int]]:
        """The blocks that moments from `start` until before `end` lie in, and which moments these are."""
        first = max(0, math.ceil((start - self.start) / self.step))
        last = len(self._moments) if end == math.inf else math.ceil((end - self.start) / self.step)
        last = min(last, len(self._moments))
        while first < last:
            block = int(self._moments[first] // BLOCK_SECONDS)
            until = min(last, math.ceil(((block + 1) * BLOCK_SECONDS - self.start) / self.step))
            yield block, first, until
            first = until

    def _file(self, block: int) -> TextIO:
        if block not in self._files:
            path = self.directory / f"{block * BLOCK_SECONDS}.om"
            self.paths.append(path)
            self._files[block] = self._open.enter_context(path.open("w", encoding="utf-8"))
        return self._files[block]
