# SPDX-License-Identifier: BSD-2-Clause
"""The questions about accelerators, jobs and pods as PromQL: what recording rules record, and what modules ask. Pure.

The names of metrics and labels come from the profiles of accelerators, so that every vendor's exporter works. A series
of a pod has the labels ``namespace`` and ``pod`` of the workload. Where Prometheus scrapes without ``honorLabels``,
they are ``exported_namespace`` and ``exported_pod``, and the plain ones are those of the exporter. With it, a free
device has the exporter's own pod; so only pods that kube-state-metrics knows as those of jobs count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from ..accelerators import DEVICES, SHARES, Catalog, Profile
from ..labels import APP, JOB_TYPE, POOL, PRIORITY

JOB = ("namespace", "job_name", "pool")
POD = ("namespace", "pod")
GPU = ("namespace", "pod", "UUID", "GPU_I_ID")
DEVICE = ("UUID", "gpu", "modelName", "hostname")
TEAM = ("namespace",)

# What kube-state-metrics has to be told to tell of labels: pods=[..],nodes=[..].
POD_LABELS = (APP, JOB_TYPE, PRIORITY, POOL)
NODE_LABELS = (POOL,)

_FACTORS = {
    "percent": "/100",
    "ratio": "",
    "bytes": "",
    "MiB": "*1048576",
    "GiB": "*1073741824",
    "W": "",
    "mW": "/1000",
}


@dataclass(frozen=True)
class Measure:
    """Something that exporters measure: a metric of gpuctl's own, with one unit whatever the vendor."""

    name: str
    unit: str
    suffix: str  # the last part of the names of its recorded series
    of_job: str  # what the value of a job is made of those of its devices: avg, max, sum
    description: str

    @property
    def record(self) -> str:
        """The recorded series by pod and device."""
        return f"namespace_pod_uuid:runwhere_gpu_{self.name}:{self.suffix}"

    @property
    def device_record(self) -> str:
        """The recorded series by device, in use or not."""
        return f"uuid:runwhere_gpu_{self.name}:{self.suffix}"


MEASURES: Mapping[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("utilization", "ratio", "ratio", "avg", "Utilization, from 0 to 1"),
        Measure("tensor_activity", "ratio", "ratio", "avg", "Utilization of the tensor cores, from 0 to 1"),
        Measure("memory_used", "bytes", "bytes", "max", "Memory in use on a device"),
        Measure("memory_total", "bytes", "bytes", "max", "Memory of a device"),
        Measure("temperature", "celsius", "celsius", "max", "Temperature"),
        Measure("power", "watts", "watts", "sum", "Power that the devices draw"),
    )
}
UTILIZATION = MEASURES["utilization"]

POD_INFO = "namespace_pod:runwhere_pod:info"
JOB_UTILIZATION = "namespace_job:runwhere_gpu_utilization:avg"
ALLOCATED = "namespace_pod:runwhere_gpu_allocated:sum"
FREE = "node:runwhere_gpu_free:sum"
ALLOCATABLE = "node:runwhere_gpu_allocatable:sum"


class Source(Enum):
    """What a Prometheus has of jobs, the best first."""

    RULES = "the recorded series of the role monitoring"
    POD_LABELS = "the labels of pods, which kube-state-metrics tells"
    POD_NAMES = "only the names of pods"


@dataclass(frozen=True)
class PodSelection:
    """Which pods are meant; all by default. ``pods`` is a regular expression, ``job`` and ``namespace`` are names."""

    namespace: str = ""
    job: str = ""
    pods: str = ""

    def matchers(self, job_label: str = "") -> list[str]:
        """As matchers of a series; without a label for jobs, these are not compared."""
        found = [
            equal("namespace", self.namespace) if self.namespace else "",
            equal(job_label, self.job) if self.job and job_label else "",
            matches("pod", self.pods) if self.pods else "",
        ]
        return [matcher for matcher in found if matcher]


EVERYTHING = PodSelection()


@dataclass(frozen=True)
class Exporter:
    """A vendor's exporter: the fields of ``metrics`` of its profile."""

    name: str
    data: Mapping[str, Any]

    @property
    def port(self) -> int | None:
        found: int | None = self.data.get("port")
        return found

    def metric(self, name: str) -> str | None:
        found = self.data.get(name)
        return f"{self.data.get('prefix') or ''}{found}" if found else None

    def label(self, name: str, default: Any) -> Any:
        return (self.data.get("labels") or {}).get(name) or default

    def unit(self, name: str, default: str) -> str:
        return str((self.data.get("units") or {}).get(name) or default)

    @property
    def device_labels(self) -> Sequence[str]:
        found: Sequence[str] = self.label("device", ["UUID"])
        return found

    @property
    def partition_label(self) -> str:
        return str(self.label("partition", "GPU_I_ID"))

    def measured(self, measure: str, select: PodSelection = EVERYTHING) -> str | None:
        """A measure in its unit, with the exporter's labels; None if there is none."""
        parts = [part for part in self._parts(measure, select) if part]
        return f" or on({','.join([*self.device_labels, self.partition_label])}) ".join(parts) or None

    def normalized(self, expression: str) -> str:
        """The expression with our labels: namespace and pod of the workload, UUID and GPU_I_ID of the device."""
        for label in ("namespace", "pod"):
            source = self.label(label, label)
            expression = replaced(expression, label, f"exported_{label}" if source == label else source)
        return replaced(self._of_devices(expression), "GPU_I_ID", self.partition_label)

    def _of_devices(self, expression: str) -> str:
        if list(self.device_labels) != ["UUID"]:
            sources = ",".join(f'"{label}"' for label in self.device_labels)
            return f'label_join({expression},"UUID","/",{sources})'
        return expression

    def by_pod(self, expression: str, select: PodSelection = EVERYTHING) -> str:
        """One series for each pod and device, or partition."""
        owners = self.metric("owners")
        if not owners:
            return f"max by({','.join(GPU)})({self.normalized(expression)})"
        return (
            f"max by(UUID,GPU_I_ID)({self.normalized(expression)})"
            f"*on(UUID) group_right()(group by(namespace,pod,UUID)({self.normalized(self._of_pods(owners, select))}))"
        )

    def by_device(self, expression: str) -> str:
        """One series for each device, whoever has it."""
        text = replaced(self._of_devices(expression), "modelName", self.label("model", "modelName"))
        for label in self.label("node", ["hostname"]):
            text = replaced(text, "hostname", label)
        return f"max by({','.join(DEVICE)})({text})"

    def _parts(self, measure: str, select: PodSelection) -> Iterator[str | None]:
        if measure == "utilization":
            yield self._term("activity", "ratio", select)
            yield self._term("utilization", self.unit("utilization", "percent"), select)
        elif measure == "memory_total" and not self.metric("memory_total"):
            yield self._used_and_free(select)
        elif measure in ("memory_used", "memory_total"):
            yield self._term(measure, self.unit("memory", "bytes"), select)
        elif measure == "power":
            yield self._term(measure, self.unit("power", "W"), select)
        else:
            yield self._term(measure, "ratio", select)

    def _used_and_free(self, select: PodSelection) -> str | None:
        used, free = (
            self.measured("memory_used", select),
            self._term("memory_free", self.unit("memory", "bytes"), select),
        )
        return f"({used}+{free})" if used and free else None

    def _term(self, name: str, unit: str, select: PodSelection) -> str | None:
        metric = self.metric(name)
        if not metric:
            return None
        text = metric if self.metric("owners") else self._of_pods(metric, select)
        return f"({text}){_FACTORS[unit]}" if " or " in text else f"{text}{_FACTORS[unit]}"

    def _of_pods(self, metric: str, select: PodSelection) -> str:
        return of_pods(metric, select, self.label("namespace", "namespace"), self.label("pod", "pod"))


# HAMi measures the containers that share a device, of every vendor; exporters of vendors only measure the device. Its
# names before 2.9 are the second. "ratio" is in percent (Project-HAMi/HAMi, cmd/vGPUmonitor/metrics.go).
HAMI = (
    Exporter(
        "hami",
        {
            "port": 9394,
            "utilization": "hami_container_device_utilization_ratio",
            "memory_used": "hami_vgpu_memory_used_bytes",
            "memory_total": "hami_vgpu_memory_limit_bytes",
            "labels": {"device": ["device_uuid"]},
        },
    ),
    Exporter(
        "hami-2.8",
        {
            "port": 9394,
            "utilization": "Device_utilization_desc_of_container",
            "memory_used": "vGPU_device_memory_usage_in_bytes",
            "memory_total": "vGPU_device_memory_limit_in_bytes",
            "labels": {"namespace": "podnamespace", "pod": "podname", "device": ["deviceuuid"]},
        },
    ),
)


def exporters_of(catalog: Catalog, names: Sequence[str] = ()) -> tuple[Exporter, ...]:
    """The exporters of all profiles, or of those named; each once, although profiles are like each other."""
    chosen = [profile for profile in catalog.profiles.values() if not names or profile.name in names]
    found: dict[str, Exporter] = {}
    for profile in chosen:
        data = profile.part("metrics")
        if any(key not in ("port", "labels", "units", "prefix") for key in data):
            found.setdefault(repr(sorted(data.items())), Exporter(profile.name, data))
    return tuple(found.values())


@dataclass(frozen=True)
class ResourceNames:
    """What kube-state-metrics calls the accelerators, as regular expressions: all, and whole devices alone."""

    every: str
    whole: str
    quota_keys: str


def resources_of(catalog: Catalog, names: Sequence[str] = ()) -> ResourceNames:
    """Of all profiles, or of those named."""
    profiles = [profile for profile in catalog.profiles.values() if not names or profile.name in names]
    return ResourceNames(
        "|".join(_unique(pattern for profile in profiles for pattern in _countable(profile, _sanitized))),
        "|".join(_unique(_sanitized(profile.device.resource) for profile in profiles)),
        "|".join(_unique(rf"requests\.{pattern}" for profile in profiles for pattern in _countable(profile, _escaped))),
    )


def _countable(profile: Profile, written: Callable[[str], str]) -> Iterator[str]:
    """The resources that count devices, partitions or shares, as regular expressions."""
    yield from (written(row.resource) for row in profile.resources() if row.kind in (DEVICES, SHARES))
    if partitions := profile.part("partitions"):
        before, _place, after = partitions["resource"].partition("{partition}")
        # Regular expressions of Prometheus (RE2) have no lookarounds.
        names = ".+" if "(?" in partitions["names"] else partitions["names"]
        names = names.replace(r"\.", written("."))
        yield f"{written(before)}({names}){written(after)}"


def _escaped(name: str) -> str:
    return name.replace(".", r"\.")


def _sanitized(name: str) -> str:
    """As kube-state-metrics writes names of resources and labels: nvidia_com_gpu."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


@dataclass(frozen=True)
class Queries:
    """The expressions for one Prometheus. ``source`` says what they may build on."""

    exporters: tuple[Exporter, ...]
    resources: ResourceNames
    source: Source = Source.RULES
    shared: tuple[Exporter, ...] = HAMI
    has_pod_info: bool = False  # recorded already, whatever the source

    # What recording rules record, as a selection of it.

    def pod_info(self, select: PodSelection = EVERYTHING) -> str:
        """1 for each pod of a job, with the labels job_name, job_type, pool and priority."""
        if self.source is Source.RULES or self.has_pod_info:
            return _series(POD_INFO, select)
        names = {"job_name": APP, "job_type": JOB_TYPE, "pool": POOL, "priority": PRIORITY}
        matchers = [not_equal(_pod_label(JOB_TYPE), ""), *([equal(_pod_label(APP), select.job)] if select.job else [])]
        text = workload(of_pods(_with("kube_pod_labels", matchers), select))
        for name, key in names.items():
            text = replaced(text, name, _pod_label(key))
        return f"max by({','.join([*POD, *names])})({text})"

    def measured(self, measure: str, select: PodSelection = EVERYTHING) -> str:
        """A measure by pod and device (GPU), with the job and the pool; "" if no exporter has it."""
        if self.source is Source.RULES:
            return _series(MEASURES[measure].record, select)
        by_name = self.source is Source.POD_NAMES
        named = select if by_name else EVERYTHING
        vendors = _either(self.exporters, measure, named)
        shared = _either(self.shared, measure, named)
        # A pod that HAMi measures has only a part of its device.
        text = f"({shared}) or on(namespace,pod) ({vendors})" if shared and vendors else shared or vendors
        if not text:
            return ""
        return f"({text})" if by_name else f"({text}){self._of_jobs(select)}"

    def allocated(self, select: PodSelection = EVERYTHING) -> str:
        """The devices that each pod holds, by node and resource: from when it is bound until it ends."""
        if self.source is Source.RULES:
            return _series(ALLOCATED, select)
        by_name = self.source is Source.POD_NAMES
        named = select if by_name else EVERYTHING
        text = self._held(self.resources.every, named)
        return text if by_name else f"{text}{self._of_jobs(select)}"

    def allocatable(self, select_whole: bool = True) -> str:
        """The whole devices of each node."""
        if self.source is Source.RULES:
            return ALLOCATABLE
        resources = self.resources.whole if select_whole else self.resources.every
        metric = _with("kube_node_status_allocatable", [matches("resource", resources)])
        return f"sum by(node)({replaced(metric, 'node', 'exported_node')})"

    def free(self) -> str:
        """The whole devices of each node that no pod holds, whoever it belongs to."""
        if self.source is Source.RULES:
            return FREE
        there = self.allocatable()
        return f"{there}-(sum by(node)({self._held(self.resources.whole, EVERYTHING)}) or {there}*0)"

    def of_devices(self, measure: str) -> str:
        """A measure by device (DEVICE), in use or not; "" if no exporter has it."""
        if self.source is Source.RULES:
            return MEASURES[measure].device_record
        return " or ".join(
            exporter.by_device(text) for exporter in self.exporters if (text := exporter.measured(measure))
        )

    def of_jobs(self, measure: str, select: PodSelection = EVERYTHING) -> str:
        """A measure by job (JOB)."""
        if self.source is Source.RULES and measure == UTILIZATION.name:
            return _series(JOB_UTILIZATION, select)
        return self.aggregated(measure, JOB, select)

    # What is asked.

    def aggregated(self, measure: str, by: Sequence[str], select: PodSelection = EVERYTHING) -> str:
        """A measure by job, pod, device or whatever labels; "" if no exporter has it."""
        text = self.measured(measure, select)
        if not text or tuple(by) == GPU:
            return text
        return f"{MEASURES[measure].of_job} by({','.join(by)})({text})"

    def gpu_hours(
        self, seconds: int, by: Sequence[str] = JOB, select: PodSelection = EVERYTHING, step: int = 60
    ) -> str:
        """The hours that devices were held in the seconds before the time of the query."""
        return _hours(by, f"sum_over_time({_range(self.allocated(select), seconds, step)})", step)

    def measured_hours(
        self, seconds: int, by: Sequence[str] = JOB, select: PodSelection = EVERYTHING, step: int = 60
    ) -> str:
        """The hours of held devices for which an exporter told the utilization."""
        text = self.measured(UTILIZATION.name, select)
        return _hours(by, f"count_over_time({_range(text, seconds, step)})", step)

    def idle_hours(
        self, seconds: int, below: float, by: Sequence[str] = JOB, select: PodSelection = EVERYTHING, step: int = 60
    ) -> str:
        """The hours of held devices whose utilization was below a ratio. Jobs without any are missing."""
        text = f"({self.measured(UTILIZATION.name, select)}<{below:g})"
        return _hours(by, f"count_over_time({_range(text, seconds, step)})", step)

    def peak(
        self, measure: str, seconds: int, by: Sequence[str] = JOB, select: PodSelection = EVERYTHING, step: int = 60
    ) -> str:
        """The highest value on any device."""
        return _over("max", measure, self.measured(measure, select), seconds, by, step)

    def mean(
        self, measure: str, seconds: int, by: Sequence[str] = JOB, select: PodSelection = EVERYTHING, step: int = 60
    ) -> str:
        """The mean over time and devices; of tensor_activity, how efficient a job was."""
        return _over("avg", measure, self.measured(measure, select), seconds, by, step)

    def energy_kwh(
        self, seconds: int, by: Sequence[str] = JOB, select: PodSelection = EVERYTHING, step: int = 60
    ) -> str:
        """The energy of held devices."""
        watts = _range(self.measured("power", select), seconds, step)
        return f"{_hours(by, f'sum_over_time({watts})', step)}/1000"

    def queue_wait(self, select: PodSelection = EVERYTHING) -> str:
        """The seconds until the last pod of a job was bound to a node."""
        created, bound = (workload(name) for name in ("kube_pod_created", "kube_pod_status_scheduled_time"))
        waited = f"(max by(namespace,pod)({bound})-max by(namespace,pod)({created}))"
        return f"max by({','.join(JOB)})({waited}{self._of_jobs(select)})"

    def fragmentation(self, size: int = 8) -> str:
        """Which part of the free devices is on nodes that have less of them free than a job of ``size`` needs."""
        free = f"({self.free()})"
        return f"1-sum({free}>={size} or {free}*0)/sum({free})"

    def network(
        self, direction: str, by: Sequence[str] = JOB, select: PodSelection = EVERYTHING, seconds: int = 300
    ) -> str:
        """Bytes per second: ``receive`` or ``transmit``. What goes over RDMA is missing: nothing tells it by pod."""
        by_name = self.source is Source.POD_NAMES
        selected = _alternatives(f"container_network_{direction}_bytes_total", select if by_name else EVERYTHING)
        rates = " or ".join(f"rate({text}[{seconds}s])" for text in selected)
        per_pod = f"sum by(namespace,pod)({workload(rates)})"
        return f"sum by({','.join(by)})({per_pod}{'' if by_name else self._of_jobs(select)})"

    def errors(self, window: str = "10m") -> str:
        """The code of an error that has appeared on a device since; 0 is none."""
        # The series of a device changes with its pod, so the change is sought in what is aggregated by device.
        codes = self._by_device("error_code")
        return f"({codes})!=0 and changes(({codes})[{window}:30s])>0" if codes else ""

    def error_counts(self, window: str = "10m") -> str:
        """How many errors that cannot be corrected were added on a device."""
        counts = self._by_device("error_count")
        return f"increase(({counts})[{window}:30s])>0" if counts else ""

    def unhealthy(self) -> str:
        """0 for devices that their exporter calls unhealthy."""
        health = self._by_device("health")
        return f"({health})!=1" if health else ""

    def pods(self, metric: str, select: PodSelection = EVERYTHING) -> str:
        """A metric of kube-state-metrics about pods, with job_name and pool."""
        return f"max by(namespace,pod)({workload(metric)}){self._of_jobs(select)}"

    def quota_used(self) -> str:
        """Which part of its quota of accelerators a namespace has used."""
        metric = "kube_resourcequota"
        resource = matches("resource", self.resources.quota_keys)
        used, hard = (
            f"max by(namespace,resourcequota,resource)({workload(_with(metric, [resource, equal('type', kind)]))})"
            for kind in ("used", "hard")
        )
        return f"{used}/({hard}>0)"

    def lost_nodes(self) -> str:
        """0 for nodes with accelerators or in pools that are not ready, with the pool where it is known."""
        conditions = _with("kube_node_status_condition", [equal("condition", "Ready"), equal("status", "true")])
        ready = f"max by(node)({replaced(conditions, 'node', 'exported_node')})"
        return f"({ready}==0)*on(node) group_left(pool)({self.node_info()})"

    def node_info(self) -> str:
        """1 for each node with accelerators or in a pool, with the label pool where it is known."""
        label = _pod_label(POOL)
        labels = replaced(_with("kube_node_labels", [not_equal(label, "")]), "node", "exported_node")
        plain = Queries(self.exporters, self.resources, Source.POD_LABELS)
        return (
            f"group by(node,pool)({replaced(labels, 'pool', label)}) "
            f"or on(node) group by(node)({plain.allocatable(select_whole=False)}>0)"
        )

    def _by_device(self, name: str) -> str:
        return " or ".join(
            exporter.by_device(metric) for exporter in self.exporters if (metric := exporter.metric(name))
        )

    def _of_jobs(self, select: PodSelection) -> str:
        return f"*on(namespace,pod) group_left(job_name,pool){self.pod_info(select)}"

    def _held(self, resources: str, select: PodSelection) -> str:
        """Bound and not ended: what counts against the node. Requests of ended pods stay in kube-state-metrics."""
        requests = _with(
            "kube_pod_container_resource_requests", [matches("resource", resources), not_equal("node", "")]
        )
        phases = _with("kube_pod_status_phase", [matches("phase", "Pending|Running")])
        requested = replaced(workload(of_pods(requests, select)), "node", "exported_node")
        return (
            f"sum by(namespace,pod,node,resource)({requested})"
            f"*on(namespace,pod) group_left()(max by(namespace,pod)({workload(of_pods(phases, select))})==1)"
        )

    @cached_property
    def has(self) -> frozenset[str]:
        """The measures that any exporter has."""
        everyone = (*self.shared, *self.exporters)
        return frozenset(name for name in MEASURES if any(exporter.measured(name) for exporter in everyone))


def plain_queries(catalog: Catalog, source: Source = Source.POD_LABELS, names: Sequence[str] = ()) -> Queries:
    """The expressions for the profiles in use."""
    return Queries(exporters_of(catalog, names), resources_of(catalog, names), source)


def promql_string(text: str) -> str:
    """A string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def equal(label: str, value: str) -> str:
    return f"{label}={promql_string(value)}"


def not_equal(label: str, value: str) -> str:
    return f"{label}!={promql_string(value)}"


def matches(label: str, pattern: str) -> str:
    """The whole value has to match."""
    return f"{label}=~{promql_string(pattern)}"


def replaced(expression: str, label: str, source: str) -> str:
    """The expression with a label that has the value of another one, where that is not empty."""
    return expression if source == label else f'label_replace({expression},"{label}","$1","{source}","(.+)")'


def workload(expression: str) -> str:
    """The series with namespace and pod of the workload, however they were scraped."""
    return replaced(replaced(expression, "pod", "exported_pod"), "namespace", "exported_namespace")


def of_pods(metric: str, select: PodSelection, namespace: str = "namespace", pod: str = "pod") -> str:
    """The series of selected pods, under both names that a label can have. The job is not looked at."""
    return " or ".join(_alternatives(metric, select, namespace, pod))


def _alternatives(metric: str, select: PodSelection, namespace: str = "namespace", pod: str = "pod") -> list[str]:
    if not select.namespace and not select.pods:
        return [metric]
    name, _brace, inner = metric.partition("{")
    given = [inner.removesuffix("}")] if inner else []
    found = []
    for renamed in (True, False):
        matchers = list(given)
        for label, source, text in (("namespace", namespace, select.namespace), ("pod", pod, select.pods)):
            is_ours = source == label
            if text:
                matcher = equal if label == "namespace" else matches
                matchers.append(matcher(f"exported_{label}" if renamed and is_ours else source, text))
            if is_ours and not renamed:
                matchers.append(equal(f"exported_{label}", ""))
        found.append(_with(name, matchers))
    return _unique(found)


def _pod_label(key: str) -> str:
    """The label of kube_pod_labels for a label of pods."""
    return f"label_{_sanitized(key)}"


def _with(metric: str, matchers: Iterable[str]) -> str:
    found = ",".join(matcher for matcher in matchers if matcher)
    return f"{metric}{{{found}}}" if found else metric


def _series(name: str, select: PodSelection) -> str:
    return _with(name, select.matchers("job_name"))


def _either(exporters: Iterable[Exporter], measure: str, select: PodSelection) -> str:
    found = [exporter.by_pod(text, select) for exporter in exporters if (text := exporter.measured(measure, select))]
    return f" or on({','.join(GPU)}) ".join(found)


def _range(expression: str, seconds: int, step: int) -> str:
    """The last seconds in steps. One second less: Prometheus 2 counts both ends of a range, 3 only the later one."""
    return f"({expression})[{max(seconds - 1, 1)}s:{step}s]"


def _hours(by: Sequence[str], expression: str, step: int) -> str:
    return f"sum by({','.join(by)})({expression})*{step}/3600"


def _over(function: str, measure: str, expression: str, seconds: int, by: Sequence[str], step: int) -> str:
    if not expression:
        return ""
    return f"{function} by({','.join(by)})({function}_over_time({_range(expression, seconds, step)}))"
