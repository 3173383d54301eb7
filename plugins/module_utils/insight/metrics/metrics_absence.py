# SPDX-License-Identifier: BSD-2-Clause
"""Why there are no curves of a job, or not of all metrics. Only asked once nothing was found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...accelerators.catalog import catalog
from ...cluster.nodes import devices_of
from ...cluster.read_jobs import JobId
from ...cluster.read_reasons import read_reasons
from ...cluster.status import status_of
from ...kube.errors import if_allowed
from ...namespaces import allowed_namespaces
from ...task import Task
from ..jobs.absence import no_pods_message
from ..prometheus.label_matchers import one_of
from ..prometheus.prometheus_client import Prometheus
from ..prometheus.promql import Source
from .measured_job import MeasuredJob
from .metric_questions import NETWORK, TENSOR_ACTIVITY, THROUGHPUT, Question
from .metrics_range import MetricsRange, as_text
from .metrics_source import ALLOW_LIST, JOB_TYPE_LABEL


def absence_of(task: Task[Any], prometheus: Prometheus, job: MeasuredJob, span: MetricsRange, source: Source) -> str:
    """Why a job has no curves at all, the nearest cause first."""
    where = f"job {job.name} in namespace {job.namespace}"
    if job.workload is None:
        hint = no_pods_message(task.client(), (job.namespace, job.name), allowed_namespaces(task)).rstrip(".")
        return f"{hint}, and {prometheus.where} knows no pods of that name between {_span_text(span)}."
    is_bound = any(pod["spec"].get("nodeName") for pod in job.pods)
    if not is_bound and status_of(job.workload) in ("Pending", "Paused"):
        if job.pods:
            return f"{where} has no metrics: no pod has run yet. Wait until it runs."
        jobs = {(job.namespace, job.name): dict(job.workload)}
        unknown: dict[JobId, str] = {}
        reason = if_allowed(lambda: read_reasons(task.client(), jobs), unknown).get((job.namespace, job.name))
        return f"{where} has no metrics: no pod has run yet." + (f" {reason}" if reason else " Wait until it runs.")
    if not requests_devices(job.workload):
        return (
            f"{where} has no metrics: it requests no GPUs, and {prometheus.where} has no traffic of its pods between "
            f"{_span_text(span)}. Let it scrape the kubelets' cAdvisor."
        )
    names, pod_labels = _exported()
    selectors = (
        f"{{__name__=~{names}}}",
        " or ".join(_with_pods(names, label) for label in sorted(pod_labels)),
        "kube_pod_labels",
        f'kube_pod_labels{{{JOB_TYPE_LABEL}!=""}}',
    )
    exporter, with_pods, labels, typed = (
        bool(prometheus.query(f"count({selector})", span.end)) for selector in selectors
    )
    if not exporter:
        return (
            f"{where} has no metrics: {prometheus.where} scrapes no exporter of accelerators. Install that of the "
            f"vendor, such as dcgm-exporter, and let Prometheus scrape it, for example with the role monitoring."
        )
    if not with_pods:
        return (
            f"{where} has no metrics: the exporter does not say which pod uses a device. Let it map devices to pods: "
            f"for dcgm-exporter, set DCGM_EXPORTER_KUBERNETES=true."
        )
    if source is Source.POD_NAMES and not labels:
        return (
            f"{where} has no metrics: {prometheus.where} knows no pods named like its own, and no kube_pod_labels. Let "
            f"it scrape kube-state-metrics with {ALLOW_LIST}."
        )
    if source is Source.POD_NAMES and not typed:
        return (
            f"{where} has no metrics: kube-state-metrics leaves out the labels of jobs. Start it with {ALLOW_LIST}, "
            f"in its chart metricLabelsAllowlist."
        )
    return (
        f"{where} has no metrics between {_span_text(span)}, although others have. Check that the exporter runs on its "
        f"nodes, and that O(start) and O(end) are when it had accelerators."
    )


def requests_devices(workload: Mapping[str, Any] | None) -> bool:
    """Whether the pods of a job have accelerators that an exporter could measure; True for one that is gone."""
    if workload is None:
        return True
    template = workload["spec"]["template"]
    amounts = devices_of({"metadata": {}, **template})
    claims = template["spec"].get("resourceClaims")
    return bool(claims or any(amount and catalog().row(resource) for resource, amount in amounts.items()))


def missing_metrics(
    wanted: Sequence[str], curves: Mapping[Question, Collection[Any]], *, has_devices: bool = True
) -> dict[str, str]:
    """Why there is no curve of a metric, by metric."""
    found = {question.metric for question, series in curves.items() if series}
    asked = {question.metric for question in curves}
    return {metric: _missing_metric(metric, metric in asked, has_devices) for metric in wanted if metric not in found}


def _missing_metric(metric: str, is_asked: bool, has_devices: bool) -> str:
    if metric == THROUGHPUT:
        return (
            "the job serves none that is known. Add metrics to its manifest, and O(throughput_query) unless it runs "
            "vLLM or SGLang."
        )
    if metric == NETWORK:
        return (
            "Prometheus has no container_network_receive_bytes_total of its pods. Let it scrape the kubelets' cAdvisor."
        )
    if not has_devices:
        return "the job requests no GPUs."
    if not is_asked:
        return "no exporter of the accelerators in use measures it."
    if metric == TENSOR_ACTIVITY:
        return "the exporter does not send it. dcgm-exporter needs profiling metrics (DCGM_FI_PROF_*) and SYS_ADMIN."
    return "the exporter sent none of it in this range."


def _with_pods(names: str, label: str) -> str:
    """The series that name the pod of a device. Prometheus adds the label ``pod`` itself, for that of the exporter."""
    series = f'{{__name__=~{names},{label}!=""}}'
    return f"({series} unless on(pod) up)" if label == "pod" else series


def _exported() -> tuple[str, set[str]]:
    """A string of PromQL with a regular expression for what exporters measure, and the labels that name pods."""
    exporters = [exporter for profile in catalog().profiles.values() for exporter in profile.exporters]
    measured = ("utilization", "memory_used")
    names = {series.name for exporter in exporters for quantity in measured for series in exporter.series(quantity)}
    labels = {label for exporter in exporters for label in exporter.labels.get("pod", ())}
    return one_of(names), labels | {"exported_pod"}


def _span_text(span: MetricsRange) -> str:
    return f"{as_text(span.start)} and {as_text(span.end)}"
