# SPDX-License-Identifier: BSD-2-Clause
"""What is asked of Prometheus for the curves of a job: one expression for each metric. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template

from ..prometheus.label_matchers import matchers, promql_string
from ..prometheus.promql import GPU, JOB, MEASURES, POD, PodSelection, Queries

UTILIZATION, MEMORY, TENSOR_ACTIVITY, POWER = "utilization", "memory", "tensor_activity", "power"
TEMPERATURE, NETWORK, THROUGHPUT = "temperature", "network", "throughput"
METRICS = (UTILIZATION, MEMORY, TENSOR_ACTIVITY, POWER, TEMPERATURE, NETWORK, THROUGHPUT)
AGGREGATES: Mapping[str, Sequence[str]] = {"job": JOB, "pod": (*POD, "job_name"), "gpu": (*GPU, "job_name")}

_MEASURES = {
    UTILIZATION: "utilization",
    MEMORY: "memory_used",
    TENSOR_ACTIVITY: "tensor_activity",
    POWER: "power",
    TEMPERATURE: "temperature",
}
# What servers of models count: tokens that they have generated.
TOKENS = ("vllm:generation_tokens_total", "sglang:generation_tokens_total")
_RATE = 300  # seconds; four scrapes of the usual 60 s


@dataclass(frozen=True)
class Question:
    """An expression for a curve, and the unit of its values; ``direction`` is that of a network."""

    metric: str
    expression: str
    unit: str
    direction: str = ""


def questions(
    metrics: Sequence[str], aggregate: str, queries: Queries, selection: PodSelection, pods: str, throughput: str | None
) -> list[Question]:
    """The questions for some metrics. None for one that no exporter has.

    ``pods`` is a regular expression for the pods of the job. ``throughput`` is an expression of the user.
    """
    by = AGGREGATES[aggregate]
    found = []
    for metric in metrics:
        if metric in _MEASURES:
            measure = _MEASURES[metric]
            found.append(Question(metric, queries.aggregated(measure, by, selection), MEASURES[measure].unit))
        elif metric == NETWORK:
            own = AGGREGATES["pod"] if aggregate == "gpu" else by  # GPUs have no network of their own.
            found += [
                Question(metric, queries.network(direction, own, selection, _RATE), "bytes per second", direction)
                for direction in ("receive", "transmit")
            ]
        elif throughput:
            found.append(Question(metric, own_expression(throughput, selection, pods), ""))
        else:
            found.append(Question(metric, tokens_per_second(aggregate, selection, pods), "tokens per second"))
    return [question for question in found if question.expression]


def own_expression(text: str, selection: PodSelection, pods: str) -> str:
    """An expression of the user, with $namespace, $job and $pods in it.

    They stand in strings of PromQL, and can have no other meaning there. $pods is a regular expression.
    """
    values = {"namespace": selection.namespace, "job": selection.job, "pods": pods}
    return Template(text).safe_substitute({name: promql_string(value)[1:-1] for name, value in values.items()})


def tokens_per_second(aggregate: str, selection: PodSelection, pods: str) -> str:
    """What servers of models generate. A PodMonitor gives their metrics the labels of their pods."""
    names = promql_string("|".join(TOKENS))
    selector = matchers(namespace=selection.namespace)[:-1]
    by = "namespace" if aggregate == "job" else "namespace,pod"
    return f"sum by({by})(rate({selector},__name__=~{names},pod=~{promql_string(pods)}}}[{_RATE}s]))"
