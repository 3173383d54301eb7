# SPDX-License-Identifier: BSD-2-Clause
"""What Prometheus has of the use of accelerators: a handful of queries, each for all pods of the range."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ...accelerators.catalog import catalog
from ..metrics.metrics_source import ALLOW_LIST, JOB_TYPE_LABEL
from ..prometheus.prometheus_answer import Sample
from ..prometheus.prometheus_client import Prometheus
from ..prometheus.promql import ALLOCATED, JOB, Queries, Source, plain_queries, sanitized
from .gpu_usage import Measured

PodId = tuple[str, str]

_BY_POD = (*JOB, "pod")
_BY_NODE = ("capacity", "samples")
_HELD = (*_BY_POD, "node", "resource")
_DAY = 86400
_STEPS = ((2 * _DAY, 60), (14 * _DAY, 300), (93 * _DAY, 900))  # by the length of the range, in seconds
_LONGEST_STEP = 3600
_SETTLED = 600  # seconds after the start of a range in which recorded series have begun


class SeriesOrigin(NamedTuple):
    """What the labels of a pod's series say."""

    job: str | None
    pool: str | None
    node: str | None
    held: Mapping[str, float]  # resource -> hours


class NodeCapacity(NamedTuple):
    """The hours of whole devices that a node had, in the seconds for which Prometheus has samples of it."""

    hours: float
    seconds: float


@dataclass
class MeasuredUsage:
    """By namespace and pod. ``step`` is the seconds of a sample, ``capacity`` is by node."""

    step: int
    pods: dict[PodId, Measured] = field(default_factory=dict)
    origins: dict[PodId, SeriesOrigin] = field(default_factory=dict)
    capacity: dict[str, NodeCapacity] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    absence: str = ""  # what to do where jobs had accelerators, and there is no series of any


def step_of(seconds: float) -> int:
    """The seconds of a sample: a minute for days, longer for months, so that an answer stays an answer."""
    return next((step for longest, step in _STEPS if seconds <= longest), _LONGEST_STEP)


def read_measured(
    prometheus: Prometheus, since: float, until: float, idle_below: float, namespaces: Sequence[str] | None
) -> MeasuredUsage:
    """Raises KubeError for a Prometheus that does not answer."""
    seconds, step = int(until - since), step_of(until - since)
    queries = usage_queries(prometheus, since, until)
    devices = f"({queries.allocatable()})[{max(seconds - 1, 1)}s:{step}s]"
    expressions = {
        "held": queries.gpu_hours(seconds, _HELD, step=step),
        "capacity": f"sum by(node)(sum_over_time({devices}))*{step}/3600",
        "samples": f"sum by(node)(count_over_time({devices}))*{step}/3600",
    }
    if queries.source is not Source.POD_NAMES:
        expressions["queued"] = queries.queued_hours(seconds, _BY_POD, step=step)
    if "utilization" in queries.has:
        expressions |= {
            "known": queries.measured_hours(seconds, _BY_POD, step=step),
            "idle": queries.idle_hours(seconds, idle_below, _BY_POD, step=step),
        }
    if "memory_used" in queries.has:
        expressions["memory"] = queries.peak("memory_used", seconds, _BY_POD, step=step)
    if "power" in queries.has:
        expressions["energy"] = queries.energy_kwh(seconds, _BY_POD, step=step)
    usage = MeasuredUsage(step)
    found = {
        name: _plausible_samples(name, samples, seconds / 3600, usage.notes)
        for name, samples in prometheus.query_all(expressions, until).items()
    }
    covered = {sample.labels.get("node", ""): sample.value * 3600 for sample in found["samples"]}
    for sample in found["capacity"]:
        node = sample.labels.get("node", "")
        usage.capacity[node] = NodeCapacity(sample.value, covered.get(node, 0.0))
    allowed = None if namespaces is None else set(namespaces)
    parts = {name: _by_pod(samples, allowed) for name, samples in found.items() if name not in _BY_NODE}
    usage.origins = _origins([*found["held"], *found.get("queued", ())], allowed)
    for pod in {pod for part in parts.values() for pod in part}:
        held = sum(usage.origins[pod].held.values()) if pod in usage.origins else 0.0
        usage.pods[pod] = Measured(
            held,
            parts.get("queued", {}).get(pod, 0.0),
            parts.get("known", {}).get(pod),
            parts.get("idle", {}).get(pod, 0.0),
            parts.get("memory", {}).get(pod),
            parts.get("energy", {}).get(pod),
        )
    if prometheus.warnings:
        usage.notes.append(f"Prometheus says: {'; '.join(prometheus.warnings)}.")
    if queries.source is Source.POD_NAMES:
        usage.notes.append(
            f"Pods that Kubernetes and the history do not know are missing: kube-state-metrics does not "
            f"export the labels of pods. Start it with {ALLOW_LIST}."
        )
    elif not usage.pods:
        usage.absence = (
            f"{prometheus.where} has no series of pods of jobs in this range. See whether kube-state-metrics and an "
            f"exporter for the GPUs are scraped."
        )
    return usage


# What no pod, and no cluster, has in an hour; of memory at any time. Exporters report anything, and so does a tenant's.
_MOST = {"held": 1e3, "queued": 1e3, "known": 1e3, "idle": 1e3, "energy": 1e4, "capacity": 1e5, "samples": 1.1}
_MOST_MEMORY = 1e15


def _plausible_samples(name: str, samples: Sequence[Sample], hours: float, notes: list[str]) -> list[Sample]:
    """The samples with values that can be; the others are noted."""
    most = _MOST_MEMORY if name == "memory" else _MOST[name] * max(hours, 1.0)
    kept = [sample for sample in samples if 0 <= sample.value <= most]
    if impossible := [sample for sample in samples if not 0 <= sample.value <= most]:
        labels = impossible[0].labels
        where = f" of pod {labels['pod']} in namespace {labels.get('namespace', '')}" if "pod" in labels else ""
        notes.append(f"Prometheus has impossible values of {name}, such as that{where}. They are left out.")
    return kept


def usage_queries(prometheus: Prometheus, since: float, until: float) -> Queries:
    """The expressions for what this Prometheus has of the whole range: two queries at most.

    Recorded series count only if they reach back to its start.
    """
    plain = plain_queries(catalog())
    early, seconds = min(since + _SETTLED, until), max(int(until - since), 60)
    if prometheus.query(f"count(last_over_time({ALLOCATED}[{max(int(early - since), 60)}s]))", early):
        return replace(plain, source=Source.RULES)
    if prometheus.query(f'count(last_over_time(kube_pod_labels{{{JOB_TYPE_LABEL}!=""}}[{seconds}s]))', until):
        return plain
    return replace(plain, source=Source.POD_NAMES)


def _by_pod(samples: Sequence[Sample], allowed: set[str] | None) -> dict[PodId, float]:
    found: dict[PodId, float] = defaultdict(float)
    for sample in samples:
        pod = sample.labels.get("namespace", ""), sample.labels.get("pod", "")
        if all(pod) and (allowed is None or pod[0] in allowed):
            found[pod] += sample.value
    return found


def _origins(samples: Sequence[Sample], allowed: set[str] | None) -> dict[PodId, SeriesOrigin]:
    resources = _resources()
    held: dict[PodId, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    labels: dict[PodId, Mapping[str, str]] = {}
    for sample in samples:
        pod = sample.labels.get("namespace", ""), sample.labels.get("pod", "")
        if all(pod) and (allowed is None or pod[0] in allowed):
            labels.setdefault(pod, sample.labels)
            if name := sample.labels.get("resource"):  # else it has waited
                held[pod][resources.get(name) or _partition_resource(name)] += sample.value
    return {
        pod: SeriesOrigin(own.get("job_name"), own.get("pool"), own.get("node"), dict(held[pod]))
        for pod, own in labels.items()
    }


def _resources() -> dict[str, str]:
    """Resources by the names that kube-state-metrics has for them."""
    rows = (row for profile in catalog().profiles.values() for row in profile.resources())
    return {sanitized(row.resource): row.resource for row in rows}


def _partition_resource(name: str) -> str:
    """The resource of a partition, whose names no profile lists: nvidia_com_mig_1g_10gb."""
    for profile in catalog().profiles.values():
        before, place, after = str(profile.part("partitions").get("resource", "")).partition("{partition}")
        start, end = sanitized(before), sanitized(after)
        if place and name.startswith(start) and name.endswith(end):
            return f"{before}{name[len(start) : len(name) - len(end)].replace('_', '.')}{after}"
    return name
