# SPDX-License-Identifier: BSD-2-Clause
"""What can be measured of a device and of a pod while nothing happens to them: from `since` on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubesim.clock import parse_time

from .devices import Device, Holder
from .load import Load, Profiles

Object = dict[str, Any]


def running_since(pod: Object) -> float | None:
    """When its first container started; None for a pod that does not run."""
    status = pod.get("status") or {}
    if status.get("phase") != "Running":
        return None
    states = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
    times = [state["running"]["startedAt"] for state in states if (state.get("running") or {}).get("startedAt")]
    text = min(times, default=status.get("startTime") or pod["metadata"]["creationTimestamp"])
    return parse_time(text).timestamp()


class DeviceReading:
    """A device with those that hold it. `joules`: what it has used before."""

    def __init__(
        self, profiles: Profiles, device: Device, holders: Sequence[Holder], since: float, joules: float = 0.0
    ) -> None:
        self.device, self.holders, self.since, self._joules = device, list(holders), since, joules
        self.loads: list[Load] = []
        for holder in holders:
            started = running_since(holder.pod)
            if started is not None:
                self.loads.append(profiles.of(holder.pod, started, device.node, device.index))
        if not self.loads:
            self.loads = [profiles.of(None, since, device.node, device.index)]

    def utilization(self, moment: float) -> float:
        """Percent."""
        return min(100.0, self._sum("utilization", moment))

    def memory(self, moment: float) -> float:
        """MiB. Pods that share a device share its memory."""
        return min(self.device.memory, self._sum("memory", moment) / self.device.shares)

    def tensor(self, moment: float) -> float:
        return min(100.0, self._sum("tensor", moment))

    def temperature(self, moment: float) -> float:
        return max(load.at("temperature", moment) for load in self.loads)

    def power(self, moment: float) -> float:
        return max(load.at("power", moment) for load in self.loads)

    def xid(self, moment: float) -> float:
        return max(load.at("xid", moment) for load in self.loads)

    def joules(self, moment: float) -> float:
        return self._joules + max(load.integral("power", self.since, moment) for load in self.loads)

    def _sum(self, metric: str, moment: float) -> float:
        return sum(load.at(metric, moment, self.device.memory) for load in self.loads)


class PodReading:
    """A running pod. `counted`: what its counters have counted before."""

    def __init__(self, profiles: Profiles, pod: Object, since: float, counted: dict[str, float] | None = None) -> None:
        self.pod, self.since, self._counted = pod, since, counted or {}
        self.started = running_since(pod) or since
        self.load = profiles.of(pod, self.started, pod["spec"].get("nodeName", ""))

    def bytes(self, direction: str, moment: float) -> float:
        return self._counted.get(direction, 0.0) + self.load.integral(direction, self.since, moment)

    def utilization(self, moment: float) -> float:
        return self.load.at("utilization", moment)

    def busy(self, moment: float) -> float:
        """Percent of utilization times seconds."""
        return self._counted.get("utilization", 0.0) + self.load.integral("utilization", self.since, moment)

    def program(self, name: str, moment: float) -> float:
        """A metric of the program itself: a rate for what is counted, else the value."""
        return self.load.program_at(name, moment, self.since, self._counted.get(name, 0.0))

    def counted(self, moment: float) -> dict[str, float]:
        totals = {direction: self.bytes(direction, moment) for direction in ("receive", "transmit")}
        totals["utilization"] = self.busy(moment)
        return totals | {name: self.program(name, moment) for name in self.load.program if name.endswith("_total")}
