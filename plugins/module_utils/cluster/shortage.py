# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Why a pod finds no node: what it asks for, where that could be, by how much it is short, and what would help. Pure.

The scheduler's own message counts nodes by reason ("0/40 nodes are available: 32 node(s) didn't match ..."); it does
not say which pool or GPU type is meant, how much is free, or that no node will ever be large enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..labels import DEFAULT_POOL, GPU, GPU_TYPE, POOL
from .nodes import ACTIVE, COUNTED, FAULTY, MAINTAINING, Node, cores, gibibytes
from .requests import pod_requests


def shortage_of(pod: Mapping[str, Any], nodes: Sequence[Node]) -> str | None:
    """One sentence for an unscheduled pod over all nodes, or None when nothing that is known here stands in its way.

    The checks go from what can never come true to what waiting may cure.
    """
    selector = pod["spec"].get("nodeSelector") or {}
    pool = selector.get(POOL, DEFAULT_POOL)
    place = f"pool {pool}"
    members = [node for node in nodes if node.pool == pool]
    if not members:
        return f"no node is in {place}; add nodes to it with gpuctl_pool, or name another one in resources.pool"
    wanted_type = selector.get(GPU_TYPE)
    if wanted_type:
        typed = [node for node in members if node.labels.get(GPU_TYPE) == wanted_type]
        if not typed:
            return (
                f"no node of {place} has the GPU type {wanted_type}, {_types_there(members)}; "
                f"correct resources.gpu-type, or leave it out"
            )
        members, place = typed, f"{place} with GPU type {wanted_type}"
    requests = pod_requests(pod, COUNTED)
    return (
        _larger_than_any(requests, members, place)
        or _none_takes_pods(members, place)
        or _nothing_free(requests, members, place)
    )


def _types_there(nodes: Sequence[Node]) -> str:
    types = sorted({node.labels[GPU_TYPE] for node in nodes if node.labels.get(GPU_TYPE)})
    return f"there are {', '.join(types)}" if types else "its nodes carry no GPU type"


def _larger_than_any(requests: Mapping[str, int], nodes: Sequence[Node], place: str) -> str | None:
    for resource in COUNTED:
        largest = max(node.allocatable.get(resource, 0) for node in nodes)
        if requests[resource] > largest:
            cure = "lower it or spread the training with node_count" if resource == GPU else "lower it"
            return (
                f"it asks for {_amount(resource, requests[resource])} on one node, and the largest node of {place} has "
                f"{_amount(resource, largest)}; {cure} ({_FIELDS[resource]})"
            )
    return None


def _none_takes_pods(nodes: Sequence[Node], place: str) -> str | None:
    if any(node.status == ACTIVE for node in nodes):
        return None
    return f"none of the {len(nodes)} nodes of {place} takes pods: {_states(nodes)}"


def _nothing_free(requests: Mapping[str, int], nodes: Sequence[Node], place: str) -> str | None:
    if any(all(node.free(resource) >= requests[resource] for resource in COUNTED) for node in nodes):
        return None
    asked = [resource for resource in COUNTED if requests[resource]]
    # The scarcest resource explains most: the one that the fewest nodes have enough of.
    scarcest = min(asked, key=lambda resource: sum(node.free(resource) >= requests[resource] for node in nodes))
    best = max(nodes, key=lambda node: node.free(scarcest))
    short = requests[scarcest] - best.free(scarcest)
    wait = "wait for other jobs to end, delete one, or raise the priority"
    if short <= 0:
        return f"no single node of {place} has enough of {', '.join(_NOUNS[r] for r in asked)} free at once; {wait}"
    away = [node for node in nodes if node.status != ACTIVE]
    resting = f", {_states(away)}" if away else ""
    return (
        f"it asks for {_amount(scarcest, requests[scarcest])} on one node, and the most that is free on one of the "
        f"{len(nodes)} nodes of {place} is {_amount(scarcest, best.free(scarcest))} (on {best.name}{resting}), "
        f"{_amount(scarcest, short)} short; {wait}"
    )


def _states(nodes: Sequence[Node]) -> str:
    words = {MAINTAINING: "cordoned", FAULTY: "not ready"}
    counts = {word: sum(node.status == status for node in nodes) for status, word in words.items()}
    return " and ".join(f"{number} {word}" for word, number in counts.items() if number)


_NOUNS = {GPU: "GPUs", "cpu": "CPU", "memory": "memory"}
_FIELDS = {GPU: "resources.gpu", "cpu": "resources.cpu", "memory": "resources.memory"}


def _amount(resource: str, number: int) -> str:
    if resource == GPU:
        return f"{number} GPU" if number == 1 else f"{number} GPUs"
    return f"{cores(number)} CPU" if resource == "cpu" else f"{gibibytes(number)} of memory"
