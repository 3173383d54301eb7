# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Pools as they are: their nodes by label, what these have and what is used of it, and which jobs use it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ..cluster.nodes import ACTIVE, FAULTY, MAINTAINING, Node, PodUse
from ..labels import DEFAULT_POOL, GPU


def pool_rows(
    declared: Mapping[str, str | None], nodes: Iterable[Node], uses: Iterable[PodUse]
) -> list[dict[str, Any]]:
    """One row for every pool that is declared (name -> description), has nodes or has jobs, and for ``default``."""
    members: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        members[node.pool].append(node)
    jobs = _jobs_by_pool(uses, {node.name: node.pool for own in members.values() for node in own})
    names = {DEFAULT_POOL, *declared, *members, *jobs}
    return [_row(name, declared.get(name), members.get(name, []), jobs.get(name, [])) for name in sorted(names)]


def _row(name: str, description: str | None, nodes: list[Node], jobs: list[dict[str, Any]]) -> dict[str, Any]:
    types: dict[str, int] = defaultdict(int)
    for node in nodes:
        if node.gpu_type:
            types[node.gpu_type] += node.allocatable[GPU]
    return {
        "name": name,
        "description": description or None,
        "status": _status(nodes),
        "gpu_total": sum(node.allocatable[GPU] for node in nodes),
        "gpu_used": sum(node.used.get(GPU, 0) for node in nodes),
        "gpu_free": sum(node.free(GPU) for node in nodes),
        "gpu_type": dict(sorted(types.items())),
        "node_count": len(nodes),
        "nodes": sorted(node.name for node in nodes),
        "jobs": jobs,
    }


def _status(nodes: list[Node]) -> str:
    """``active`` while any of its nodes takes pods, or there are none to be ill; else what is worst."""
    states = {node.status for node in nodes}
    if ACTIVE in states or not states:
        return ACTIVE
    return FAULTY if FAULTY in states else MAINTAINING


def _jobs_by_pool(uses: Iterable[PodUse], pool_of_node: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """The jobs with pods in a pool, or waiting for it.

    A pod that has a node counts where the node is now, as its GPUs do, whatever pool it asked for; any other one where
    it wants to go.
    """
    pods: dict[tuple[str, str, str], list[PodUse]] = defaultdict(list)
    for use in uses:
        pool = pool_of_node.get(use.node or "") or use.pool
        if pool and use.job and use.job_kind:
            pods[pool, use.namespace, use.job].append(use)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (pool, namespace, name), own in sorted(pods.items()):
        placed = [use for use in own if use.node]
        rows[pool].append(
            {
                "name": name,
                "namespace": namespace,
                "kind": own[0].job_kind,
                "gpu": sum(use.gpu for use in placed),
                "pods": len(placed),
                "pods_waiting": len(own) - len(placed),
            }
        )
    return rows
