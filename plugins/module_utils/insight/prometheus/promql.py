# SPDX-License-Identifier: BSD-2-Clause
"""The questions about accelerators, jobs and pods as PromQL: what recording rules record, and what modules ask. Pure.

The names of metrics and labels come from the profiles of accelerators, so that every vendor's exporter works. A series
of a pod has the labels ``namespace`` and ``pod`` of the workload. Where Prometheus scrapes without ``honorLabels``,
they are ``exported_namespace`` and ``exported_pod``, and the plain ones are those of the exporter. With it, a free
device has the exporter's own pod; so only pods that kube-state-metrics knows as those of jobs count.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from ...accelerators.catalog import DEVICES, SHARES, Catalog, ExportedSeries, Exporter, Profile
from ...labels import APP, JOB_TYPE, POOL, PRIORITY
from .label_matchers import pattern_of, promql_string

JOB = ("namespace", "job_name", "pool")
POD = ("namespace", "pod")
GPU = ("namespace", "pod", "UUID", "GPU_I_ID")
DEVICE = ("UUID", "gpu", "modelName", "hostname")
TEAM = ("namespace",)

# The labels that kube-state-metrics has to export (--metric-labels-allowlist): pods=[..],nodes=[..].
POD_LABELS = (APP, JOB_TYPE, PRIORITY, POOL)
NODE_LABELS = (POOL,)


@dataclass(frozen=True)
class Measure:
    """Something that exporters measure: a metric of gpuctl's own, with one unit whatever the vendor."""

    name: str
    unit: str
    suffix: str  # the last part of the names of its recorded series
    of_job: str  # what the value of a job is made of those of its devices: avg, max, sum

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
        Measure("utilization", "ratio", "ratio", "avg"),
        Measure("tensor_activity", "ratio", "ratio", "avg"),
        Measure("memory_used", "bytes", "bytes", "max"),
        Measure("memory_total", "bytes", "bytes", "max"),
        Measure("temperature", "celsius", "celsius", "max"),
        Measure("power", "watts", "watts", "sum"),
    )
}
UTILIZATION = MEASURES["utilization"]

POD_INFO = "namespace_pod:runwhere_pod:info"
JOB_UTILIZATION = "namespace_job:runwhere_gpu_utilization:avg"
ALLOCATED = "namespace_pod:runwhere_gpu_allocated:sum"
FREE = "node:runwhere_gpu_free:sum"
ALLOCATABLE = "node:runwhere_gpu_allocatable:sum"

# A Prometheus of several clusters has the label of the cluster: by convention, as an external label of each.
_OF_CLUSTERS = f'{{__name__=~"kube_node_info|kube_pod_info|{UTILIZATION.record}",cluster!=""}}'
CLUSTERS = f"count by(cluster)({_OF_CLUSTERS})"
SEVERAL_CLUSTERS = (
    "Prometheus has series of several clusters (label cluster), and pods of each may have the same names. Name one of "
    "this cluster alone, or its O(prometheus_tenant)"
)


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
class ExporterSeries:
    """The series of an exporter, which a profile describes. ``jobs``: of which scrape jobs, as a regular expression."""

    exporter: Exporter
    jobs: str = ""

    def measured(self, measure: str, select: PodSelection = EVERYTHING) -> str | None:
        """A measure in its unit, with the exporter's labels; None if there is none."""
        terms = [self._term(series, select) for series in self._measure_series(measure)]
        if not terms and measure == "memory_total":
            used, free = (self.measured(name, select) for name in ("memory_used", "memory_free"))
            terms = [f"({used}+{free})"] if used and free else []
        labels = [*self.exporter.labels.get("device", ()), *self.exporter.labels.get("partition", ())]
        return f" or on({','.join(labels)}) ".join(terms) or None

    def normalized(self, expression: str) -> str:
        """The expression with our labels: namespace and pod of the workload, UUID and GPU_I_ID of the device."""
        for label in ("namespace", "pod"):
            sources = [f"exported_{label}" if name == label else name for name in self._workload_labels(label)]
            expression = self._first_label(expression, label, sources)
        return self._first_label(self._of_devices(expression), "GPU_I_ID", self.exporter.labels.get("partition", ()))

    def by_pod(self, expression: str, select: PodSelection = EVERYTHING) -> str:
        """One series for each pod and device, or partition."""
        if not self.exporter.owner:
            return f"max by({','.join(GPU)})({self.normalized(expression)})"
        owner = scraped_by(self.jobs, self.exporter.owner)
        return (
            # This exporter measures devices, and its owner metric says which pods have them: group_right, since several
            # pods can have one device. The value of group() is 1, so the product is the measured value.
            f"max by(UUID,GPU_I_ID)({self.normalized(expression)})"
            f"*on(UUID) group_right()(group by(namespace,pod,UUID)({self.normalized(self._of_pods(owner, select))}))"
        )

    def by_device(self, expression: str) -> str:
        """One series for each device, in use or not."""
        text = self._of_devices(expression)
        for label, said in (("gpu", "index"), ("modelName", "model"), ("hostname", "node")):
            text = self._first_label(text, label, self.exporter.labels.get(said, ()))
        return f"max by({','.join(DEVICE)})({text})"

    def errors(self, means: str) -> Iterator[str]:
        """The metrics of errors whose value means a ``count``, a ``code`` or ``healthy``."""
        yield from (self._selected(each) for each in self.exporter.series("errors") if each.means == means)

    def _selected(self, series: ExportedSeries) -> str:
        return scraped_by(
            self.jobs, _selector(series.name, [equal(label, value) for label, value in series.where.items()])
        )

    def _measure_series(self, measure: str) -> Sequence[ExportedSeries]:
        return self.exporter.series(_QUANTITIES.get(measure, measure))

    def _workload_labels(self, label: str) -> Sequence[str]:
        """Where the namespace and the pod of the workload are."""
        return self.exporter.labels.get(label) or (label,)

    def _of_devices(self, expression: str) -> str:
        labels = self.exporter.labels
        *others, last = labels.get("device", ("UUID",))
        if last in labels.get("index", ()):  # A number, which the devices of other nodes have as well.
            sources = ",".join(f'"{label}"' for label in (*labels.get("node", ("instance",)), last))
            return self._first_label(f'label_join({expression},"UUID","/",{sources})', "UUID", others)
        return self._first_label(expression, "UUID", [*others, last])

    def _first_label(self, expression: str, label: str, sources: Sequence[str]) -> str:
        """The expression with a label that has the value of the first of others that is not empty."""
        for source in reversed(sources):
            expression = replaced(expression, label, source)
        return expression

    def _term(self, series: ExportedSeries, select: PodSelection) -> str:
        metric = self._selected(series)
        text = metric if self.exporter.owner else self._of_pods(metric, select)
        return f"({text}){_times(series.factor)}" if " or " in text else f"{text}{_times(series.factor)}"

    def _of_pods(self, metric: str, select: PodSelection) -> str:
        namespaces, pods = self._workload_labels("namespace"), self._workload_labels("pod")
        last = (namespaces[-1], pods[-1])
        pairs = [(namespace or last[0], pod or last[1]) for namespace, pod in itertools.zip_longest(namespaces, pods)]
        return " or ".join(_unique(of_pods(metric, select, *pair) for pair in pairs))


_QUANTITIES = {"tensor_activity": "efficiency"}


def _times(factor: float) -> str:
    if factor == 1:
        return ""
    return f"*{factor:.0f}" if factor > 1 else f"/{1 / factor:.0f}"


def exporters_of(catalog: Catalog, names: Sequence[str] = (), jobs: str = "") -> tuple[ExporterSeries, ...]:
    """The exporters of all profiles, or of those named; each once, although profiles are like each other."""
    chosen = [profile for profile in catalog.profiles.values() if not names or profile.name in names]
    found: dict[str, ExporterSeries] = {}
    for exporter in (exporter for profile in chosen for exporter in profile.exporters if exporter.quantities):
        found.setdefault(repr((exporter.labels, exporter.quantities)), ExporterSeries(exporter, jobs))
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
        "|".join(_unique(pattern for profile in profiles for pattern in _countable_resources(profile, sanitized))),
        "|".join(_unique(sanitized(profile.device.resource) for profile in profiles)),
        "|".join(
            _unique(
                rf"requests\.{pattern}" for profile in profiles for pattern in _countable_resources(profile, _escaped)
            )
        ),
    )


def _countable_resources(profile: Profile, written: Callable[[str], str]) -> Iterator[str]:
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


def sanitized(name: str) -> str:
    """As kube-state-metrics writes names of resources and labels: nvidia_com_gpu."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


@dataclass(frozen=True)
class Queries:
    """The expressions for one Prometheus. ``source`` says what they may build on, ``state_jobs`` which scrape jobs are
    those of kube-state-metrics, as a regular expression."""

    exporters: tuple[ExporterSeries, ...]
    resources: ResourceNames
    source: Source = Source.RULES
    state_jobs: str = ""
    has_pod_info: bool = False  # recorded already, whatever the source

    # What recording rules record, as a selection of it.

    def pod_info(self, select: PodSelection = EVERYTHING) -> str:
        """1 for each pod of a job, with the labels job_name, job_type, pool and priority."""
        if self.source is Source.RULES or self.has_pod_info:
            return _measure_series(POD_INFO, select)
        names = {"job_name": APP, "job_type": JOB_TYPE, "pool": POOL, "priority": PRIORITY}
        # In PromQL a missing label equals "", so != "" keeps the pods that have it: those of jobs.
        matchers = [not_equal(_pod_label(JOB_TYPE), ""), *([equal(_pod_label(APP), select.job)] if select.job else [])]
        text = workload(of_pods(self._state_series("kube_pod_labels", matchers), select))
        for name, key in names.items():
            text = replaced(text, name, _pod_label(key))
        return f"max by({','.join([*POD, *names])})({text})"

    def measured(self, measure: str, select: PodSelection = EVERYTHING) -> str:
        """A measure by pod and device (GPU), with the job and the pool; "" if no exporter has it."""
        if self.source is Source.RULES:
            return _measure_series(MEASURES[measure].record, select)
        by_name = self.source is Source.POD_NAMES
        named = select if by_name else EVERYTHING
        vendors, shared = (
            _first_exporter(exporters, measure, named) for exporters in (self._device_exporters, self._shared)
        )
        # A pod that the exporter of shares measures has only a part of its device.
        text = f"({shared}) or on(namespace,pod) ({vendors})" if shared and vendors else shared or vendors
        if not text:
            return ""
        return f"({text})" if by_name else f"({text}){self._of_jobs(select)}"

    def allocated(self, select: PodSelection = EVERYTHING) -> str:
        """The devices that each pod holds, by node and resource: from when it is bound until it ends."""
        if self.source is Source.RULES:
            return _measure_series(ALLOCATED, select)
        by_name = self.source is Source.POD_NAMES
        named = select if by_name else EVERYTHING
        text = self._held_devices(self.resources.every, named)
        return text if by_name else f"{text}{self._of_jobs(select)}"

    def allocatable(self, select_whole: bool = True) -> str:
        """The whole devices of each node."""
        if self.source is Source.RULES:
            return ALLOCATABLE
        resources = self.resources.whole if select_whole else self.resources.every
        metric = self._state_series("kube_node_status_allocatable", [matches("resource", resources)])
        return f"sum by(node)({replaced(metric, 'node', 'exported_node')})"

    def free(self) -> str:
        """The whole devices of each node that no pod holds, managed by us or not."""
        if self.source is Source.RULES:
            return FREE
        # A node on which no pod holds a device has nothing to subtract and would drop out: the `or` gives it a 0.
        there = self.allocatable()
        return f"{there}-(sum by(node)({self._held_devices(self.resources.whole, EVERYTHING)}) or {there}*0)"

    def of_devices(self, measure: str) -> str:
        """A measure by device (DEVICE), in use or not; "" if no exporter has it."""
        if self.source is Source.RULES:
            return MEASURES[measure].device_record
        return " or ".join(
            exporter.by_device(text) for exporter in self._device_exporters if (text := exporter.measured(measure))
        )

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
        return _summed_hours(by, f"sum_over_time({_subquery_range(self.allocated(select), seconds, step)})", step)

    def queued_hours(self, seconds: int, by: Sequence[str] = JOB, step: int = 60) -> str:
        """The hours that pods without a node waited for devices in the seconds before the time of the query."""
        names = matches("resource", self.resources.every)
        metric = "kube_pod_container_resource_requests"
        waiting, bound = (
            self._state_series(metric, [names, place]) for place in (equal("node", ""), not_equal("node", ""))
        )
        pending = self._state_series("kube_pod_status_phase", [equal("phase", "Pending")])
        text = (
            f"(sum by(namespace,pod)({workload(waiting)})"
            f"*on(namespace,pod)(max by(namespace,pod)({workload(pending)})==1)"
            f" unless on(namespace,pod)({workload(bound)})){self._of_jobs(EVERYTHING)}"
        )
        return _summed_hours(by, f"sum_over_time({_subquery_range(text, seconds, step)})", step)

    def measured_hours(
        self, seconds: int, by: Sequence[str] = JOB, select: PodSelection = EVERYTHING, step: int = 60
    ) -> str:
        """The hours of held devices for which an exporter reported the utilization."""
        text = self.measured(UTILIZATION.name, select)
        return _summed_hours(by, f"count_over_time({_subquery_range(text, seconds, step)})", step)

    def idle_hours(self, seconds: int, below: float, by: Sequence[str] = JOB, step: int = 60) -> str:
        """The hours of held devices whose utilization was below a ratio. Jobs without any are missing."""
        text = f"({self.measured(UTILIZATION.name)}<{below:g})"
        return _summed_hours(by, f"count_over_time({_subquery_range(text, seconds, step)})", step)

    def peak(self, measure: str, seconds: int, by: Sequence[str] = JOB, step: int = 60) -> str:
        """The highest value on any device."""
        text = self.measured(measure)
        return f"max by({','.join(by)})(max_over_time({_subquery_range(text, seconds, step)}))" if text else ""

    def energy_kwh(self, seconds: int, by: Sequence[str] = JOB, step: int = 60) -> str:
        """The energy of held devices."""
        watts = _subquery_range(self.measured("power"), seconds, step)
        # Watts times hours, in kilowatt-hours.
        return f"{_summed_hours(by, f'sum_over_time({watts})', step)}/1000"

    def queue_wait(self, select: PodSelection = EVERYTHING) -> str:
        """The seconds until the last pod of a job was bound to a node."""
        created, bound = (
            workload(self._state_series(name)) for name in ("kube_pod_created", "kube_pod_status_scheduled_time")
        )
        # Both metrics are Unix times in seconds. A pod without a node has no scheduled time, so it has no result.
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
        codes = self._error_series("code")
        return f"({codes})!=0 and changes(({codes})[{window}:30s])>0" if codes else ""

    def error_counts(self, window: str = "10m") -> str:
        """How many errors that cannot be corrected were added on a device."""
        counts = self._error_series("count")
        return f"increase(({counts})[{window}:30s])>0" if counts else ""

    def unhealthy(self) -> str:
        """0 for devices that their exporter calls unhealthy."""
        health = self._error_series("healthy")
        return f"({health})!=1" if health else ""

    def pods(self, metric: str, select: PodSelection = EVERYTHING) -> str:
        """A metric of kube-state-metrics about pods, with job_name and pool."""
        return f"max by(namespace,pod)({workload(scraped_by(self.state_jobs, metric))}){self._of_jobs(select)}"

    def quota_used(self) -> str:
        """Which part of its quota of accelerators a namespace has used."""
        metric = "kube_resourcequota"
        resource = matches("resource", self.resources.quota_keys)
        used, hard = (
            f"max by(namespace,resourcequota,resource)({workload(self._state_series(metric, [resource, which]))})"
            for which in (equal("type", "used"), equal("type", "hard"))
        )
        # A quota of 0 forbids a resource. PromQL would divide by it to NaN, or to Inf, which is above any threshold.
        return f"{used}/({hard}>0)"

    def lost_nodes(self) -> str:
        """0 for nodes with accelerators or in pools that are not ready, with the pool where it is known."""
        conditions = self._state_series(
            "kube_node_status_condition", [equal("condition", "Ready"), equal("status", "true")]
        )
        ready = f"max by(node)({replaced(conditions, 'node', 'exported_node')})"
        return f"({ready}==0)*on(node) group_left(pool)({self.node_info()})"

    def node_info(self) -> str:
        """1 for each node with accelerators or in a pool, with the label pool where it is known."""
        label = _pod_label(POOL)
        labels = replaced(self._state_series("kube_node_labels", [not_equal(label, "")]), "node", "exported_node")
        plain = replace(self, source=Source.POD_LABELS)
        return (
            f"group by(node,pool)({replaced(labels, 'pool', label)}) "
            f"or on(node) group by(node)({plain.allocatable(select_whole=False)}>0)"
        )

    @property
    def _device_exporters(self) -> list[ExporterSeries]:
        return [each for each in self.exporters if not each.exporter.backend]

    @property
    def _shared(self) -> list[ExporterSeries]:
        return [each for each in self.exporters if each.exporter.backend]

    def _state_series(self, metric: str, matchers: Iterable[str] = ()) -> str:
        return scraped_by(self.state_jobs, _selector(metric, matchers))

    def _error_series(self, means: str) -> str:
        return " or ".join(each.by_device(metric) for each in self._device_exporters for metric in each.errors(means))

    def _of_jobs(self, select: PodSelection) -> str:
        return f"*on(namespace,pod) group_left(job_name,pool){self.pod_info(select)}"

    def _held_devices(self, resources: str, select: PodSelection) -> str:
        """Bound and not ended: what counts against the node. Requests of ended pods stay in kube-state-metrics."""
        requests = self._state_series(
            "kube_pod_container_resource_requests", [matches("resource", resources), not_equal("node", "")]
        )
        phases = self._state_series("kube_pod_status_phase", [matches("phase", "Pending|Running")])
        requested = replaced(workload(of_pods(requests, select)), "node", "exported_node")
        return (
            f"sum by(namespace,pod,node,resource)({requested})"
            f"*on(namespace,pod) group_left()(max by(namespace,pod)({workload(of_pods(phases, select))})==1)"
        )

    @cached_property
    def has(self) -> frozenset[str]:
        """The measures that any exporter has."""
        return frozenset(name for name in MEASURES if any(exporter.measured(name) for exporter in self.exporters))


def plain_queries(
    catalog: Catalog,
    source: Source = Source.POD_LABELS,
    names: Sequence[str] = (),
    *,
    exporter_jobs: str = "",
    state_jobs: str = "",
) -> Queries:
    """The expressions for the profiles in use."""
    return Queries(exporters_of(catalog, names, exporter_jobs), resources_of(catalog, names), source, state_jobs)


def ambiguous_pods() -> str:
    """The pods of which there is one of the same namespace and name in another cluster."""
    return f"count by(namespace,pod)(count by(cluster,namespace,pod)({workload(_OF_CLUSTERS)}))>1"


def reserved_metrics(catalog: Catalog) -> str:
    """A regular expression for the metrics that the questions rest on. A program that sent them could speak of the pods
    of others: Prometheus renames its labels ``namespace`` and ``pod`` as it renames those of an exporter."""
    exporters = [each.exporter for each in exporters_of(catalog)]
    names = {series.name for each in exporters for found in each.quantities.values() for series in found}
    names |= {each.owner.partition("{")[0] for each in exporters if each.owner}
    return "|".join(["(kube|container)_.+", ".+:runwhere_.+", *sorted(map(pattern_of, names))])


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
        found.append(_selector(name, matchers))
    return _unique(found)


def _pod_label(key: str) -> str:
    """The label of kube_pod_labels for a label of pods."""
    return f"label_{sanitized(key)}"


def scraped_by(jobs: str, metric: str) -> str:
    """The metric as these scrape jobs have brought it: any program can claim to be an exporter, and of any pod."""
    name, _brace, inner = metric.partition("{")
    return _selector(name, [inner.removesuffix("}"), matches("job", jobs) if jobs else ""])


def _selector(metric: str, matchers: Iterable[str]) -> str:
    found = ",".join(matcher for matcher in matchers if matcher)
    return f"{metric}{{{found}}}" if found else metric


def _measure_series(name: str, select: PodSelection) -> str:
    return _selector(name, select.matchers("job_name"))


def _first_exporter(exporters: Iterable[ExporterSeries], measure: str, select: PodSelection) -> str:
    found = [exporter.by_pod(text, select) for exporter in exporters if (text := exporter.measured(measure, select))]
    return f" or on({','.join(GPU)}) ".join(found)


def _subquery_range(expression: str, seconds: int, step: int) -> str:
    """The last seconds in steps. One second less: Prometheus 2 counts both ends of a range, 3 only the later one."""
    return f"({expression})[{max(seconds - 1, 1)}s:{step}s]"


def _summed_hours(by: Sequence[str], expression: str, step: int) -> str:
    return f"sum by({','.join(by)})({expression})*{step}/3600"
