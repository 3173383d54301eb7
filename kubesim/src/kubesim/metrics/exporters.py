# SPDX-License-Identifier: BSD-2-Clause
"""The exporters of a cluster: how Prometheus finds them, and what they answer.

A target has the labels that prometheus-operator gives to those it discovers, so that a Prometheus with and without
honor_labels makes of `pod` and `namespace` what it makes of them in a real cluster. Options of an exporter are
parameters of its URL: one cluster looks as several worlds do.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubesim.controllers.base import find_condition
from kubesim.controllers.pods import is_terminal
from kubesim.registry import Registry

from . import dcgm, kube_state, vendors, workloads
from .devices import AMD, ASCEND, CAMBRICON, GAUDI, NVIDIA, Assignments, Device, devices_of
from .exposition import Descriptions, Sample, render
from .load import Profiles
from .readings import DeviceReading, PodReading, running_since

Object = dict[str, Any]
Options = Mapping[str, str]
Target = dict[str, Any]


@dataclass(frozen=True)
class NodeExporter:
    """An exporter of devices, a pod of it on each node that has such devices."""

    samples: Callable[[Iterable[DeviceReading], Options], Iterator[Sample]]
    descriptions: Descriptions
    vendor: str
    namespace: str
    service: str
    container: str
    port: int
    hami: bool = False  # only where HAMi shares the devices

    def described(self, options: Options) -> Descriptions:
        """With the prefix of the names that AMD's exporter can be given."""
        return {options.get("prefix", "") + name: each for name, each in self.descriptions.items()}


EXPORTERS: Mapping[str, NodeExporter] = {
    "dcgm-exporter": NodeExporter(
        dcgm.samples, dcgm.DESCRIPTIONS, NVIDIA, "gpu-operator", "nvidia-dcgm-exporter", "nvidia-dcgm-exporter", 9400
    ),
    "hami": NodeExporter(
        vendors.hami,
        vendors.DESCRIPTIONS,
        NVIDIA,
        "kube-system",
        "hami-device-plugin-monitor",
        "vgpu-monitor",
        9394,
        True,
    ),
    "amd": NodeExporter(
        vendors.amd,
        vendors.DESCRIPTIONS,
        AMD,
        "kube-amd-gpu",
        "amd-device-metrics-exporter",
        "device-metrics-exporter",
        5000,
    ),
    "npu-exporter": NodeExporter(
        vendors.npu, vendors.DESCRIPTIONS, ASCEND, "npu-exporter", "npu-exporter", "npu-exporter", 8082
    ),
    "gaudi": NodeExporter(
        vendors.gaudi, vendors.DESCRIPTIONS, GAUDI, "monitoring", "habana-metric-exporter", "metric-exporter", 41611
    ),
    "mlu-exporter": NodeExporter(
        vendors.mlu, vendors.DESCRIPTIONS, CAMBRICON, "kube-system", "mlu-exporter", "mlu-exporter", 30108
    ),
}
PREFIX = "/_sim/metrics/"
KUBE_STATE, CADVISOR, PROGRAM = "kube-state-metrics", "cadvisor", "program"
ALL = (*EXPORTERS, KUBE_STATE, CADVISOR, PROGRAM)


class Exporters:
    """Of a running cluster; only safe on its thread."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.profiles = Profiles(self._renew_all)
        self._assignments = Assignments()
        self._devices: dict[str, list[Device]] = {}
        self._of_devices: dict[Device, DeviceReading] = {}
        self._of_pods: dict[str, PodReading] = {}
        self._since: dict[str, float | None] = {}  # by uid: how long the pods run that have a node

    def start(self) -> None:
        for node in self.registry.list("Node"):
            self._observe("ADDED", "Node", node, None)
        for pod in sorted(self.registry.list("Pod"), key=lambda pod: pod["metadata"]["creationTimestamp"]):
            self._observe("ADDED", "Pod", pod, None)
        self.registry.subscribe(self._observe)

    # --- what they answer ---

    def text(self, exporter: str, place: str, options: Options) -> str | None:
        """The answer of one target; None when there is no such target."""
        now = self._now()
        if exporter == KUBE_STATE:
            allowed = kube_state.AllowList(options.get("metric_labels_allowlist", ""))
            found = (
                sample
                for kind in kube_state.KINDS
                for obj in self.registry.list(kind)
                for sample in kube_state.samples(kind, obj, allowed)
            )
            return render(found, kube_state.DESCRIPTIONS, now)
        if exporter == PROGRAM:
            reading = next((each for each in self._programs() if _key(each.pod) == place), None)
            if reading is None:
                return None
            descriptions, samples = workloads.program(reading)
            return render(samples, descriptions, now)
        if not self._answers(place):
            return None
        if exporter == CADVISOR:
            own = (each for each in self._of_pods.values() if each.pod["spec"]["nodeName"] == place)
            return render(workloads.cadvisor(own), workloads.CADVISOR, now)
        if exporter not in EXPORTERS:
            return None
        readings = [self._reading(device) for device in self._devices[place]]
        kind = EXPORTERS[exporter]
        return render(kind.samples(readings, options), kind.described(options), now)

    def _answers(self, node: str) -> bool:
        """Nobody answers on a node whose kubelet has gone."""
        obj = self.registry.get("Node", "", node)
        ready = find_condition(obj, "Ready") if obj is not None else None
        return obj is not None and node in self._devices and (ready is None or ready["status"] != "Unknown")

    # --- how they are found ---

    def targets(self, exporter: str, host: str, scheme: str, options: Options) -> list[Target]:
        """The answer of Prometheus' HTTP service discovery. Its labels __… are those that Prometheus reads itself."""
        return [
            {
                "targets": [host],
                "labels": {
                    "__scheme__": scheme,
                    "__metrics_path__": f"{PREFIX}{exporter}/{place}",
                    **{f"__param_{key}": value for key, value in options.items()},
                    **labels,
                },
            }
            for place, labels in self.places(exporter)
        ]

    def places(self, exporter: str) -> Iterator[tuple[str, dict[str, str]]]:
        """The targets of an exporter and their labels."""
        if exporter == KUBE_STATE:
            yield (
                "cluster",
                _target(
                    "monitoring", "kube-state-metrics", "kube-state-metrics", "10.0.0.9:8080", "kube-state-metrics-0"
                ),
            )
        elif exporter == PROGRAM:
            for reading in self._programs():
                metadata = reading.pod["metadata"]
                address = f"{reading.pod['status'].get('podIP', '10.0.0.1')}:8000"
                container = reading.pod["spec"]["containers"][0]["name"]
                job = f"{metadata['namespace']}/gpuctl-jobs"
                target = _target(metadata["namespace"], job, container, address, metadata["name"])
                yield _key(reading.pod), {key: value for key, value in target.items() if key != "service"}
        elif exporter == CADVISOR:
            for node in self._devices:
                own = {"job": "kubelet", "service": "kubelet", "namespace": "kube-system", "endpoint": "https-metrics"}
                yield node, {**own, "instance": f"{node}:10250", "node": node, "metrics_path": "/metrics/cadvisor"}
        elif exporter in EXPORTERS:
            kind = EXPORTERS[exporter]
            for node, devices in self._devices.items():
                if any(device.vendor == kind.vendor and (device.hami or not kind.hami) for device in devices):
                    pod = f"{kind.service}-{zlib.crc32(node.encode()) % 0xFFFFF:05x}"
                    yield node, _target(kind.namespace, kind.service, kind.container, f"{node}:{kind.port}", pod)

    def _programs(self) -> Iterator[PodReading]:
        return (reading for reading in self._of_pods.values() if workloads.has_program(reading))

    # --- what happens ---

    def _observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "Node":
            name = obj["metadata"]["name"]
            if event == "DELETED":
                del self._devices[name]
            elif old is None or devices_of(old) != devices_of(obj):
                self._devices[name] = devices_of(obj)
        elif kind == "Pod" and obj["spec"].get("nodeName"):
            self._observe_pod(obj, ended=event == "DELETED" or is_terminal(obj))

    def _observe_pod(self, pod: Object, *, ended: bool) -> None:
        uid, since = pod["metadata"]["uid"], running_since(pod)
        if ended:
            self._since.pop(uid, None)
            self._of_pods.pop(uid, None)
            changed = self._assignments.take(uid)
        elif uid in self._since and self._since[uid] == since:
            return
        else:
            self._since[uid] = since
            changed = self._assignments.give(pod, self._devices.get(pod["spec"]["nodeName"], ()))
            if since is not None:
                self._of_pods[uid] = PodReading(self.profiles, pod, since)
        for device in changed:
            self._renew(device)

    def _reading(self, device: Device) -> DeviceReading:
        if device not in self._of_devices:
            self._renew(device)
        return self._of_devices[device]

    def _renew(self, device: Device) -> None:
        """Read a device anew from now on. Its energy goes on from where it was."""
        now, old = self._now(), self._of_devices.get(device)
        joules = old.joules(now) if old else 0.0
        self._of_devices[device] = DeviceReading(self.profiles, device, self._assignments.holders(device), now, joules)

    def _renew_all(self) -> None:
        """By the rules as they are now; what has been counted stays."""
        now = self._now()
        for device in self._of_devices:
            self._renew(device)
        for uid, old in self._of_pods.items():
            self._of_pods[uid] = PodReading(self.profiles, old.pod, now, old.counted(now))

    def _now(self) -> float:
        return self.registry.clock.now().timestamp()


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _target(namespace: str, service: str, container: str, instance: str, pod: str) -> dict[str, str]:
    """The labels that prometheus-operator gives to a target of a ServiceMonitor."""
    return {
        "job": service,
        "service": service,
        "namespace": namespace,
        "container": container,
        "pod": pod,
        "endpoint": "metrics",
        "instance": instance,
    }
