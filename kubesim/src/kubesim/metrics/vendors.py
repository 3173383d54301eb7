# SPDX-License-Identifier: BSD-2-Clause
"""The exporters of vendors other than NVIDIA, of one node.

Source: ROCm/device-metrics-exporter docs/configuration/metricslist.md; Ascend/mind-cluster component/npu-exporter;
Cambricon/mlu-exporter examples/metrics.yaml; docs.habana.ai (Prometheus Metric Exporter); Project-HAMi/HAMi
cmd/vGPUmonitor/metrics.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from .devices import AMD, ASCEND, CAMBRICON, GAUDI, NVIDIA, Holder
from .exposition import COUNTER, GAUGE, Descriptions, Sample
from .readings import DeviceReading

Options = Mapping[str, str]
Measure = Callable[[DeviceReading, float], float]
Metrics = Mapping[str, tuple[str, str, Measure]]
MEBIBYTE = 1048576

_AMD: Metrics = {
    "gpu_gfx_activity": (GAUGE, "Graphics engine usage percentage (0 - 100)", lambda r, t: r.utilization(t)),
    "gpu_junction_temperature": (GAUGE, "Current hotspot temperature in Celsius", lambda r, t: r.temperature(t)),
    "gpu_package_power": (GAUGE, "Current socket power in Watts", lambda r, t: r.power(t)),
    "gpu_energy_consumed": (COUNTER, "Accumulated energy consumed by the GPU in uJ", lambda r, t: 1e6 * r.joules(t)),
    "gpu_total_vram": (GAUGE, "Total VRAM available in MB", lambda r, t: r.device.memory),
    "gpu_used_vram": (GAUGE, "Total VRAM memory used in MB", lambda r, t: r.memory(t)),
    "gpu_free_vram": (GAUGE, "Total VRAM memory free in MB", lambda r, t: r.device.memory - r.memory(t)),
    "gpu_ecc_uncorrect_total": (GAUGE, "Total Uncorrectable error count", lambda r, t: 0.0),
}
_ASCEND: Metrics = {
    "npu_chip_info_utilization": (GAUGE, "the ai core utilization", lambda r, t: r.utilization(t)),
    "npu_chip_info_temperature": (GAUGE, "the npu temperature", lambda r, t: r.temperature(t)),
    "npu_chip_info_power": (GAUGE, "the npu power", lambda r, t: r.power(t)),
    "npu_chip_info_hbm_used_memory": (GAUGE, "the npu hbm used memory", lambda r, t: r.memory(t)),
    "npu_chip_info_hbm_total_memory": (GAUGE, "the npu hbm total memory", lambda r, t: r.device.memory),
    "npu_chip_info_health_status": (GAUGE, "the npu health status", lambda r, t: 1.0),
    "npu_chip_info_error_code": (GAUGE, "the npu error code", lambda r, t: 0.0),
}
_GAUDI: Metrics = {
    "habanalabs_utilization": (GAUGE, "Utilization of the device in percent", lambda r, t: r.utilization(t)),
    "habanalabs_memory_used_bytes": (GAUGE, "Memory in use", lambda r, t: MEBIBYTE * r.memory(t)),
    "habanalabs_memory_free_bytes": (
        GAUGE,
        "Memory that is free",
        lambda r, t: MEBIBYTE * (r.device.memory - r.memory(t)),
    ),
    "habanalabs_memory_total_bytes": (GAUGE, "Memory of the device", lambda r, t: MEBIBYTE * r.device.memory),
    "habanalabs_power_mW": (GAUGE, "Power draw in milliwatts", lambda r, t: 1000 * r.power(t)),
    "habanalabs_temperature_onchip": (GAUGE, "Temperature of the chip in Celsius", lambda r, t: r.temperature(t)),
}
_CAMBRICON: Metrics = {
    "mlu_utilization": (GAUGE, "The utilization of MLU, unit is '%'", lambda r, t: r.utilization(t)),
    "mlu_temperature": (GAUGE, "The temperature of MLU, unit is '℃'", lambda r, t: r.temperature(t)),
    "mlu_power_usage": (GAUGE, "The power usage of MLU, unit is 'W'", lambda r, t: r.power(t)),
    "mlu_memory_used": (GAUGE, "The used physical memory of MLU, unit is 'B'", lambda r, t: MEBIBYTE * r.memory(t)),
    "mlu_memory_total": (
        GAUGE,
        "The total physical memory of MLU, unit is 'B'",
        lambda r, t: MEBIBYTE * r.device.memory,
    ),
    "mlu_tensor_util": (GAUGE, "The utilization of tensor cores, unit is '%'", lambda r, t: r.tensor(t)),
}
_MLU_CONTAINER = "mlu_container"
_HAMI: Metrics = {
    "hami_vgpu_memory_used_bytes": (
        GAUGE,
        "vGPU device memory usage in bytes",
        lambda r, t: MEBIBYTE * r.memory(t) / max(1, len(r.holders)),
    ),
    "hami_vgpu_memory_limit_bytes": (
        GAUGE,
        "vGPU device memory limit in bytes",
        lambda r, t: MEBIBYTE * r.device.memory / r.device.shares,
    ),
    "hami_container_device_utilization_ratio": (
        GAUGE,
        "Container device SM utilization ratio",
        lambda r, t: r.utilization(t) / max(1, len(r.holders)),
    ),
    "hami_container_last_kernel_elapsed_seconds": (
        GAUGE,
        "Seconds since last kernel execution in container",
        lambda r, t: 0.0 if r.utilization(t) else max(0.0, t - r.since),
    ),
}
DESCRIPTIONS: Descriptions = {
    **{name: each[:2] for metrics in (_AMD, _ASCEND, _GAUDI, _CAMBRICON, _HAMI) for name, each in metrics.items()},
    _MLU_CONTAINER: (GAUGE, "The container that uses the MLU"),
}


def amd(readings: Iterable[DeviceReading], options: Options) -> Iterator[Sample]:
    """`options`: prefix of all names, as its configuration has one; pods: false where it finds no pods."""
    for reading in _of(readings, AMD):
        device = reading.device
        labels = {
            "card_model": "102-G30211-0C",
            "card_series": device.model.replace("_", " "),
            "card_vendor": "AMD",
            "cluster_name": "",
            "driver_version": "6.12.12",
            "gpu_compute_partition_type": "spx",
            "gpu_id": str(device.index),
            "gpu_memory_partition_type": "nps1",
            "gpu_partition_id": "0",
            "gpu_uuid": device.uuid,
            "hostname": device.node,
            "serial_number": f"69240900{5408 + device.index}",
            **_workload(reading, ("namespace", "pod", "container"), options),
        }
        yield from _samples(_AMD, labels, reading, options.get("prefix", ""))


def npu(readings: Iterable[DeviceReading], options: Options) -> Iterator[Sample]:
    for reading in _of(readings, ASCEND):
        device = reading.device
        workload = _workload(reading, ("namespace", "pod_name", "container_name"), options)
        chip = {
            "id": str(device.index),
            "model_name": device.model,
            "pcie_bus_info": device.bus,
            "vdie_id": device.uuid,
        }
        yield from _samples(_ASCEND, chip | workload, reading)


def gaudi(readings: Iterable[DeviceReading], options: Options) -> Iterator[Sample]:
    for reading in _of(readings, GAUDI):
        device = reading.device
        labels = {"UUID": device.uuid, "device": f"accel{device.index}", "model": device.model}
        yield from _samples(_GAUDI, labels | _workload(reading, ("namespace", "pod", "container"), options), reading)


def mlu(readings: Iterable[DeviceReading], options: Options) -> Iterator[Sample]:
    for reading in _of(readings, CAMBRICON):
        device = reading.device
        labels = {"mlu": str(device.index), "model": device.model, "node": device.node, "uuid": device.uuid}
        yield from _samples(_CAMBRICON, labels, reading)
        if reading.holders:
            yield Sample(_MLU_CONTAINER, labels | _workload(reading, ("namespace", "pod", "container"), options))


def hami(readings: Iterable[DeviceReading], options: Options) -> Iterator[Sample]:
    """vGPUmonitor: a series for each container, so that those that share a device can be distinguished."""
    for reading in _of(readings, NVIDIA):
        device = reading.device
        if not device.hami:
            continue
        for holder in reading.holders:
            own = _names(holder, ("namespace", "pod", "container"))
            labels = own | {"vdevice_index": "0", "device_uuid": device.uuid}
            yield from _samples(_HAMI, labels, reading)


def _of(readings: Iterable[DeviceReading], vendor: str) -> Iterator[DeviceReading]:
    return (reading for reading in readings if reading.device.vendor == vendor)


def _samples(metrics: Metrics, labels: Mapping[str, str], reading: DeviceReading, prefix: str = "") -> Iterator[Sample]:
    for name, (_, _, measure) in metrics.items():
        yield Sample(prefix + name, labels, _bound(measure, reading))


def _bound(measure: Measure, reading: DeviceReading) -> Callable[[float], float]:
    return lambda moment: measure(reading, moment)


def _workload(reading: DeviceReading, names: tuple[str, str, str], options: Options) -> dict[str, str]:
    if not reading.holders or options.get("pods") == "false":
        return dict.fromkeys(names, "")
    return _names(reading.holders[-1], names)


def _names(holder: Holder, names: tuple[str, str, str]) -> dict[str, str]:
    metadata = holder.pod["metadata"]
    return dict(zip(names, (metadata["namespace"], metadata["name"], holder.container), strict=True))
