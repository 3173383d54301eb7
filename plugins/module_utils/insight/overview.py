# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_status: pools, quotas, nodes and jobs, as far as the account may read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeVar

from ..cluster.declared import read_declared
from ..cluster.lookup import not_found
from ..cluster.nodes import Node, PodUse, node_row, slim_node, with_use
from ..cluster.read_devices import with_devices
from ..cluster.read_nodes import read_uses
from ..jobs.job_options import JOB_KINDS
from ..kube.errors import ApiError
from ..kube.resources import NODE
from ..listed_namespaces import ListedNamespacesOptions, in_requested_namespaces, read_permitted
from ..nodes.node_info import NODE_STATUSES, NodeInfoOptions, full_key
from ..options import option
from ..pools.pool_info import pool_rows, read_pool_rows
from ..quotas.quota_info import QuotaInfoOptions, read_quota_rows
from ..task import ModuleSpec, Task, TaskFailed
from .jobs.job_info import JobInfoOptions, names_not_found, read_jobs_info
from .jobs.job_rows import age

Row = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class StatusOptions(ListedNamespacesOptions):
    pool: str | None = option("str")
    kind: str | None = option("str", choices=list(JOB_KINDS))
    status: str | None = option("str")
    nodes: list[str] | None = option("list", elements="str")
    gpu_type: str | None = option("str")
    label_keys: list[str] | None = option("list", elements="str", no_log=False)
    table: str | None = option("str", choices=["jobs", "nodes", "pools", "quotas"])
    format: str = option("str", choices=["table", "json", "yaml"], default="table")
    name: str | None = option("str")
    pods: bool = option("bool", default=False)
    all: bool = option("bool", default=False)
    watch: int | None = option("int")
    show: bool = option("bool", default=True)
    clusters: Any = option("raw")


def run(task: Task[StatusOptions]) -> dict[str, Any]:
    """Sends the list requests of gpuctl_job_info with pods, of gpuctl_quota_info, and those of pools and nodes once.

    ``unreadable`` has the error for what the account may not read. Jobs are indispensable. Raises TaskFailed for a
    namespace, pool or job that does not exist.
    """
    options = task.options
    if options.clusters is not None:
        return {**merged_status(options.clusters), "format": options.format}
    if options.watch is not None and options.watch < 1:
        raise TaskFailed(f"watch: {options.watch} is below 1. Give the seconds between two reads.")
    unreadable: dict[str, str] = {}
    listed, own = in_requested_namespaces(task)
    job_task = task.with_options(_job_options(options, listed.options.namespaces))
    job_task, (found, uses) = read_permitted(job_task, read_jobs_info)
    jobs = with_restarts(found["results"], found["pods"], datetime.now(timezone.utc))
    pods = found["pods"] if options.pods else []
    del found  # There may be tens of thousands of pods.
    quotas = _if_readable(unreadable, "quotas", lambda: _quota_rows(job_task)) or []
    nodes, pools = _nodes_and_pools(task, uses, unreadable)
    for problem in names_not_found(job_task, jobs, {row["namespace"] for row in quotas}):
        raise _not_found_failure(problem)
    return {
        "changed": False,
        "format": options.format,
        "namespace": own,
        "jobs": jobs,
        "pods": pods,
        "quotas": quotas,
        "pools": [row for row in pools if options.pool in (None, "", row["name"])],
        "nodes": nodes,
        "unreadable": unreadable,
    }


MODULE = ModuleSpec(StatusOptions, run)


TABLES = ("jobs", "pods", "quotas", "pools", "nodes")


def merged_status(clusters: Any) -> dict[str, Any]:
    """What tasks have returned for several clusters as one; each row names its cluster. Pure.

    Raises TaskFailed for no result at all, for what is no result of such a task, and for a name that no cluster has.
    """
    if not clusters or not isinstance(clusters, Mapping):
        raise TaskFailed("O(clusters): no results. Give it the result of at least one cluster, or leave it out.")
    merged: dict[str, Any] = {"changed": False, "clusters": [], "namespace": None, "unreadable": {}}
    for name, result in clusters.items():
        is_read = _is_read(result)
        if not is_read and not (isinstance(result, Mapping) and result.get("msg")):
            raise TaskFailed(
                f"O(clusters): that of {name} is no result of M(gpuctl_status). Register its task for each host."
            )
        about = {
            "cluster": name,
            "error": None if is_read else str(result["msg"]),
            "is_found": "not_found" not in result,
        }
        merged["clusters"].append({**about, **{key: result.get(key) for key in ("namespace", "unreadable")}})
    if not any(each["is_found"] for each in merged["clusters"]):
        raise TaskFailed("\n".join(dict.fromkeys(each["error"] for each in merged["clusters"])))
    return {**merged, **merged_tables(clusters)}


def merged_tables(clusters: Mapping[str, Any]) -> dict[str, list[Row]]:
    """The rows of all results that have some; each names its cluster."""
    read = {name: result for name, result in clusters.items() if _is_read(result)}
    return {
        table: [{"cluster": name, **row} for name, result in read.items() for row in result[table]] for table in TABLES
    }


def _is_read(result: Any) -> bool:
    return isinstance(result, Mapping) and all(isinstance(result.get(table), list) for table in TABLES)


def _job_options(options: StatusOptions, namespaces: list[str] | None) -> JobInfoOptions:
    return JobInfoOptions(
        name=options.name,
        kind=options.kind,
        pool=options.pool,
        status=None if options.table == "nodes" else options.status,
        namespaces=namespaces,
        allowed_namespaces=options.allowed_namespaces,
        pods=True,
    )


def _quota_rows(task: Task[JobInfoOptions]) -> list[Row]:
    options = QuotaInfoOptions(namespaces=task.options.namespaces, allowed_namespaces=task.options.allowed_namespaces)
    return read_quota_rows(task.with_options(options))


def _nodes_and_pools(
    task: Task[StatusOptions], of_jobs: list[PodUse] | None, unreadable: dict[str, str]
) -> tuple[list[Row], list[Row]]:
    """Their rows; without pods, their usage is not known, and without declarations, pools without nodes are missing.

    ``of_jobs``: what the pods of all jobs use, if they have been read.
    """
    client = task.client()
    declared = read_declared(client, task.warn, again=True)
    uses = _if_readable(unreadable, "usage", lambda: read_uses(client, of_jobs))
    nodes = _if_readable(unreadable, "nodes", lambda: client.list_slim(NODE, slim_node))
    if nodes is None:
        return [], []
    nodes, uses = with_devices(client, nodes if uses is None else with_use(nodes, uses), uses, declared)
    nodes = sorted(nodes, key=lambda node: node.name)
    pools = _if_readable(unreadable, "pools", lambda: read_pool_rows(task, declared, nodes, uses))
    if pools is None:
        pools = [{**row, "hardware": {}, "division": [], "problem": None} for row in pool_rows({}, nodes, uses)]
    return _selected_nodes(task.options, nodes), pools


def _selected_nodes(options: StatusOptions, nodes: list[Node]) -> list[Row]:
    """As gpuctl_node_info selects them. Raises TaskFailed for what does not exist."""
    types = {node.gpu_type for node in nodes if node.gpu_type}
    if options.gpu_type and options.gpu_type.lower() not in map(str.lower, types):
        raise _not_found_failure(not_found("GPU type", options.gpu_type, sorted(types)))
    for name in options.nodes or ():
        if name not in {node.name for node in nodes}:
            raise _not_found_failure(not_found("node", name, [node.name for node in nodes]))
    status = options.status or None if options.table == "nodes" else None
    if status not in (None, *NODE_STATUSES):
        raise TaskFailed(not_found("status", status, NODE_STATUSES))
    selection = NodeInfoOptions(nodes=options.nodes, pool=options.pool, gpu_type=options.gpu_type, status=status)
    keys = [full_key(key) for key in options.label_keys or ()]
    return [node_row(node, keys) for node in nodes if selection.selects(node)]


def _not_found_failure(problem: str) -> TaskFailed:
    """Of several clusters, one may have what another one lacks."""
    return TaskFailed(problem, not_found=[problem])


def _if_readable(unreadable: dict[str, str], what: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except ApiError as error:
        if not error.is_forbidden:
            raise
        unreadable[what] = str(error)
        return None


def with_restarts(jobs: Iterable[Row], pods: Iterable[Row], now: datetime) -> list[Row]:
    """The rows of jobs with ``restarts`` of their containers, ``running_for``, and ``node``. Pure.

    ``running_for`` is the time since the last container has started; None if no pod runs.
    """
    own: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for pod in pods:
        own[_row_key(pod)].append(pod)
    return [{**job, **_columns_of_pods(own[_row_key(job)], now)} for job in jobs]


def _row_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["namespace"], row["name"], row["kind"]


def _columns_of_pods(pods: list[Row], now: datetime) -> Row:
    started = [pod["started_at"] for pod in pods if pod["started_at"]]
    return {
        "restarts": sum(pod["restarts"] for pod in pods),
        "running_for": age(max(started), now) if started else None,
        "nodes": sorted({pod["node"] for pod in pods if pod["node"]}),
    }
