# SPDX-License-Identifier: BSD-2-Clause
"""What would run once an autoscaler has added nodes, by what pools declare of these (new_nodes). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...accelerators.catalog import catalog
from ...accelerators.hardware import DEFAULT_ACCELERATOR, PoolHardware
from ...cluster.pod_facts import PODS, RoomyNode, roomy_node
from ...labels import GPU_TYPE, GPU_TYPE_INTERNAL, HOSTNAME, POOL
from ...manifest.problems import number_of
from .fit import Fit, fit_jobs
from .fit_rows import Places, competition_text, shortage_text
from .fit_snapshot import FitSnapshot
from .verdicts import AFTER_JOBS, AFTER_NODES, NEVER, NOW

_ENOUGH = {"cpu": "100000", "memory": "1Pi"}  # of what is not declared
_PODS = "110"  # by default (kubelet, maxPods)


def after_new_nodes(
    row: dict[str, Any],
    fit: Fit,
    others: Iterable[Fit],
    growing: Mapping[str, PoolHardware],
    snapshot: FitSnapshot,
    places: Places,
) -> dict[str, Any]:
    """The row of a job, also if its pool may grow.

    Those of the ``others`` of its task that run now have their nodes, and no other takes the new ones.
    """
    pool = str((fit.job.pod.spec.get("nodeSelector") or {}).get(POOL))
    may_help = row["verdict"] in (NEVER, AFTER_JOBS, AFTER_NODES) and not fit.refused and not fit.lacks
    if pool not in growing or not may_help or snapshot.nodes is None:
        return row
    there = sum(node.labels.get(POOL) == pool for node in snapshot.nodes)
    room = max(0, int(growing[pool].new_nodes["max"]) - there)
    added = [*_new_nodes(pool, growing[pool], room)]
    cluster = replace(snapshot, nodes=[*snapshot.nodes, *added]).cluster({})
    for other in others:
        for name in other.nodes if other.verdict == NOW else ():
            cluster.world.place(other.job.pod, cluster.world.nodes[name])
    (then,) = fit_jobs(cluster, [fit.job])
    if then.verdict == AFTER_JOBS and row["verdict"] == NEVER:
        reason = f"{shortage_text(fit, places)} It runs after other jobs have ended and pool {pool} has got more nodes."
        return {**row, "verdict": AFTER_NODES, "reason": reason, "hint": None, "changes": []}
    if then.verdict != NOW:
        has = ", ".join(f"{name} {value}" for name, value in growing[pool].new_nodes.items())
        text = f"{shortage_text(fit, places)} The nodes that pool {pool} may still get do not help ({room}; {has})."
        return {**row, "reason": text, "hint": None} if row["verdict"] == NEVER and not row["changes"] else row
    number = len({node.name for node in added} & {*then.nodes})
    if not number:  # Whether it runs depends on the order in which pods end and start, not on new nodes.
        return row
    them = f"{number_of(number, 'node')} {'is' if number == 1 else 'are'} added"
    then_runs = f"It runs after {them}, of {room} that pool {pool} may still get."
    reason = f"{shortage_text(fit, places)} {then_runs}{competition_text(fit)}"
    return {**row, "verdict": AFTER_NODES, "reason": reason, "hint": None, "after": [], "runs_at": None, "changes": []}


def _new_nodes(pool: str, hardware: PoolHardware, number: int) -> Iterator[RoomyNode]:
    declared = hardware.new_nodes
    profile = catalog().profiles.get(hardware.accelerator or DEFAULT_ACCELERATOR)
    rows = profile.resources() if profile else ()
    resource = next((row.resource for row in rows if row.is_whole_device), None)
    allocatable = {PODS: _PODS, **{name: declared.get(name, enough) for name, enough in _ENOUGH.items()}}
    if resource:
        allocatable[resource] = declared.get("gpu", "0")
    kind = declared.get("gpu_type")
    types = {GPU_TYPE: kind, GPU_TYPE_INTERNAL: kind} if kind else {}
    for each in range(1, number + 1):
        name = f"new node {each} of pool {pool}"  # no valid name of a node
        metadata = {"name": name, "labels": {POOL: pool, HOSTNAME: name, **types}, "creationTimestamp": ""}
        ready = [{"type": "Ready", "status": "True"}]
        yield roomy_node({"metadata": metadata, "status": {"allocatable": allocatable, "conditions": ready}})
