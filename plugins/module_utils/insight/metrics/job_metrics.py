# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_job_metrics_info: the curves of a job, from Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...accelerators.catalog import catalog
from ...cluster.declared import know_accelerators
from ...cluster.lookup import job_of_pod
from ...cluster.status import status_of
from ...given_times import InvalidTime
from ...namespaces import NamespaceOptions, named_job
from ...options import option
from ...task import ModuleSpec, Task, TaskFailed
from ...wording import worded
from ..prometheus.prometheus_answer import Series
from ..prometheus.prometheus_client import Prometheus, open_prometheus
from ..prometheus.prometheus_options import PrometheusOptions
from ..prometheus.promql import JOB, PodSelection, Queries, Source, plain_queries
from .measured_job import MeasuredJob, read_measured_job
from .metric_questions import AGGREGATES, METRICS, NETWORK, THROUGHPUT, UTILIZATION, Question, questions
from .metrics_absence import absence_of, missing_metrics, requests_devices
from .metrics_range import Life, MetricsRange, as_text, metrics_range
from .metrics_source import ALLOW_LIST, find_source

_FINE_POINTS = 1_000  # of which averages and peaks are taken
_FINE_STEP = 15.0  # seconds; exporters measure every 15 to 60
_JOB_LABELS = frozenset({*JOB})


@dataclass(frozen=True, kw_only=True)
class JobMetricsOptions(NamespaceOptions, PrometheusOptions):
    name: str = option("str", required=True)
    namespace: str | None = option("str")
    start: str | None = option("str")
    end: str | None = option("str")
    step: str = option("str", default="auto")
    metrics: list[str] | None = option("list", elements="str", choices=list(METRICS))
    aggregate: str = option("str", choices=list(AGGREGATES), default="job")
    throughput_query: str | None = option("str")


def run(task: Task[JobMetricsOptions]) -> dict[str, Any]:
    """Reads the job with four lists, and asks for each metric at once. Fails if there is nothing, and says why."""
    options = task.options
    place, name = named_job(task)
    _span(options, None)  # Mistakes in the options are found before any request.
    job = read_measured_job(task.client(), (place, name))
    if job.workload is None and (named := job_of_pod(task.client(), name, [place])):
        job = read_measured_job(task.client(), named)
    span = _span(options, job.life)
    prometheus = open_prometheus(task, options)
    found = read_job_metrics(task, prometheus, job, span)
    for warning in prometheus.warnings:
        task.warn(f"Prometheus: {warning}")
    for metric in options.metrics or ():
        if metric in found["missing"]:
            task.warn(f"{metric}: {found['missing'][metric]}")
    return {"changed": False, **found, "partial": prometheus.is_partial}


MODULE = ModuleSpec(JobMetricsOptions, run)


def _span(options: JobMetricsOptions, life: Life | None) -> MetricsRange:
    try:
        return metrics_range(options.start, options.end, options.step, life, time.time())
    except InvalidTime as problem:
        raise TaskFailed(str(problem)) from None


def read_job_metrics(
    task: Task[Any],
    prometheus: Prometheus,
    job: MeasuredJob,
    span: MetricsRange,
) -> dict[str, Any]:
    """The curves of a job and what they say. Raises TaskFailed if there are none."""
    options = task.options
    workload = job.workload
    know_accelerators(task.client(), task.warn, [workload["spec"]["template"]["spec"]] if workload else [])
    source = find_source(prometheus, job, span)
    queries = plain_queries(catalog(), source)
    selection = PodSelection(job.namespace, job.name, job.pod_pattern if source is Source.POD_NAMES else "")
    wanted = options.metrics or METRICS
    asked = questions(wanted, options.aggregate, queries, selection, job.pod_pattern, options.throughput_query)
    curves = _ask_prometheus(prometheus, asked, span)
    if not any(curves.values()):
        raise TaskFailed(absence_of(task, prometheus, job, span, source))
    summed = questions(wanted, "job", queries, selection, job.pod_pattern, options.throughput_query)
    fine = replace(span, step=max(min(_FINE_STEP, span.step), span.seconds / _FINE_POINTS))
    whole = (
        curves if options.aggregate == "job" and span.step <= fine.step else _ask_prometheus(prometheus, summed, fine)
    )
    coverage = _sample_coverage(prometheus, queries, selection, span, whole, fine)
    if source is Source.POD_NAMES:
        task.warn(_BY_NAME)
    missing = missing_metrics(wanted, curves, has_devices=requests_devices(workload))
    return {
        "job": _identity(job),
        "start": as_text(span.start),
        "end": as_text(span.end),
        "step": span.step,
        "source": source.name.lower(),
        "series": [row for question, series in curves.items() for row in _series_rows(question, series)],
        "summary": [row for question, series in whole.items() for row in _question_summary(question, series)],
        "coverage": coverage,
        "missing": {metric: worded(why, task.names) for metric, why in missing.items()},
    }


_BY_NAME = (
    "pods are distinguished by their names only: those of a training that are gone are missing, and those of a service "
    f"with a similar name may count too. Let kube-state-metrics tell their labels: {ALLOW_LIST}."
)


def _ask_prometheus(
    prometheus: Prometheus, asked: Sequence[Question], span: MetricsRange
) -> dict[Question, list[Series]]:
    expressions = {str(number): question.expression for number, question in enumerate(asked)}
    found = prometheus.query_ranges(expressions, span.first, span.end, span.step)
    return dict(zip(asked, found.values(), strict=True))


def _identity(job: MeasuredJob) -> dict[str, Any]:
    workload, life = job.workload, job.life
    return {
        "name": job.name,
        "namespace": job.namespace,
        "kind": job.kind,
        "uid": workload["metadata"]["uid"] if workload else None,
        "status": status_of(workload) if workload else None,
        "created_at": as_text(life.created) if life else None,
        "finished_at": as_text(life.ended) if life and life.ended is not None else None,
    }


def _series_rows(question: Question, series: Iterable[Series]) -> list[dict[str, Any]]:
    return [
        {
            "metric": question.metric,
            "unit": question.unit or None,
            "labels": {
                **{name: value for name, value in each.labels.items() if value},
                **({"direction": question.direction} if question.direction else {}),
            },
            "points": [[moment, _rounded_value(value)] for moment, value in each.points],
        }
        for each in series
    ]


def _question_summary(question: Question, series: Iterable[Series]) -> list[dict[str, Any]]:
    rows = []
    for each in series:
        values = [value for _moment, value in each.points]
        labels = {name: value for name, value in each.labels.items() if value and name not in _JOB_LABELS}
        if question.direction:
            labels["direction"] = question.direction
        rows.append(
            {
                "metric": question.metric,
                "unit": question.unit or None,
                "labels": labels,
                "average": _rounded_value(sum(values) / len(values)),
                "peak": _rounded_value(max(values)),
                "at_end": _rounded_value(values[-1]),
            }
        )
    return rows


def _rounded_value(value: float) -> float:
    """Six digits of a ratio, whole bytes of a memory."""
    return round(value, 6) if abs(value) < 1_000 else round(value, 1)


def _sample_coverage(
    prometheus: Prometheus,
    queries: Queries,
    selection: PodSelection,
    span: MetricsRange,
    curves: Mapping[Question, Sequence[Series]],
    fine: MetricsRange,
) -> float | None:
    """The share of the samples that the held devices should have: of their hours, those with a known utilization.

    Without kube-state-metrics, or for a job without devices, the share of the steps that have a point.
    """
    seconds, step = max(int(span.seconds), 1), max(60, int(span.seconds / 360))
    hours = {
        "held": queries.gpu_hours(seconds, JOB, selection, step),
        "measured": queries.measured_hours(seconds, JOB, selection, step),
    }
    found = prometheus.query_all(hours, at=span.end)
    held, measured = (sum(sample.value for sample in found[name]) for name in ("held", "measured"))
    if held > 0:
        return round(min(measured / held, 1.0), 3)
    metrics = [UTILIZATION, *(question.metric for question in curves if question.metric not in (NETWORK, THROUGHPUT))]
    points = {
        round((moment - fine.first) / fine.step)
        for question, series in curves.items()
        if question.metric == metrics[0] or len(metrics) == 1
        for each in series
        for moment, _value in each.points
    }
    return round(min(len(points) / fine.steps, 1.0), 3)
