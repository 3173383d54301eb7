# SPDX-License-Identifier: BSD-2-Clause
"""What cAdvisor in the kubelet shows of pods, and what programs in pods show of themselves.

Source: google/cadvisor metrics/prometheus.go; vllm-project/vllm vllm/v1/metrics/loggers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from .exposition import COUNTER, GAUGE, Descriptions, Sample
from .readings import PodReading

CADVISOR: Descriptions = {
    "container_cpu_usage_seconds_total": (COUNTER, "Cumulative cpu time consumed in seconds."),
    "container_memory_working_set_bytes": (GAUGE, "Current working set in bytes."),
    "container_network_receive_bytes_total": (COUNTER, "Cumulative count of bytes received"),
    "container_network_transmit_bytes_total": (COUNTER, "Cumulative count of bytes transmitted"),
}
_VLLM: Descriptions = {
    "vllm:num_requests_running": (GAUGE, "Number of requests in model execution batches."),
    "vllm:num_requests_waiting": (GAUGE, "Number of requests waiting to be processed."),
    "vllm:prompt_tokens_total": (COUNTER, "Number of prefill tokens processed."),
    "vllm:generation_tokens_total": (COUNTER, "Number of generation tokens processed."),
}
#: For each percent of utilization: tokens a second, and requests at once.
_TOKENS, _PROMPT, _REQUESTS = 25.0, 60.0, 0.4


def cadvisor(readings: Iterable[PodReading]) -> Iterator[Sample]:
    """The network is that of the pod as a whole: without the label `container`, of the sandbox."""
    for reading in readings:
        metadata = reading.pod["metadata"]
        own = {"namespace": metadata["namespace"], "pod": metadata["name"]}
        slices = f"/kubepods.slice/kubepods-pod{metadata['uid'].replace('-', '_')}.slice"
        pause = {"id": slices, "image": "registry.k8s.io/pause:3.10", "interface": "eth0", "name": metadata["uid"]}
        for direction in ("receive", "transmit"):
            name = f"container_network_{direction}_bytes_total"
            yield Sample(name, {**pause, **own}, _bytes(reading, direction))
        for container in reading.pod["spec"]["containers"]:
            labels = {"container": container["name"], "id": slices, "image": container.get("image", ""), **own}
            yield Sample("container_cpu_usage_seconds_total", labels, _seconds(reading))
            yield Sample("container_memory_working_set_bytes", labels, 8.0 * 1024**3)


def _bytes(reading: PodReading, direction: str) -> Callable[[float], float]:
    return lambda moment: float(int(reading.bytes(direction, moment)))


def _seconds(reading: PodReading) -> Callable[[float], float]:
    return lambda moment: round(moment - reading.started, 3)


def has_program(reading: PodReading) -> bool:
    """Whether its program serves metrics: as a rule says, or because it is vLLM."""
    return bool(reading.load.program) or _is_vllm(reading)


def program(reading: PodReading) -> tuple[Descriptions, list[Sample]]:
    descriptions: dict[str, tuple[str, str]] = {}
    found: list[Sample] = []
    if _is_vllm(reading):
        descriptions |= _VLLM
        labels = {"engine": "0", "model_name": "model"}
        found += [
            Sample("vllm:num_requests_running", labels, lambda t: reading.utilization(t) * _REQUESTS),
            Sample("vllm:num_requests_waiting", labels, 0.0),
            Sample("vllm:prompt_tokens_total", labels, lambda t: reading.busy(t) * _PROMPT),
            Sample("vllm:generation_tokens_total", labels, lambda t: reading.busy(t) * _TOKENS),
        ]
    for name in reading.load.program:
        found = [sample for sample in found if sample.name != name]
        descriptions.setdefault(name, (COUNTER if name.endswith("_total") else GAUGE, "A metric of the program."))
        labels = {"engine": "0", "model_name": "model"} if name.startswith("vllm:") else {}
        found.append(Sample(name, labels, _value(reading, name)))
    return descriptions, found


def _value(reading: PodReading, name: str) -> Callable[[float], float]:
    return lambda moment: reading.program(name, moment)


def _is_vllm(reading: PodReading) -> bool:
    return any("vllm" in container.get("image", "") for container in reading.pod["spec"]["containers"])
