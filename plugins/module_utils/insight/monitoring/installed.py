# SPDX-License-Identifier: BSD-2-Clause
"""What a cluster has for monitoring, and what is missing for that of jobs: from objects to sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...kube.resources import Object
from ..prometheus.promql import NODE_LABELS, POD_LABELS

KUBE_STATE_METRICS = "kube-state-metrics"
_ALLOW_LIST = "--metric-labels-allowlist"
_WANTED = {"pods": POD_LABELS, "nodes": NODE_LABELS}
_SELECTORS = {"rule": "ruleSelector", "pod_monitor": "podMonitorSelector", "service_monitor": "serviceMonitorSelector"}


@dataclass(frozen=True)
class Installed:
    """What was read. ``unknown`` has a sentence for what could not be."""

    group_versions: frozenset[str] = frozenset()
    prometheuses: list[Object] = field(default_factory=list)
    alertmanagers: list[Object] = field(default_factory=list)
    state_metrics: list[Object] = field(default_factory=list)  # Deployments and StatefulSets
    unknown: Mapping[str, str] = field(default_factory=dict)

    def has(self, group: str) -> bool:
        return any(version.startswith(f"{group}/") for version in self.group_versions)


def apis(installed: Installed) -> dict[str, bool]:
    """Which optional APIs the cluster serves."""
    return {
        "prometheus_operator": installed.has("monitoring.coreos.com"),
        "grafana_operator": installed.has("grafana.integreatly.org"),
        "keda": installed.has("keda.sh"),
        "resource_metrics": installed.has("metrics.k8s.io"),
        "custom_metrics": installed.has("custom.metrics.k8s.io"),
        "external_metrics": installed.has("external.metrics.k8s.io"),
    }


def prometheus_rows(installed: Installed) -> list[dict[str, Any]]:
    """The instances of the operator, and the labels of the objects that each selects; null where it selects none."""
    return [
        {
            "name": obj["metadata"]["name"],
            "namespace": obj["metadata"]["namespace"],
            "labels": {name: _selector_labels(obj, selector) for name, selector in _SELECTORS.items()},
        }
        for obj in installed.prometheuses
    ]


def alertmanager_rows(installed: Installed) -> list[dict[str, Any]]:
    """The instances of the operator, and of which namespaces each sends alerts by an AlertmanagerConfig."""
    return [
        {
            "name": obj["metadata"]["name"],
            "namespace": obj["metadata"]["namespace"],
            "labels": _selector_labels(obj, "alertmanagerConfigSelector"),
            "only_own_namespace": _strategy(obj) != "None",
        }
        for obj in installed.alertmanagers
    ]


def place(installed: Installed) -> dict[str, Any]:
    """Where the first Prometheus finds our objects: its namespace, and the labels that it selects."""
    for row in prometheus_rows(installed):
        selected = [labels for labels in row["labels"].values() if labels]
        return {"namespace": row["namespace"], "labels": {key: text for one in selected for key, text in one.items()}}
    return {"namespace": None, "labels": {}}


def state_metrics_rows(installed: Installed) -> list[dict[str, Any]]:
    """Each kube-state-metrics, and the labels that it does not tell; null if its arguments do not say."""
    return [
        {
            "name": obj["metadata"]["name"],
            "namespace": obj["metadata"]["namespace"],
            "missing_labels": _missing_labels(obj),
        }
        for obj in installed.state_metrics
    ]


def problems(installed: Installed) -> Iterator[str]:
    """What is missing, a sentence each with what to do."""
    yield from installed.unknown.values()
    yield from _problems_of_state_metrics(installed)
    for row in prometheus_rows(installed):
        where = f"Prometheus {row['name']} in namespace {row['namespace']}"
        none = [name.replace("_", " ") for name, labels in row["labels"].items() if labels is None]
        if none:
            yield f"{where} selects no objects by: {', '.join(none)} selector. Set it to {{}}, or to labels."
    for row in alertmanager_rows(installed):
        if row["only_own_namespace"]:
            yield (
                f"Alertmanager {row['name']} in namespace {row['namespace']} uses an AlertmanagerConfig for alerts of "
                f"its own namespace only, so alerts about nodes and other namespaces do not reach its receivers. "
                f"Set spec.alertmanagerConfigMatcherStrategy.type to None, or give receivers their namespaces."
            )


def _problems_of_state_metrics(installed: Installed) -> Iterator[str]:
    wanted = ",".join(f"{kind}=[{','.join(labels)}]" for kind, labels in _WANTED.items())
    if not installed.state_metrics and KUBE_STATE_METRICS not in installed.unknown:
        yield (
            f"no {KUBE_STATE_METRICS} found. Series of devices have no job without it. Install it with "
            f"{_ALLOW_LIST}={wanted}."
        )
    for row in state_metrics_rows(installed):
        if row["missing_labels"]:
            missing = "; ".join(f"{', '.join(labels)} of {kind}" for kind, labels in row["missing_labels"].items())
            yield (
                f"{row['name']} in namespace {row['namespace']} does not export these labels: {missing}. Series have "
                f"no job or no pool without them. Start it with {_ALLOW_LIST}={wanted} (in its chart: "
                "metricLabelsAllowlist)."
            )


def _selector_labels(obj: Object, selector: str) -> dict[str, str] | None:
    """The labels of a selector; None for none at all, which selects nothing."""
    found = obj["spec"].get(selector)
    return None if found is None else dict(found.get("matchLabels") or {})


def _strategy(obj: Object) -> str:
    strategy = obj["spec"].get("alertmanagerConfigMatcherStrategy") or {}
    return str(strategy.get("type") or "OnNamespace")  # the default of the operator


def _missing_labels(obj: Object) -> dict[str, list[str]] | None:
    arguments = list(_arguments(obj))
    if any(argument.startswith("--config=") for argument in arguments):
        return None  # A file of it may have them.
    allowed = _allow_list(arguments)
    missing = {
        kind: [label for label in labels if not {label, "*"} & allowed.get(kind, set())]
        for kind, labels in _WANTED.items()
    }
    return {kind: labels for kind, labels in missing.items() if labels}


def _arguments(obj: Object) -> Iterator[str]:
    for container in obj["spec"]["template"]["spec"].get("containers") or ():
        yield from (*(container.get("command") or ()), *(container.get("args") or ()))


def _allow_list(arguments: Iterable[str]) -> dict[str, set[str]]:
    """``pods=[a,b],nodes=[*]`` by kind; the flag may be given several times, and its value be the next argument."""
    found: dict[str, set[str]] = {}
    flag = ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name == _ALLOW_LIST and equals:
            text = value
        elif flag == _ALLOW_LIST:
            text = argument
        else:
            text = ""
        flag = argument
        for part in text.split("],"):
            kind, _bracket, labels = part.partition("=[")
            found.setdefault(kind.strip(), set()).update(label.strip() for label in labels.rstrip("]").split(","))
    return found
