# SPDX-License-Identifier: BSD-2-Clause
"""What Prometheus has of pods in a range of time: a fixed number of queries, however many pods there are.

Pods are known by their names. cAdvisor also tells their uid, so a pod of the same name in another cluster, or an
earlier one of a StatefulSet, is not mistaken for the one that is there. Exporters of devices do not.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...accelerators.catalog import catalog
from ..prometheus.current_use import recorded_since
from ..prometheus.history import (
    CONTAINER,
    CPU,
    EVALUATED,
    LABELS,
    MEMORY,
    MINUTE,
    STEP,
    known,
    known_record,
    peak_record,
    peaks,
)
from ..prometheus.prometheus_answer import Sample
from ..prometheus.prometheus_client import Prometheus
from ..prometheus.promql import CLUSTERS, GPU, POD_INFO, UTILIZATION, Queries, Source, plain_queries
from ..prometheus.promql import POD as BY_POD
from .advice_rules import ContainerUse, DevicePeak, Spread

PodName = tuple[str, str]  # namespace, name

_DAY = 86_400
# Seconds, of ranges of up to two days, of up to a week, and of longer ones: in each step, Prometheus looks at all
# series of the range.
_FINE_STEP, _STEP, _COARSE_STEP = 60, 300, 900
# cAdvisor's id is the path of a cgroup: …/kubepods-burstable-pod0f1e…_….slice/… or /kubepods/pod0f1e…-…/…
_UID = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
# What no pod has: of memory in bytes, and of CPU in cores. Whoever can be scraped can report anything.
_MOST_MEMORY, _MOST_CPU = 1e15, 1e5


@dataclass
class MeasuredPods:
    """By namespace and name. Containers are by uid as well, which is "" where the series have none. ``jobs``: what
    labels say of pods. ``clusters``: of how many there are series."""

    devices: dict[PodName, list[DevicePeak]] = field(default_factory=lambda: defaultdict(list))
    busy: dict[PodName, tuple[float, float]] = field(default_factory=dict)
    memory: dict[PodName, dict[str, ContainerUse]] = field(default_factory=dict)
    cpu: dict[PodName, dict[str, ContainerUse]] = field(default_factory=dict)
    out_of_memory: set[PodName] = field(default_factory=set)
    jobs: dict[PodName, str] = field(default_factory=dict)
    clusters: int = 1
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> set[PodName]:
        """The pods of which anything is known."""
        return {*self.devices, *self.memory, *self.cpu}


def evidence_step(seconds: float) -> int:
    """The seconds of a step. Peaks are of all samples, where series are recorded or of containers."""
    return _FINE_STEP if seconds <= 2 * _DAY else _STEP if seconds <= 7 * _DAY else _COARSE_STEP


def read_measured_pods(prometheus: Prometheus, since: float, until: float, below: float) -> MeasuredPods:
    """Asks what is recorded, and at once all other queries. Raises KubeError for what does not answer."""
    seconds, step = max(int(until - since), 1), evidence_step(until - since)
    tail = _unrecorded(prometheus, seconds, until) if step > _FINE_STEP else None
    if tail is None:
        queries = plain_queries(catalog(), recorded_since(prometheus, since))
        expressions = evidence_queries(queries, seconds, step, below)
    else:
        step, expressions = MINUTE, recorded_queries(seconds, tail, below)
    found = prometheus.query_all(expressions, until)
    notes = [f"Prometheus says: {'; '.join(prometheus.warnings)}."] if prometheus.warnings else []
    if prometheus.is_partial:  # A peak may be in what is missing.
        return MeasuredPods(notes=notes)
    answers = {name: found.get(name, []) for name in _ANSWERS}
    measured = MeasuredPods(
        memory=_containers(answers, "memory", step, _MOST_MEMORY, 1.0),
        cpu=_containers(answers, "cpu", step, _MOST_CPU, 1000.0),
        out_of_memory={_pod_of(sample) for sample in answers["out_of_memory_max"]},
        jobs={_pod_of(sample): sample.labels.get("job_name", "") for sample in answers["pods_max"]},
        clusters=max(len(answers["clusters"]), 1),
        notes=notes,
    )
    _add_devices(measured, answers, step)
    return measured


def _unrecorded(prometheus: Prometheus, seconds: int, until: float) -> int | None:
    """The seconds at the end of a range since the history was recorded last; None if peaks of the range may be missing
    in it."""
    recent = f"max_over_time({EVALUATED}[{2 * STEP}s])"
    found = prometheus.query_all(
        {"held": f"min(count_over_time(({recent})[{max(seconds - 1, 1)}s:{_STEP}s]))", "last": f"min({recent})"}, until
    )
    held, last = (next((sample.value for sample in found[name]), 0.0) for name in ("held", "last"))
    return math.ceil(min(max(until - last, 0), 2 * STEP)) + 1 if held >= (seconds - 1) // _STEP else None


def recorded_queries(seconds: int, tail: int, below: float) -> dict[str, str]:
    """The same of the recorded history, and of the last seconds, in which it is not yet: counted in minutes, and half
    and 95 percent of the time are those of the peaks of half hours."""
    queries, whole, rest = plain_queries(catalog(), Source.RULES), f"{seconds}s", f"{tail}s"
    latest = {**peaks(queries, rest), "pods": f"max by({','.join(LABELS['pods'])})(max_over_time({POD_INFO}[{rest}]))"}
    found = {
        **{f"{name}_max": _with_latest("max", peak_record(name), whole, name, text) for name, text in latest.items()},
        **{
            f"{name}_count": _with_latest("sum", known_record(name), whole, name, text)
            for name, text in known(queries, rest).items()
        },
    }
    for part, level in (("p50", 0.5), ("p95", 0.95)):
        for name in ("memory", "cpu"):
            values = f"quantile_over_time({level},{peak_record(name)}[{whole}])"
            found[f"{name}_{part}"] = f"max by({','.join(CONTAINER)})({values})"
        at_once = (
            f"sum by({','.join(BY_POD)})(last_over_time({peak_record('gpu_utilization')}[{2 * STEP}s])>=bool {below:g})"
        )
        found[f"busy_{part}"] = f"quantile_over_time({level},({at_once})[{max(seconds - 1, 1)}s:{2 * STEP}s])"
    return {**found, "clusters": CLUSTERS}


def _with_latest(operator: str, record: str, whole: str, name: str, latest: str) -> str:
    """The recorded series, together with those of the latest samples: ``or`` only adds series of other labels."""
    by = ",".join(LABELS[name])
    recorded = f"max by({by})({operator}_over_time({record}[{whole}]))"
    return f'{operator} by({by})({recorded} or label_replace({latest},"latest","1","namespace",".*"))'


def evidence_queries(queries: Queries, seconds: int, step: int, below: float) -> dict[str, str]:
    """The expressions by name. Those of devices are missing where no exporter tells utilization and memory."""
    whole = f"{max(seconds - 1, 1)}s"  # One second less: Prometheus 2 counts both ends of a range.
    over, by = f"[{whole}:{step}s]", ",".join(CONTAINER)
    # Exporters are scraped every 15 to 60 s, and not always on time.
    sizes = f"max_over_time({MEMORY}[{max(step, 2 * _FINE_STEP)}s])" if step <= _STEP else MEMORY
    labels = queries if queries.source is Source.RULES else plain_queries(catalog())
    return {
        **{f"{name}_max": text for name, text in peaks(queries, whole, min(step, _STEP)).items()},
        **_device_queries(queries, over, step, below),
        **_spread_queries("memory", f"max by({by})({sizes})>0", over),
        **_spread_queries("cpu", f"max by({by})({CPU})>=0", over),
        "pods_max": f"count by({','.join(LABELS['pods'])})(last_over_time(({labels.pod_info()}){over}))",
        "clusters": CLUSTERS,
    }


_SPREAD = ("p50", "p95", "max", "count")
_ANSWERS = (
    *("gpu_utilization_max", "gpu_memory_max", "gpu_count", "busy_p50", "busy_p95"),
    *(f"{name}_{part}" for name in ("memory", "cpu") for part in _SPREAD),
    *("out_of_memory_max", "pods_max", "clusters"),
)


def _device_queries(queries: Queries, over: str, step: int, below: float) -> dict[str, str]:
    by, text = ",".join(GPU), [queries.measured(name) for name in (UTILIZATION.name, "memory_used")]
    if not all(text):
        return {}
    if queries.source is Source.RULES and step == _STEP:
        text = [f"max_over_time({each}[{_STEP}s])" for each in text]
    busy, memory = text
    at_once = f"(sum by({','.join(BY_POD)})({busy}>=bool {below:g})){over}"
    return {
        "gpu_count": f"max by({by})(count_over_time((({busy}>=0) and on({by}) ({memory}>=0)){over}))",
        "busy_p50": f"quantile_over_time(0.5,{at_once})",
        "busy_p95": f"quantile_over_time(0.95,{at_once})",
    }


def _spread_queries(name: str, expression: str, over: str) -> dict[str, str]:
    text = f"({expression}){over}"
    return {
        f"{name}_p50": f"quantile_over_time(0.5,{text})",
        f"{name}_p95": f"quantile_over_time(0.95,{text})",
        f"{name}_count": f"count_over_time({text})",
    }


def _pod_of(sample: Sample) -> PodName:
    return sample.labels.get("namespace", ""), sample.labels.get("pod", "")


def _add_devices(measured: MeasuredPods, answers: Mapping[str, Sequence[Sample]], step: int) -> None:
    """A device of which one of the values is missing is none: a pod that holds it then has too few."""
    values = {
        name: _possible_values(answers[name], GPU, _MOST_MEMORY)
        for name in ("gpu_utilization_max", "gpu_memory_max", "gpu_count")
    }
    for device in set.intersection(*map(set, values.values())):
        peak = DevicePeak(*(values[name][device] for name in values))
        measured.devices[device[0], device[1]].append(peak._replace(seconds=peak.seconds * step))
    high = {_pod_of(sample): sample.value for sample in answers["busy_p95"]}
    for sample in answers["busy_p50"]:
        pod = _pod_of(sample)
        measured.busy[pod] = sample.value, max(high.get(pod, sample.value), sample.value)


def _containers(
    answers: Mapping[str, Sequence[Sample]], name: str, step: int, most: float, factor: float
) -> dict[PodName, dict[str, ContainerUse]]:
    """What the containers of pods used; each start of a container has a series of its own."""
    parts = {part: _possible_values(answers[f"{name}_{part}"], CONTAINER, most) for part in _SPREAD}
    found: dict[PodName, dict[str, ContainerUse]] = defaultdict(dict)
    for key, peak in parts["max"].items():
        pod, uid = (key[0], key[1]), _uid_of(key[2])
        low, high = (min(parts[part].get(key, peak), peak) * factor for part in ("p50", "p95"))
        use = ContainerUse(Spread(low, high, peak * factor), parts["count"].get(key, 0.0) * step)
        found[pod][uid] = _joined(found[pod].get(uid), use)
    return found


def _possible_values(samples: Iterable[Sample], labels: Sequence[str], most: float) -> dict[tuple[str, ...], float]:
    """By labels. What is impossible is left out: without its peak, a container or a device is not known."""
    return {
        tuple(sample.labels.get(label, "") for label in labels): sample.value
        for sample in samples
        if 0 <= sample.value <= most
    }


def _joined(one: ContainerUse | None, other: ContainerUse) -> ContainerUse:
    """That of a container that was started again: of the run that used most, and the time of both."""
    if one is None:
        return other
    return ContainerUse(max(one.used, other.used, key=lambda used: used.max), one.seconds + other.seconds)


def _uid_of(cgroup: str) -> str:
    found = _UID.search(cgroup)
    return found[1].replace("_", "-") if found else ""
