# SPDX-License-Identifier: BSD-2-Clause
"""What pods do to their accelerators and to the network over time: profiles by rule, and a default.

A curve is exact at every time, so is its integral: counters do not depend on how often they are read.
"""

from __future__ import annotations

import fnmatch
import itertools
import zlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubesim.clock import parse_time

Object = dict[str, Any]
#: What a rule may drive: percent, percent, MiB, Celsius, watts, bytes a second twice, the code of the last XID error.
DRIVEN = ("utilization", "tensor", "memory", "temperature", "power", "receive", "transmit", "xid")
#: How the default profile looks: seconds of a wave, and by how much it moves around its level.
WAVE_SECONDS, WAVE_HEIGHT = 600.0, 8.0
#: What follows from the percentage of utilization where no curve says otherwise: metric -> (at 0 %, for each percent).
_DERIVED: Mapping[str, tuple[float, float]] = {
    "utilization": (0.0, 1.0),
    "tensor": (0.0, 0.6),
    "temperature": (34.0, 0.36),
    "power": (62.0, 3.2),
    "receive": (0.0, 4e6),
    "transmit": (0.0, 4e6),
}
USED_MEMORY = 0.75  # of the memory of a device that a pod holds


class Curve:
    """Straight lines between points (seconds, value), held before the first and after the last one, or repeated."""

    def __init__(self, points: Sequence[tuple[float, float]], repeat: float = 0.0) -> None:
        self.points = sorted((float(second), float(value)) for second, value in points)
        if not self.points:
            raise ValueError("a curve needs a point")
        if repeat and repeat < self.points[-1][0]:
            raise ValueError(f"repeat must not be shorter than the curve ({self.points[-1][0]:g} seconds): {repeat:g}")
        self.repeat = float(repeat)
        self._constant = self.points[0][1] if len(self.points) == 1 else None
        self._times = [second for second, _ in self.points]
        self._areas = [0.0]  # from the first point to each
        for (left, low), (right, high) in itertools.pairwise(self.points):
            self._areas.append(self._areas[-1] + (right - left) * (low + high) / 2)

    def at(self, second: float) -> float:
        if self._constant is not None:
            return self._constant
        return self._once(second % self.repeat if self.repeat else second)

    def integral(self, start: float, end: float) -> float:
        if self._constant is not None:
            return self._constant * (end - start)
        return self._area(end) - self._area(start)

    def _once(self, second: float) -> float:
        index = bisect_right(self._times, second)
        if index == 0:
            return self.points[0][1]
        if index == len(self.points):
            return self.points[-1][1]
        (left, low), (right, high) = self.points[index - 1], self.points[index]
        return low + (high - low) * (second - left) / (right - left)

    def _area(self, second: float) -> float:
        """From second 0."""
        if not self.repeat:
            return self._area_once(second)
        periods, rest = divmod(second, self.repeat)
        return periods * self._area_once(self.repeat) + self._area_once(rest)

    def _area_once(self, second: float) -> float:
        return self._from_first(second) - self._from_first(0.0)

    def _from_first(self, second: float) -> float:
        index = bisect_right(self._times, second)
        if index == 0:
            return (second - self._times[0]) * self.points[0][1]
        left, low = self.points[index - 1]
        return self._areas[index - 1] + (second - left) * (low + self._once(second)) / 2


_NOTHING = Curve([(0.0, 0.0)])


def read_curve(value: Any, repeat: float = 0.0) -> Curve:
    """A number, or a list of [seconds, value]; ValueError for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Curve([(0.0, float(value))])
    try:
        return Curve([(float(second), float(each)) for second, each in value], repeat)
    except TypeError:
        raise ValueError(f"a number, or a list of [seconds, value]: {value!r}") from None


@dataclass(frozen=True)
class Rule:
    """Which pods, or which device in whichever pod, follow which curves.

    The curves count from the start of the pod; with `since`, from then on only, and from then on at the earliest."""

    number: int
    curves: Mapping[str, Curve]
    program: Mapping[str, Curve] = field(default_factory=dict)
    namespace: str = "*"
    name: str = "*"
    labels: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    gpu: int | None = None
    since: float | None = None

    def takes_pod(self, pod: Object | None) -> bool:
        if pod is None:
            return bool(self.node) and self.gpu is not None
        metadata = pod["metadata"]
        own = metadata.get("labels") or {}
        return (
            fnmatch.fnmatchcase(metadata.get("namespace", ""), self.namespace)
            and fnmatch.fnmatchcase(metadata["name"], self.name)
            and all(own.get(key) == value for key, value in self.labels.items())
        )

    def takes_device(self, node: str, gpu: int | None) -> bool:
        return (not self.node or node == self.node) and (self.gpu is None or gpu == self.gpu)


class Profiles:
    """The rules, the newest first: each metric is driven by the first rule that has a curve for it."""

    def __init__(self, changed: Callable[[], object] = lambda: None) -> None:
        """`changed`: called after the rules have changed."""
        self.rules: list[Rule] = []
        self._changed = changed
        self._numbers = itertools.count(1)
        self._defaults: dict[str, Curve] = {}

    def add(
        self,
        *,
        namespace: str = "*",
        name: str = "*",
        labels: Mapping[str, str] | None = None,
        job: str | None = None,
        node: str = "",
        gpu: int | None = None,
        repeat: float = 0.0,
        since: float | str | datetime | None = None,
        program: Mapping[str, Any] | None = None,
        **driven: Any,
    ) -> int:
        """From now on the pods that match do what these curves say; the number of the rule.

        `job`: the value of the label `app`. `program`: metrics of the program itself; names that end in _total are
        counted up at the rate of their curve. ValueError for an unknown option or a curve that is none."""
        unknown = sorted(set(driven) - set(DRIVEN))
        if unknown:
            raise ValueError(f"unknown option: {unknown[0]}. Valid options: {', '.join(DRIVEN)}")
        rule = Rule(
            next(self._numbers),
            {key: read_curve(value, repeat) for key, value in driven.items()},
            {key: read_curve(value, repeat) for key, value in (program or {}).items()},
            namespace,
            name,
            {**(labels or {}), **({"app": job} if job is not None else {})},
            node,
            gpu,
            _seconds(since),
        )
        self.rules.insert(0, rule)
        self._changed()
        return rule.number

    def remove(self, number: int | None = None) -> None:
        """Take one rule back, or all."""
        self.rules = [rule for rule in self.rules if number is not None and rule.number != number]
        self._changed()

    def of(self, pod: Object | None, started: float = 0.0, node: str = "", gpu: int | None = None) -> Load:
        """What a running pod does, to a device that it holds; or, without a pod, what an idle device shows."""
        rules = [rule for rule in self.rules if rule.takes_device(node, gpu) and rule.takes_pod(pod)]
        return Load(self, pod, started, rules)

    def default(self, pod: Object) -> Curve:
        """The utilization of a pod that no rule drives. The same for all pods of a job, and in all runs of a test."""
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        key = f"{metadata.get('namespace', '')}/{labels.get('app') or metadata['name']}"
        if key not in self._defaults:
            level = 60.0 + zlib.crc32(key.encode()) % 30
            points = [
                (0.0, level),
                (WAVE_SECONDS / 4, level + WAVE_HEIGHT),
                (WAVE_SECONDS * 3 / 4, level - WAVE_HEIGHT),
            ]
            self._defaults[key] = Curve([*points, (WAVE_SECONDS, level)], WAVE_SECONDS)
        return self._defaults[key]


class Load:
    """The curves of a running pod on one device; without a pod, those of an idle device."""

    def __init__(self, profiles: Profiles, pod: Object | None, started: float, rules: Sequence[Rule]) -> None:
        self._pod, self._started, self._rules = pod, started, rules
        self._default = profiles.default(pod) if pod is not None else _NOTHING

    @property
    def program(self) -> dict[str, Curve]:
        """The metrics of the program itself."""
        return {name: curve for rule in reversed(self._rules) for name, curve in rule.program.items()}

    def program_at(self, name: str, moment: float, since: float, counted: float) -> float:
        """The value; of a counter, what it has counted since a time, and before."""
        curve = self.program[name]
        if not name.endswith("_total"):
            return curve.at(moment - self._started)
        return counted + curve.integral(since - self._started, moment - self._started)

    def at(self, metric: str, moment: float, memory: float = 0.0) -> float:
        """`memory`: the MiB of the device, of which pods take a part."""
        curve, zero, derive = self._curve(metric, moment, memory)
        return derive(curve.at(moment - zero))

    def integral(self, metric: str, start: float, end: float, memory: float = 0.0) -> float:
        """In units of the metric times seconds. Rules that begin in between split it."""
        total, left = 0.0, start
        begins = sorted(rule.since for rule in self._rules if rule.since is not None and start < rule.since < end)
        for right in (*begins, end):
            if right > left:
                curve, zero, derive = self._curve(metric, left, memory)
                total += (right - left) * derive(curve.integral(left - zero, right - zero) / (right - left))
            left = right
        return total

    def _curve(self, metric: str, moment: float, memory: float) -> tuple[Curve, float, Callable[[float], float]]:
        """The curve, when it begins, and how the metric follows from it: straight, so that means are exact too."""
        for name in (metric, "utilization"):
            for rule in self._rules:
                if name in rule.curves and (rule.since is None or rule.since <= moment):
                    derive = _same if name == metric else self._derivation(metric, memory)
                    return rule.curves[name], max(self._started, rule.since or self._started), derive
        return self._default, self._started, self._derivation(metric, memory)

    def _derivation(self, metric: str, memory: float) -> Callable[[float], float]:
        if metric == "memory":
            used = USED_MEMORY * memory if self._pod is not None else 0.0
            return lambda percent: used
        offset, factor = _DERIVED.get(metric, (0.0, 0.0))
        return lambda percent: offset + factor * percent


def _same(value: float) -> float:
    return value


def _seconds(moment: float | str | datetime | None) -> float | None:
    if isinstance(moment, str):
        moment = parse_time(moment)
    return moment.timestamp() if isinstance(moment, datetime) else moment
