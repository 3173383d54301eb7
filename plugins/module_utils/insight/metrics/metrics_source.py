# SPDX-License-Identifier: BSD-2-Clause
"""By what a Prometheus knows the pods of a job: the rules of the role, the labels of pods, or only their names."""

from __future__ import annotations

from ...labels import JOB_TYPE
from ..prometheus.label_matchers import promql_string
from ..prometheus.prometheus_client import Prometheus
from ..prometheus.promql import POD_INFO, POD_LABELS, Source
from .measured_job import MeasuredJob
from .metrics_range import MetricsRange

_SETTLED = 600  # seconds; pods, scrapes and rules take some minutes each
# The option of kube-state-metrics without which it leaves out the labels of pods.
ALLOW_LIST = f"--metric-labels-allowlist=pods=[{','.join(POD_LABELS)}]"
JOB_TYPE_LABEL = "label_" + JOB_TYPE.replace(".", "_").replace("/", "_").replace("-", "_")


def find_source(prometheus: Prometheus, job: MeasuredJob, span: MetricsRange) -> Source:
    """Two queries. The recorded series count only if they reach back to the start of the range."""
    early = min(span.start + _SETTLED, span.end)
    lately = f"[{max(int(early - span.start), 60)}s]"
    whole = f"[{max(int(span.seconds), 60)}s]"
    namespace, name = promql_string(job.namespace), promql_string(job.name)
    recorded = f"{POD_INFO}{{namespace={namespace},job_name={name}}}"
    if prometheus.query(f"count(last_over_time({recorded}{lately}))", early):
        return Source.RULES
    labelled = f'kube_pod_labels{{label_app={name},{JOB_TYPE_LABEL}!=""}}'
    if prometheus.query(f"count(last_over_time({labelled}{whole}))", span.end):
        return Source.POD_LABELS
    return Source.POD_NAMES
