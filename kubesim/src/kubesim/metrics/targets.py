# SPDX-License-Identifier: BSD-2-Clause
"""Which exporters there are, and the labels of their targets as prometheus-operator gives them.

So a Prometheus with and without honor_labels makes of `pod` and `namespace` what it makes of them in a real cluster.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import dcgm, vendors
from .devices import AMD, ASCEND, CAMBRICON, GAUDI, NVIDIA, Device
from .exposition import Descriptions, Sample
from .readings import DeviceReading

Object = dict[str, Any]
Options = Mapping[str, str]
Labels = dict[str, str]


@dataclass(frozen=True)
class NodeExporter:
    """An exporter of devices: on each node that has such devices, a pod of it."""

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

    def runs_beside(self, devices: Iterable[Device]) -> bool:
        return any(device.vendor == self.vendor and (device.hami or not self.hami) for device in devices)

    def target(self, node: str) -> Labels:
        pod = f"{self.service}-{zlib.crc32(node.encode()) % 0xFFFFF:05x}"
        return _target(self.namespace, self.service, self.container, f"{node}:{self.port}", pod)


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
        "amd-metrics-exporter",
        "metrics-exporter-container",
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
KUBE_STATE, CADVISOR, PROGRAM = "kube-state-metrics", "cadvisor", "program"
ALL = (*EXPORTERS, KUBE_STATE, CADVISOR, PROGRAM)


def kube_state_target() -> Labels:
    return _target("monitoring", KUBE_STATE, KUBE_STATE, "10.0.0.9:8080", f"{KUBE_STATE}-0")


def cadvisor_target(node: str) -> Labels:
    return {
        "job": "kubelet",
        "service": "kubelet",
        "namespace": "kube-system",
        "endpoint": "https-metrics",
        "instance": f"{node}:10250",
        "node": node,
        "metrics_path": "/metrics/cadvisor",
    }


def program_target(pod: Object) -> Labels:
    """As of a PodMonitor: there is no service."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    address = f"{pod['status'].get('podIP', '10.0.0.1')}:8000"
    container = pod["spec"]["containers"][0]["name"]
    labels = _target(namespace, f"{namespace}/gpuctl-jobs", container, address, name)
    return {key: value for key, value in labels.items() if key != "service"}


def _target(namespace: str, service: str, container: str, instance: str, pod: str) -> Labels:
    """As of a ServiceMonitor."""
    return {
        "job": service,
        "service": service,
        "namespace": namespace,
        "container": container,
        "pod": pod,
        "endpoint": "metrics",
        "instance": instance,
    }


def scraped(labels: Mapping[str, str], target: Mapping[str, str], honor_labels: bool) -> Labels:
    """What Prometheus makes of the labels of a sample (scrape/scrape.go, mutateSampleLabels); empty ones are none."""
    if honor_labels:
        merged = {**target, **labels}
    else:
        moved = {f"exported_{key}" if key in target else key: value for key, value in labels.items() if value}
        merged = {**moved, **target}
    return {key: value for key, value in merged.items() if value}
