# SPDX-License-Identifier: BSD-2-Clause
"""dcgm-exporter of one node.

Source: NVIDIA/dcgm-exporter etc/default-counters.csv, internal/pkg/rendermetrics, internal/pkg/transformation. Releases
until 4.5 write the label `Hostname`, main writes `hostname`. DCGM has no utilization of MIG devices but
DCGM_FI_PROF_GR_ENGINE_ACTIVE, and metrics of profiling only with the capability SYS_ADMIN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from .devices import NVIDIA
from .exposition import COUNTER, GAUGE, Descriptions, Sample
from .readings import DeviceReading

Measure = Callable[[DeviceReading, float], float]
#: name -> (type, help, value; None: a constant 0)
_DEFAULT: Mapping[str, tuple[str, str, Measure | None]] = {
    "DCGM_FI_DEV_GPU_TEMP": (GAUGE, "GPU temperature (in C).", lambda r, t: round(r.temperature(t))),
    "DCGM_FI_DEV_POWER_USAGE": (GAUGE, "Power draw (in W).", lambda r, t: r.power(t)),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": (
        COUNTER,
        "Total energy consumption since boot (in mJ).",
        lambda r, t: round(1000 * r.joules(t)),
    ),
    "DCGM_FI_DEV_GPU_UTIL": (GAUGE, "GPU utilization (in %).", lambda r, t: round(r.utilization(t))),
    "DCGM_FI_DEV_XID_ERRORS": (GAUGE, "Value of the last XID error encountered.", lambda r, t: int(r.xid(t))),
    "DCGM_FI_DEV_FB_FREE": (
        GAUGE,
        "Framebuffer memory free (in MiB).",
        lambda r, t: max(0.0, r.device.memory - round(r.memory(t)) - _reserved(r)),
    ),
    "DCGM_FI_DEV_FB_USED": (GAUGE, "Framebuffer memory used (in MiB).", lambda r, t: round(r.memory(t))),
}
_PROFILING: Mapping[str, tuple[str, str, Measure | None]] = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": (
        GAUGE,
        "Ratio of time the graphics engine is active.",
        lambda r, t: r.utilization(t) / 100,
    ),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": (
        GAUGE,
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        lambda r, t: r.tensor(t) / 100,
    ),
}
DESCRIPTIONS: Descriptions = {name: each[:2] for name, each in {**_DEFAULT, **_PROFILING}.items()}
_NOT_OF_PARTITIONS = "DCGM_FI_DEV_GPU_UTIL"
_DRIVER = "550.54.15"


def samples(readings: Iterable[DeviceReading], options: Mapping[str, str]) -> Iterator[Sample]:
    """`options`: hostname=Hostname|hostname, profiling, pods, pod_labels, pod_uid: true or false."""
    counters = dict(_DEFAULT)
    if options.get("profiling", "true") == "true":
        counters |= _PROFILING
    for reading in readings:
        if reading.device.vendor != NVIDIA:
            continue
        own = _labels(reading, options)
        for name, (_, _, measure) in counters.items():
            if not (reading.device.profile and name == _NOT_OF_PARTITIONS):
                yield Sample(name, own, _bound(measure, reading))


def _bound(measure: Measure | None, reading: DeviceReading) -> float | Callable[[float], float]:
    return 0.0 if measure is None else lambda moment: measure(reading, moment)


def _reserved(reading: DeviceReading) -> float:
    return float(reading.device.memory // 128)


def _labels(reading: DeviceReading, options: Mapping[str, str]) -> dict[str, str]:
    device = reading.device
    labels = {
        "gpu": str(device.index),
        "UUID": device.uuid,
        "pci_bus_id": device.bus,
        "device": f"nvidia{device.index}",
        "modelName": device.model,
    }
    if device.profile:
        labels |= {"GPU_I_PROFILE": device.profile, "GPU_I_ID": device.instance}
    labels[options.get("hostname", "Hostname")] = device.node
    labels["DCGM_FI_DRIVER_VERSION"] = _DRIVER
    if reading.holders and options.get("pods", "true") == "true":
        # Of several pods the last one of the kubelet's answer, unless KUBERNETES_VIRTUAL_GPUS is set.
        labels |= _workload(reading.holders[-1].pod, reading.holders[-1].container, options)
    return labels


def _workload(pod: dict[str, object], container: str, options: Mapping[str, str]) -> dict[str, str]:
    metadata: dict[str, object] = pod["metadata"]  # type: ignore[assignment]
    own = {"container": container, "namespace": str(metadata["namespace"]), "pod": str(metadata["name"])}
    if options.get("pod_uid") == "true":
        own["pod_uid"] = str(metadata["uid"])
    if options.get("pod_labels") == "true":
        given: Mapping[str, str] = metadata.get("labels") or {}  # type: ignore[assignment]
        own |= {re.sub(r"[^a-zA-Z0-9_]", "_", key): value for key, value in sorted(given.items())}
    return own
