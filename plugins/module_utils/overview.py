# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_status: pools, quotas, nodes and jobs, as far as the account may read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from .cluster.nodes import node_row
from .cluster.read import read_nodes_with_usage
from .jobs.job_info import JobInfoOptions
from .jobs.job_info import run as read_jobs
from .jobs.job_rows import age
from .jobs.select import JOB_KINDS
from .kube.errors import ApiError, if_allowed
from .kube.resources import NAMESPACE
from .manifest.problems import nearest
from .namespaces import NamespaceOptions
from .options import option
from .pools.pool_info import read_pool_rows
from .quotas.quota_info import QuotaInfoOptions
from .quotas.quota_info import run as read_quotas
from .task import ModuleSpec, Task, TaskFailed

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class StatusOptions(NamespaceOptions):
    namespaces: list[str] | None = option("list", elements="str", aliases=["namespace"])
    pool: str | None = option("str")
    kind: str | None = option("str", choices=list(JOB_KINDS))
    status: str | None = option("str")
    name: str | None = option("str")
    pods: bool = option("bool", default=False)
    all: bool = option("bool", default=False)
    watch: int | None = option("int")


def run(task: Task[StatusOptions]) -> dict[str, Any]:
    """Sends the list requests of gpuctl_job_info with pods, of gpuctl_quota_info, and those of pools and nodes once.

    ``unreadable`` has the error for what the account may not read. Jobs are indispensable. Raises TaskFailed for a
    namespace, pool or job that does not exist.
    """
    options = task.options
    if options.watch is not None and options.watch < 1:
        raise TaskFailed(f"watch: {options.watch} is below 1. Give the seconds between two reads.")
    unreadable: dict[str, str] = {}
    jobs = read_jobs(task.with_options(_job_options(options)))
    quota_task = task.with_options(
        QuotaInfoOptions(namespaces=options.namespaces, allowed_namespaces=options.allowed_namespaces)
    )
    quotas = _if_readable(unreadable, "quotas", lambda: read_quotas(quota_task))
    cluster = _if_readable(unreadable, "nodes", lambda: _pools_and_nodes(task))
    if options.pool and "pools" in cluster:
        _require("pool", options.pool, {row["name"] for row in cluster["pools"]})
    found = {row["namespace"] for row in (*jobs["results"], *quotas.get("results", ()))}
    for namespace in options.namespaces or ():
        if namespace not in found:
            _require_namespace(task, namespace)
    if options.name and not jobs["results"]:
        of_all = replace(_job_options(options), name=None, kind=None, pool=None, status=None, pods=False)
        _require("job", options.name, {row["name"] for row in read_jobs(task.with_options(of_all))["results"]})
    return {
        "changed": False,
        "jobs": with_restarts(jobs["results"], jobs["pods"], datetime.now(timezone.utc)),
        "pods": jobs["pods"] if options.pods else [],
        "quotas": quotas.get("results", []),
        "pools": [row for row in cluster.get("pools", ()) if options.pool in (None, "", row["name"])],
        "nodes": [row for row in cluster.get("nodes", ()) if options.pool in (None, "", *row["bound_pools"])],
        "unreadable": unreadable,
    }


MODULE = ModuleSpec(StatusOptions, run)


def _job_options(options: StatusOptions) -> JobInfoOptions:
    return JobInfoOptions(
        name=options.name,
        kind=options.kind,
        pool=options.pool,
        status=options.status,
        namespaces=options.namespaces,
        allowed_namespaces=options.allowed_namespaces,
        pods=True,
    )


def _if_readable(unreadable: dict[str, str], what: str, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return read()
    except ApiError as error:
        if not error.is_forbidden:
            raise
        unreadable[what] = str(error)
        return {}


def _pools_and_nodes(task: Task[StatusOptions]) -> dict[str, Any]:
    nodes, uses = read_nodes_with_usage(task.client())
    pools = read_pool_rows(task, nodes, uses)
    return {"pools": pools, "nodes": [node_row(node) for node in sorted(nodes, key=lambda node: node.name)]}


def _require_namespace(task: Task[StatusOptions], name: str) -> None:
    """Raises TaskFailed if the namespace does not exist, as far as the account may know."""
    client = task.client()
    if if_allowed(lambda: client.get(NAMESPACE, None, name) is None, False):
        known = if_allowed(lambda: client.list_objects(NAMESPACE, metadata_only=True), list[dict[str, Any]]())
        _require("namespace", name, {obj["metadata"]["name"] for obj in known})


def _require(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        meant = nearest(name, known)
        raise TaskFailed(f"{what} not found: {name}. {f'Did you mean {meant}?' if meant else 'Check its name.'}")


def with_restarts(jobs: Iterable[Row], pods: Iterable[Row], now: datetime) -> list[Row]:
    """The rows of jobs with ``restarts`` of their containers, ``running_for``, and ``node``. Pure.

    ``running_for`` is the time since the last container has started; None if no pod runs.
    """
    own: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for pod in pods:
        own[_key(pod)].append(pod)
    return [{**job, **_of_pods(own[_key(job)], now)} for job in jobs]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["namespace"], row["name"], row["kind"]


def _of_pods(pods: list[Row], now: datetime) -> Row:
    started = [pod["started_at"] for pod in pods if pod["started_at"]]
    return {
        "restarts": sum(pod["restarts"] for pod in pods),
        "running_for": age(max(started), now) if started else None,
        "nodes": sorted({pod["node"] for pod in pods if pod["node"]}),
    }
