# SPDX-License-Identifier: BSD-2-Clause
"""The rules for prometheus-adapter that let services scale by the utilization of their accelerators. Pure.

An autoscaler asks for the name of the vendor's metric (jobs/objects/deployments.py), by pod. It is answered from the
recorded series, so that it works for partitions, in all units, and however the exporter is scraped.
"""

from __future__ import annotations

from typing import Any

from ...accelerators.catalog import Catalog
from ..prometheus.promql import MEASURES, UTILIZATION, Queries, plain_queries

_OF_PODS = {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}}


def adapter_rules(queries: Queries) -> list[dict[str, Any]]:
    """The rules of custom metrics: the utilization under the names of vendors, and the other measures under ours."""
    names: dict[str, float] = {}
    for series in queries.exporters:
        if not series.exporter.backend:
            for each in series.exporter.series("utilization"):
                names.setdefault(each.name, each.factor)
    rules = [_adapter_rule(UTILIZATION.record, name, factor) for name, factor in names.items()]
    rules += [_adapter_rule(measure.record, f"runwhere_gpu_{name}", 1) for name, measure in MEASURES.items()]
    return rules


def served_names(catalog: Catalog) -> frozenset[str]:
    """The names of the metrics that these rules serve."""
    return frozenset(rule["name"]["as"] for rule in adapter_rules(plain_queries(catalog)))


def _adapter_rule(record: str, name: str, factor: float) -> dict[str, Any]:
    scale = "" if factor == 1 else f"{1 / factor:.0f}*"
    return {
        "seriesQuery": f'{record}{{namespace!="",pod!=""}}',
        "resources": _OF_PODS,
        "name": {"as": name},
        "metricsQuery": f"{scale}avg by(<<.GroupBy>>)(<<.Series>>{{<<.LabelMatchers>>}})",
    }
