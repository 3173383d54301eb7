# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_monitoring_info: what the role monitoring installs, and what the cluster has of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...accelerators.catalog import catalog
from ...cluster.declared import read_declared
from ...kube.client import Client
from ...kube.concurrency import run_concurrently
from ...kube.discovery import group_versions, served_kinds
from ...kube.errors import ApiError, as_sentence
from ...kube.resources import ALERTMANAGER, DEPLOYMENT, PROMETHEUS, STATEFUL_SET, Object
from ...options import Options, option
from ...task import ModuleSpec, Task, TaskFailed
from ..prometheus.alerts import DEFAULT_INTERVAL, AlertProblem, rule_groups
from ..prometheus.promql import Queries, plain_queries, reserved_metrics
from .adapter import adapter_rules
from .installed import (
    KUBE_STATE_METRICS,
    Installed,
    alertmanager_rows,
    apis,
    place,
    problems,
    prometheus_rows,
    state_metrics_rows,
)


@dataclass(frozen=True, kw_only=True)
class MonitoringInfoOptions(Options):
    accelerators: list[str] | None = option("list", elements="str")
    alerts: dict[str, Any] | None = option("dict")
    interval: str = option("str", default=DEFAULT_INTERVAL)
    exporter_jobs: list[str] | None = option("list", elements="str")
    state_metrics_jobs: list[str] | None = option("list", elements="str")


def run(task: Task[MonitoringInfoOptions]) -> dict[str, Any]:
    """Sends one list for what administrators declare, one request for the APIs, and one list for each of four kinds."""
    options, client = task.options, task.client()
    read_declared(client, task.warn)
    queries = _queries_for(options)
    try:
        groups = rule_groups(queries, options.alerts, options.interval)
    except AlertProblem as problem:
        raise TaskFailed.before_any_write([str(problem)]) from None
    installed = read_installed(client)
    return {
        "changed": False,
        "groups": groups,
        "exporters": _exporter_rows(queries),
        "reserved_metrics": reserved_metrics(catalog()),
        "adapter_rules": adapter_rules(queries),
        "apis": apis(installed),
        "place": place(installed),
        "prometheuses": prometheus_rows(installed),
        "alertmanagers": alertmanager_rows(installed),
        "kube_state_metrics": state_metrics_rows(installed),
        "problems": list(problems(installed)),
    }


MODULE = ModuleSpec(MonitoringInfoOptions, run)


def _queries_for(options: MonitoringInfoOptions) -> Queries:
    known, names = catalog().profiles, options.accelerators or []
    unknown = [name for name in names if name not in known]
    if unknown:
        text = f"accelerators: unknown accelerator: {unknown[0]}. Known are {', '.join(sorted(known))}."
        raise TaskFailed.before_any_write([text])
    exporters, states = ("|".join(jobs or ()) for jobs in (options.exporter_jobs, options.state_metrics_jobs))
    return plain_queries(catalog(), names=names, exporter_jobs=exporters, state_jobs=states)


def _exporter_rows(queries: Queries) -> list[dict[str, Any]]:
    """The ports of exporters, each once: those of several accelerators can be one program."""
    ports: dict[int, list[str]] = {}
    for series in queries.exporters:
        if series.exporter.port:
            ports.setdefault(series.exporter.port, []).append(series.exporter.profile)
    return [{"port": port, "accelerators": names} for port, names in ports.items()]


def read_installed(client: Client) -> Installed:
    """Kinds that the account has no permission to read are left empty, and ``unknown`` names them."""
    served = group_versions(client)
    kinds = served_kinds(client, PROMETHEUS.api_version) if PROMETHEUS.api_version in served else frozenset()
    readers: dict[str, Callable[[], list[Object]]] = {
        KUBE_STATE_METRICS: lambda: _state_metrics(client),
        **{
            resource.kind: lambda resource=resource: client.list_objects(resource)  # type: ignore[misc]
            for resource in (PROMETHEUS, ALERTMANAGER)
            if resource.kind in kinds
        },
    }
    unknown: dict[str, str] = {}

    def read(name: str) -> list[Object]:
        try:
            return readers[name]()
        except ApiError as error:
            if error.is_forbidden:
                unknown[name] = f"{name} cannot be read: {as_sentence(error)}"
            else:
                raise
            return []

    found: Mapping[str, list[Object]] = dict(
        zip(readers, run_concurrently(read, readers, client.concurrency), strict=True)
    )
    installed = Installed(served, unknown=unknown, state_metrics=found[KUBE_STATE_METRICS])
    return replace(
        installed,
        prometheuses=_by_place(found.get(PROMETHEUS.kind, [])),
        alertmanagers=_by_place(found.get(ALERTMANAGER.kind, [])),
    )


def _state_metrics(client: Client) -> list[Object]:
    labels = f"app.kubernetes.io/name={KUBE_STATE_METRICS}"
    return _by_place([obj for kind in (DEPLOYMENT, STATEFUL_SET) for obj in client.list_objects(kind, labels=labels)])


def _by_place(objects: list[Any]) -> list[Object]:
    return sorted(objects, key=lambda obj: (obj["metadata"]["namespace"], obj["metadata"]["name"]))
