# SPDX-License-Identifier: BSD-2-Clause
"""What is measured as pods come, start and end: the readings that hold at a time, and those that are over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .devices import Assignments, Device, devices_of
from .load import Profiles
from .readings import DeviceReading, PodReading, running_since

Object = dict[str, Any]
Reading = DeviceReading | PodReading
_FACTS = ("labels", "annotations")


class Measurements:
    """Moments must not go back. `over`: called with each reading that no longer holds, and when it ceased to."""

    def __init__(
        self,
        profiles: Profiles,
        nodes: Mapping[str, Object],
        moment: float,
        over: Callable[[Reading, float], object] = lambda reading, moment: None,
    ) -> None:
        self.profiles, self._over = profiles, over
        self._assignments = Assignments()
        self._since: dict[str, float | None] = {}  # by uid: how long the pods run that have a node
        self.devices: dict[str, list[Device]] = {}
        self.of_devices: dict[Device, DeviceReading] = {}
        self.of_pods: dict[str, PodReading] = {}
        for node in nodes.values():
            self.observe_node(node, moment)

    def observe_node(self, node: Object, moment: float) -> None:
        """A node that is new, or whose devices may have changed."""
        found = devices_of(node)
        for device in self.devices.get(node["metadata"]["name"], ()):
            if device not in found:
                self._over(self.of_devices.pop(device), moment)
        self.devices[node["metadata"]["name"]] = found
        for device in found:
            if device not in self.of_devices:
                self._renew(device, moment)

    def forget_node(self, name: str, moment: float) -> None:
        for device in self.devices.pop(name, ()):
            self._over(self.of_devices.pop(device), moment)

    def observe_pod(self, pod: Object, moment: float, *, ended: bool) -> None:
        """A pod that has a node."""
        uid, since = pod["metadata"]["uid"], running_since(pod)
        if not ended and uid in self._since and self._since[uid] == since:
            return
        old = self.of_pods.pop(uid, None)
        if old is not None:
            self._over(old, moment)
        if ended:
            self._since.pop(uid, None)
            changed = self._assignments.take(uid)
        else:
            self._since[uid] = since
            changed = self._assignments.give(pod, self.devices.get(pod["spec"]["nodeName"], ()))
            if since is not None:
                self.of_pods[uid] = PodReading(self.profiles, pod, since)
        for device in changed:
            if device in self.of_devices:
                self._renew(device, moment)

    def renew(self, moment: float) -> None:
        """By the rules as they are now; what has been counted stays."""
        for device in self.of_devices:
            self._renew(device, moment)
        for uid, old in self.of_pods.items():
            self.of_pods[uid] = PodReading(self.profiles, old.pod, moment, old.counted(moment))

    def close(self, moment: float) -> None:
        """Nothing more is observed."""
        for device_reading in self.of_devices.values():
            self._over(device_reading, moment)
        for pod_reading in self.of_pods.values():
            self._over(pod_reading, moment)

    def _renew(self, device: Device, moment: float) -> None:
        """A device as it is from now on. Its energy goes on from where it was."""
        old = self.of_devices.get(device)
        joules = old.joules(moment) if old else 0.0
        holders = self._assignments.holders(device)
        self.of_devices[device] = DeviceReading(self.profiles, device, holders, moment, joules)
        if old is not None:
            self._over(old, moment)


def shows_other_devices(old: Object, new: Object) -> bool:
    """Whether a change of a node may have changed its devices."""
    facts = [old["metadata"].get(key) != new["metadata"].get(key) for key in _FACTS]
    return any(facts) or old["status"].get("capacity") != new["status"].get("capacity")
