# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_pool_info: the pools by the labels of their nodes, with usage and jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..accelerators.catalog import divisions_of
from ..accelerators.hardware import UnfitHardware
from ..cluster.declared import Declared, read_declared
from ..cluster.lookup import not_found
from ..cluster.nodes import ACTIVE, FAULTY, MAINTAINING, Node, PodUse, accelerator_rows
from ..cluster.pool_declarations import hardware_fields, queue_fields
from ..cluster.read_devices import read_nodes_with_usage
from ..kube.resources import CONFIG_MAP
from ..labels import DEFAULT_POOL, pool_config_map_name
from ..options import Options, option
from ..task import ModuleSpec, Task


@dataclass(frozen=True, kw_only=True)
class PoolInfoOptions(Options):
    name: str | None = option("str")


def run(task: Task[PoolInfoOptions]) -> dict[str, Any]:
    """Sends three lists of requests: nodes, unfinished pods, and the pools' declarations."""
    name = task.options.name
    client = task.client()
    declared = read_declared(client, task.warn, again=True)
    rows = read_pool_rows(task, declared, *read_nodes_with_usage(client, declared=declared))
    found = [row for row in rows if not name or row["name"] == name]
    if name and not found:
        task.warn(not_found("pool", name, [row["name"] for row in rows]))
    return {"changed": False, "results": found}


MODULE = ModuleSpec(PoolInfoOptions, run)


def read_pool_rows(
    task: Task[Any], declared: Declared, nodes: Iterable[Node], uses: Iterable[PodUse] | None
) -> list[dict[str, Any]]:
    """A row for each pool, with what it declares, and what is wrong with that. Raises ApiError if it is forbidden."""
    if declared.refusal:
        raise declared.refusal
    pools, prefix = declared.pools, pool_config_map_name("")
    problems = {pool: declaration.problem for pool, declaration in pools.items()}
    malformed = (
        each for each in task.malformed_objects() if each.kind == CONFIG_MAP.kind and each.name.startswith(prefix)
    )
    problems |= {each.name.removeprefix(prefix): each.sentence for each in malformed}
    descriptions = {pool: pools[pool].description if pool in pools else None for pool in problems}
    hardware = {pool: hardware_fields(declaration.hardware) for pool, declaration in pools.items()}
    queues = {pool: queue_fields(declaration.queue) for pool, declaration in pools.items()}
    nodes = list(nodes)
    divisions = {pool: _division(declared, pool, nodes) for pool in pools}
    return [
        {
            **row,
            "hardware": hardware.get(row["name"], {}),
            "queue": queues.get(row["name"], {}),
            "division": divisions.get(row["name"], []),
            "problem": problems.get(row["name"]),
        }
        for row in pool_rows(descriptions, nodes, uses)
    ]


def _division(declared: Declared, pool: str, nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """What the nodes of a pool that declares how they are divided say of it."""
    try:
        wanted = divisions_of(declared.profiles.profiles, declared.pools[pool].hardware)
    except UnfitHardware:  # The profile has changed since it was declared.
        return []
    return [
        {"node_name": node.name, "done": {"done": True, "unknown": None}.get(state, False), "state": state}
        for node in sorted(nodes, key=lambda node: node.name)
        if node.pool == pool
        for state in (division.state(node.labels) for division in wanted)
    ]


def pool_rows(
    descriptions: Mapping[str, str | None], nodes: Iterable[Node], uses: Iterable[PodUse] | None
) -> list[dict[str, Any]]:
    """A row for each pool that is declared or has nodes, and for ``default``. What only a job names is no pool. Pure.

    Without the pods (None), usage and jobs of the pools are None.
    """
    members: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        members[node.pool].append(node)
    jobs = _jobs_by_pool(uses or (), {node.name: node.pool for own in members.values() for node in own})
    names = {DEFAULT_POOL, *descriptions, *members}
    rows = [
        _pool_row(name, descriptions.get(name), members.get(name, []), jobs.get(name, [])) for name in sorted(names)
    ]
    return rows if uses is not None else [{**row, **dict.fromkeys(("gpu_used", "gpu_free", "jobs"))} for row in rows]


def _pool_row(name: str, description: str | None, nodes: list[Node], jobs: list[dict[str, Any]]) -> dict[str, Any]:
    types: dict[str, int] = defaultdict(int)
    for node in nodes:
        if node.gpu_type:
            types[node.gpu_type] += node.gpu_total
    return {
        "name": name,
        "description": description or None,
        "status": _pool_status(nodes),
        "gpu_total": sum(node.gpu_total for node in nodes),
        "gpu_used": sum(node.gpu_used for node in nodes),
        "gpu_free": sum(node.gpu_free for node in nodes),
        "gpu_type": dict(sorted(types.items())),
        "accelerators": accelerator_rows(nodes),
        "node_count": len(nodes),
        "nodes": sorted(node.name for node in nodes),
        "jobs": jobs,
    }


def _pool_status(nodes: list[Node]) -> str:
    """``active`` if any node accepts pods or the pool is empty, else the worst status of the nodes."""
    found = {node.status for node in nodes}
    if ACTIVE in found or not found:
        return ACTIVE
    return FAULTY if FAULTY in found else MAINTAINING


def _jobs_by_pool(uses: Iterable[PodUse], pool_of_node: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """The jobs with pods in a pool, or waiting for it.

    A scheduled pod counts for the pool of its node, as its GPUs do; a waiting pod for the pool that it requests.
    """
    pods: dict[tuple[str, str, str], list[PodUse]] = defaultdict(list)
    for use in uses:
        pool = pool_of_node.get(use.node or "") or use.pool
        if pool and use.job and use.job_kind:
            pods[pool, use.namespace, use.job].append(use)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (pool, namespace, name), own in sorted(pods.items()):
        scheduled = [use for use in own if use.node]
        rows[pool].append(
            {
                "name": name,
                "namespace": namespace,
                "kind": own[0].job_kind,
                "gpu": sum(use.gpu for use in scheduled),
                "pods": len(scheduled),
                "pods_waiting": len(own) - len(scheduled),
            }
        )
    return rows
