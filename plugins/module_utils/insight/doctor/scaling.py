# SPDX-License-Identifier: BSD-2-Clause
"""The path of a metric to the autoscaler of a service: who serves it, whether it is listed, and whether a value comes.

Where it ends, Prometheus is asked whether it has what an adapter would serve. In a cluster whose services scale by CPU
only, nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ...accelerators.catalog import catalog
from ...cluster.autoscaler import AskedMetric, asked_metrics
from ...kube.answer import Expected
from ...kube.client import Client
from ...kube.concurrency import run_concurrently
from ...kube.discovery import served_kinds
from ...kube.errors import ApiError, InvalidResponse, KubeError, as_sentence
from ...kube.resources import API_SERVICE, Object
from ...labels import APP, selector_text
from ..monitoring.adapter import served_names
from ..prometheus.prometheus_client import Prometheus
from ..prometheus.promql import POD, UTILIZATION, Source, matches, plain_queries

Job = tuple[str, str]  # namespace and name

CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"
SERVED = {"Pods": CUSTOM, "Object": CUSTOM, "External": EXTERNAL}
_ROLE = "monitoring_autoscaling=prometheus_adapter"

# What Prometheus has of the pods of a service.
RECORDED, EXPORTED, NOTHING = "recorded", "exported", "nothing"


class Broken(NamedTuple):
    """Where the path of a metric breaks, and what to do."""

    problem: str
    hint: str


@dataclass(frozen=True)
class ScalingMetrics:
    """What was read. ``values`` has whether there is one, by service and metric; ``series`` what Prometheus has."""

    unavailable: Mapping[str, Broken] = field(default_factory=dict)  # by API group
    listed: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by API group
    values: Mapping[tuple[Job, str], bool] = field(default_factory=dict)
    series: Mapping[Job, str] = field(default_factory=dict)


def read_scaling_metrics(
    client: Client, autoscalers: Sequence[Object], groups: Mapping[str, str], prometheus: Any
) -> ScalingMetrics:
    """A request for the APIServices, one for each API, and one for each metric of a service; raises ApiError.

    ``prometheus`` opens it, if a metric does not arrive.
    """
    asked = [(obj, metric) for obj in autoscalers for metric in asked_metrics(obj) if metric.type in SERVED]
    wanted = {SERVED[metric.type] for _obj, metric in asked}
    if not wanted:
        return ScalingMetrics()
    unavailable = dict(_unavailable_groups(client.list_objects(API_SERVICE), wanted))
    versions = {group: groups[group] for group in wanted if group in groups and group not in unavailable}
    listed = {}
    if CUSTOM in versions:
        try:
            listed[CUSTOM] = served_kinds(client, versions[CUSTOM], "name")
        except ApiError as error:
            if error.is_forbidden:
                raise
            version = versions.pop(CUSTOM)
            unavailable[CUSTOM] = Broken(
                f"{version} does not answer: {error}".rstrip("."), "See the logs of its adapter."
            )
    reachable = [
        (obj, metric)
        for obj, metric in asked
        if SERVED[metric.type] in versions and metric.type != "Object" and _has_pods(obj) and _is_listed(metric, listed)
    ]
    values = run_concurrently(partial(_has_value, client, versions), reachable, client.concurrency)
    found = {(service_of(obj), metric.name): known for (obj, metric), known in zip(reachable, values, strict=True)}
    lost = {
        service_of(obj)
        for obj, metric in asked
        if SERVED[metric.type] in versions
        and (not _is_listed(metric, listed) or not found.get((service_of(obj), metric.name), True))
    }
    return ScalingMetrics(unavailable, listed, found, _recorded_series(prometheus, lost) if lost else {})


def path_breaks(metrics: ScalingMetrics, autoscaler: Object, groups: Mapping[str, str]) -> Iterator[Broken]:
    """The first thing wrong with each metric of an autoscaler."""
    for metric in asked_metrics(autoscaler):
        group = SERVED.get(metric.type)
        if group is None:
            continue
        asks = f"it is to scale by {metric.name}, but"
        if group in metrics.unavailable:
            problem, hint = metrics.unavailable[group]
            yield Broken(f"{asks} {problem}", hint)
        elif group not in groups:
            hint = f"Install prometheus-adapter, with the rules of the role monitoring ({_ROLE})."
            yield Broken(f"{asks} nothing serves {group}", hint)
        elif not _is_listed(metric, metrics.listed):
            yield Broken(f"{asks} {group} does not list it", _metric_hint(metrics, autoscaler, metric))
        elif not metrics.values.get((service_of(autoscaler), metric.name), True):
            yield Broken(f"{asks} there is no value of its pods", _metric_hint(metrics, autoscaler, metric))


def service_of(autoscaler: Object) -> Job:
    """What an autoscaler scales: KEDA names its own differently."""
    return autoscaler["metadata"]["namespace"], autoscaler["spec"]["scaleTargetRef"]["name"]


def _metric_hint(metrics: ScalingMetrics, autoscaler: Object, metric: AskedMetric) -> str:
    if metric.type == "External":
        return "See the logs of what serves it, such as KEDA's metrics server."
    if metric.name not in served_names(catalog()):
        return "Give prometheus-adapter a rule for it, and check that Prometheus has its series with namespace and pod."
    found = metrics.series.get(service_of(autoscaler), "")
    if found == RECORDED:
        return (
            f"Prometheus has it. Give prometheus-adapter the rules of the role monitoring ({_ROLE}), and restart it. "
            f"It reads them when it starts."
        )
    if found == EXPORTED:
        return (
            "Prometheus has it from the exporter, but not the recorded series. Run the role monitoring, and check that "
            "Prometheus loads its rules, and that kube-state-metrics exports the labels of pods."
        )
    if found == NOTHING:
        return "Prometheus has no utilization of its pods. Check that it scrapes the exporter on their nodes."
    return f"Check whether Prometheus has {UTILIZATION.record} of its pods. {found}".rstrip()


def _unavailable_groups(services: Iterable[Object], wanted: Iterable[str]) -> Iterator[tuple[str, Broken]]:
    """The groups of which no version is available: one is enough for an autoscaler."""
    for group in wanted:
        own = [obj for obj in services if obj["spec"].get("group") == group]
        problems = [problem for obj in own if (problem := _not_available(obj))]
        if own and len(problems) == len(own):
            yield group, problems[0]


def _not_available(service: Object) -> Broken | None:
    conditions = (service.get("status") or {}).get("conditions") or ()
    available: Object = next((one for one in conditions if one["type"] == "Available"), {})
    if available.get("status") == "True":
        return None
    behind = service["spec"].get("service") or {}
    why = str(available.get("message") or available.get("reason") or "the API server has not tried it yet").rstrip(". ")
    return Broken(
        f"{service['metadata']['name']} is not available: {why}",
        f"See the pods of service {behind.get('namespace')}/{behind.get('name')}, and their logs.",
    )


def _has_pods(autoscaler: Object) -> bool:
    """A paused service has none, and so no values."""
    return bool((autoscaler.get("status") or {}).get("currentReplicas"))


def _is_listed(metric: AskedMetric, listed: Mapping[str, frozenset[str]]) -> bool:
    """Whether discovery names it. External metrics are not looked up: KEDA lists none of those that it serves."""
    return metric.type != "Pods" or CUSTOM not in listed or f"pods/{metric.name}" in listed[CUSTOM]


def _has_value(client: Client, versions: Mapping[str, str], asked: tuple[Object, AskedMetric]) -> bool:
    obj, metric = asked
    namespace, name = service_of(obj)
    version = versions[SERVED[metric.type]]
    try:
        path = f"/apis/{version}/namespaces/{namespace}"
        if metric.type == "External":
            labels = selector_text(metric.selector)
            return bool(_metric_values(client, f"{path}/{metric.name}", "ExternalMetricValueList", labels))
        return bool(
            _metric_values(client, f"{path}/pods/*/{metric.name}", "MetricValueList", selector_text({APP: name}))
        )
    except ApiError as error:
        if error.is_forbidden:
            raise
        return False
    except InvalidResponse:
        return False


def _recorded_series(prometheus: Any, services: Iterable[Job]) -> Mapping[Job, str]:
    """What Prometheus has of the pods of these services; else why it could not be asked."""
    try:
        server: Prometheus = prometheus()
        namespaces = matches("namespace", "|".join(sorted({namespace for namespace, _name in services})))
        recorded = {
            (sample.labels.get("namespace", ""), sample.labels.get("job_name", ""))
            for sample in server.query(f"count by(namespace,job_name)({UTILIZATION.record}{{{namespaces}}})")
        }
        plain = plain_queries(catalog(), Source.POD_NAMES).aggregated("utilization", POD)
        samples = server.query(plain) if plain else []
        exported = [(sample.labels.get("namespace", ""), sample.labels.get("pod", "")) for sample in samples]
    except KubeError as problem:
        return dict.fromkeys(services, as_sentence(problem))
    return {
        (namespace, name): RECORDED
        if (namespace, name) in recorded
        else EXPORTED
        if any(place == namespace and pod.startswith(f"{name}-") for place, pod in exported)
        else NOTHING
        for namespace, name in services
    }


def _metric_values(client: Client, path: str, kind: str, labels: str) -> list[dict[str, Any]]:
    """The values at the path of a custom or external metric, as the ``kind`` of list, that have these labels."""
    return list(client.transport.request("GET", path, Expected(kind), {"labelSelector": labels})["items"] or ())
