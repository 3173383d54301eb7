# SPDX-License-Identifier: BSD-2-Clause
"""How the pods of a cluster use their accelerators now: a fixed number of queries, however many pods there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from ...accelerators.catalog import catalog
from .prometheus_client import Prometheus
from .promql import POD, UTILIZATION, Source, plain_queries

PodUse = Mapping[tuple[str, str], Mapping[str, float]]
"""By namespace and name of the pod: a value for each measure that is known."""

_MEASURES = {"utilization": "utilization", "memory": "memory_used", "power": "power", "temperature": "temperature"}


def recorded_since(prometheus: Prometheus, at: float | None = None) -> Source:
    """What to ask for all pods by name: the recorded series, if there were any at that time."""
    return Source.RULES if prometheus.query(f"count({UTILIZATION.record})", at) else Source.POD_NAMES


def read_current_use(prometheus: Prometheus) -> PodUse:
    """Five queries. Whose a pod is, the caller knows from the cluster."""
    queries = plain_queries(catalog(), recorded_since(prometheus))
    expressions = {name: queries.aggregated(measure, POD) for name, measure in _MEASURES.items()}
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for name, samples in prometheus.query_all({name: text for name, text in expressions.items() if text}).items():
        for sample in samples:
            found[sample.labels.get("namespace", ""), sample.labels.get("pod", "")][name] = sample.value
    return found


def use_of_job(use: PodUse, namespace: str, pods: Iterable[str]) -> dict[str, float] | None:
    """The average utilization of the pods, the sum of their power, and the highest of the others; None if unknown."""
    own = [use[namespace, pod] for pod in pods if (namespace, pod) in use]
    values = {name: [each[name] for each in own if name in each] for name in _MEASURES}
    combined = {name: _combined_metric(name, found) for name, found in values.items() if found}
    return {name: round(value, 4) for name, value in combined.items()} or None


def _combined_metric(name: str, values: list[float]) -> float:
    if name == "utilization":
        return sum(values) / len(values)
    return sum(values) if name == "power" else max(values)
