# SPDX-License-Identifier: BSD-2-Clause
"""Pools, nodes, teams and quotas before and after a plan. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...cluster.nodes import Node, PodUse
from ...kube.resources import Object
from ...labels import DEFAULT_POOL, POOL
from ...quantity import parse
from ...quotas.usage import quota_name_of, usage
from .plan_effects import PlanEffect

Row = dict[str, Any]

_LIMITS = ("gpu", "gpu_share", "gpu_memory", "cpu", "memory", "pods")


def node_rows(
    before: Sequence[Node], after: Sequence[Node], uses: Iterable[PodUse], effects: Sequence[PlanEffect]
) -> list[Row]:
    """The nodes with accelerators or a pool, their pools, and their GPUs in use.

    What runs stays where it is, also on a node that moves to another pool, because the scheduler reads a nodeSelector
    once: ``jobs`` of such a node are those whose next pods cannot be placed there.
    """
    ending = {uid for effect in effects for uid in effect.ending}
    by_node: dict[str, list[PodUse]] = defaultdict(list)
    for use in uses:
        if use.node:
            by_node[use.node].append(use)
    placed: dict[str, int] = defaultdict(int)
    for effect in effects:
        for name, gpus in effect.placed.items():
            placed[name] += gpus
    later = {node.name: node for node in after}
    rows = []
    for node in sorted(before, key=lambda each: each.name):
        then = later.get(node.name, node)
        if not (node.gpu_total or POOL in node.labels or POOL in then.labels):
            continue
        own = by_node[node.name]
        stays = sum(use.gpu for use in own if use.uid not in ending)
        rows.append(
            {
                "node": node.name,
                "pool_before": node.pool,
                "pool_after": then.pool,
                "moves": node.pool != then.pool,
                "gpus": node.gpu_total,
                "used_before": sum(use.gpu for use in own),
                "used_after": min(node.gpu_total, stays + placed[node.name]),
                "jobs": _jobs_on_node([use for use in own if use.uid not in ending]) if node.pool != then.pool else [],
            }
        )
    return rows


def _jobs_on_node(uses: Iterable[PodUse]) -> list[Row]:
    gpus: dict[tuple[str, str, str], int] = defaultdict(int)
    for use in uses:
        if use.job:
            gpus[use.namespace, use.job, use.job_kind or ""] += use.gpu
    return [
        {"namespace": namespace, "name": name, "kind": kind or None, "gpus": number}
        for (namespace, name, kind), number in sorted(gpus.items())
    ]


def pool_rows_of(nodes: Iterable[Row], effects: Iterable[PlanEffect], declared: Collection[str]) -> list[Row]:
    """Nodes and GPUs of each pool, and how many of these are in use, before and after."""
    rows: dict[str, Row] = {}

    def row(pool: str) -> Row:
        numbers = ("nodes_before", "nodes_after", "gpus_before", "gpus_after", "used_before", "used_after")
        return rows.setdefault(pool, {"pool": pool, **dict.fromkeys(numbers, 0)})

    for pool in declared:
        row(pool)
    for node in nodes:
        for when in ("before", "after"):
            found = row(node[f"pool_{when}"])
            found[f"nodes_{when}"] += 1
            found[f"gpus_{when}"] += node["gpus"]
            found[f"used_{when}"] += node[f"used_{when}"]
    for effect in effects:
        if effect.unplaced:
            found = row(_pool_of_job(effect))
            found["used_after"] = min(found["gpus_after"], found["used_after"] + effect.unplaced)
    return sorted(rows.values(), key=lambda row: (row["pool"] == DEFAULT_POOL, row["pool"]))


def _pool_of_job(effect: PlanEffect) -> str:
    job = effect.manifest.job
    return job.model.resources.pool if job is not None and job.model is not None else DEFAULT_POOL


def quota_rows_of(before: Iterable[Object], after: Iterable[Object], effects: Iterable[PlanEffect]) -> list[Row]:
    """The limits of each quota in each namespace. The use of GPUs afterwards follows from the pods that exist: a quota
    also counts those that wait for a node."""
    change: dict[str, int] = defaultdict(int)
    for effect in effects:
        change[effect.manifest.namespace] += effect.gpus_counted - effect.gpus_requested
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
    for when, objects in (("before", before), ("after", after)):
        for obj in objects:
            if name := quota_name_of(obj):
                found[obj["metadata"]["namespace"], name][when] = usage(obj)
    return [
        {"namespace": namespace, "quota": name, "resource": resource, **row}
        for (namespace, name), uses in sorted(found.items())
        for resource in _LIMITS
        if (row := _limit_row(uses, resource, change[namespace]))
    ]


def below_use(quotas: Iterable[Row]) -> Iterator[str]:
    """A sentence for each limit below what is in use: a ResourceQuota refuses new pods, and stops none."""
    for row in quotas:
        used, hard = row["used_before"], row["hard_after"]
        if hard is None or used is None or hard == row["hard_before"]:
            continue
        if parse(str(used)).value > parse(str(hard)).value:
            yield (
                f"quota {row['quota']} allows namespace {row['namespace']} {row['resource']} {hard}, and {used} are in "
                f"use. What runs goes on, and new pods are refused until less than that is in use."
            )


def _limit_row(uses: Mapping[str, dict[str, Any]], resource: str, change: int) -> Row | None:
    old, new = ((uses.get(when) or {}).get(resource) for when in ("before", "after"))
    if not old and not new:
        return None
    used = old["used"] if old else None
    then = None
    if resource == "gpu" and new and (not old or used is not None):
        then = max(0, int(used or 0) + change)
        then = min(then, max(int(new["hard"]), int(used or 0)))  # More pods are refused.
    return {
        "hard_before": old["hard"] if old else None,
        "hard_after": new["hard"] if new else None,
        "used_before": used,
        "used_after": then,
    }


def team_rows(uses: Iterable[PodUse], effects: Iterable[PlanEffect]) -> list[Row]:
    """The GPUs that the pods of each namespace hold."""
    rows: dict[str, Row] = {}

    def row(namespace: str) -> Row:
        return rows.setdefault(namespace, {"namespace": namespace, "gpus_before": 0, "gpus_after": 0})

    for use in uses:
        if use.node and use.gpu:
            found = row(use.namespace)
            found["gpus_before"] += use.gpu
            found["gpus_after"] += use.gpu
    for effect in effects:
        if effect.gpus_after != effect.gpus_before:
            row(effect.manifest.namespace)["gpus_after"] += effect.gpus_after - effect.gpus_before
    return [rows[namespace] for namespace in sorted(rows)]
