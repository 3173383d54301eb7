# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Why a pod finds no node: what it asks for, where that could be, by how much it is short, and what would help. Pure.

The scheduler's own message counts nodes by reason ("0/40 nodes are available: 32 node(s) didn't match ..."); it does
not say which pool or GPU type is meant, how much is free, or that no node will ever be large enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..labels import DEFAULT_POOL, GPU, GPU_MEMORY, GPU_TYPE, JOB_TYPE, POOL
from .nodes import ACTIVE, COUNTED, FAULTY, MAINTAINING, Node, Taint, cores, gibibytes
from .pod_requests import pod_requests


@dataclass(frozen=True)
class Shortage:
    """What a pod does not find. ``lasting``: no job that ends gives it, only other nodes or another manifest do."""

    text: str
    lasting: bool


def shortage_of(pod: Mapping[str, Any], nodes: Sequence[Node]) -> Shortage | None:
    """What an unscheduled pod does not find on any node, or None when nothing that is known here stands in its way.

    The checks go from what can never come true to what waiting may cure. Nodes without what is used of them tell just
    the former.
    """
    place, members = _pool_of(pod, nodes)
    if not members:
        return Shortage(_empty_pool(place, nodes), lasting=True)
    selector = dict(pod["spec"].get("nodeSelector") or {})
    selector.pop(POOL, None)
    wanted_type = selector.pop(GPU_TYPE, None)
    if wanted_type:
        typed = [node for node in members if node.labels.get(GPU_TYPE) == wanted_type]
        if not typed:
            return Shortage(_no_such_type(wanted_type, members, place), lasting=True)
        members, place = typed, f"{place} with GPU type {wanted_type}"
    labelled = [node for node in members if all(node.labels.get(key) == value for key, value in selector.items())]
    if not labelled:
        marks = ", ".join(f"{key}={value}" for key, value in selector.items())
        return Shortage(f"no node of {place} has the label {marks}, which its node selector asks for", lasting=True)
    members = [node for node in labelled if not _keeping_away(node, pod)]
    if not members:
        return _all_tainted(pod, labelled, place)
    if len(members) < len(labelled):
        place = f"{place} open to it"
    requests = pod_requests(pod, COUNTED)
    too_large = _larger_than_any(requests, members, place, pod)
    if too_large:
        return too_large
    for_now = _none_takes_pods(members, place) or _nothing_free(requests, members, place)
    return Shortage(for_now, lasting=False) if for_now else None


def _pool_of(pod: Mapping[str, Any], nodes: Sequence[Node]) -> tuple[str, list[Node]]:
    """Where the pod may go, in words and as nodes: a pool, the nodes in none, or (pods of others) anywhere."""
    pool = (pod["spec"].get("nodeSelector") or {}).get(POOL)
    if pool is None and not _stays_out_of_pools(pod):
        return "the cluster", list(nodes)
    pool = pool or DEFAULT_POOL
    return f"pool {pool}", [node for node in nodes if node.pool == pool]


def _stays_out_of_pools(pod: Mapping[str, Any]) -> bool:
    """The mark of jobs without a pool (build/scheduling.py): nodes that have no pool's label."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    rule = {"key": POOL, "operator": "DoesNotExist"}
    return bool(terms) and all(rule in (term.get("matchExpressions") or ()) for term in terms)


def _empty_pool(place: str, nodes: Sequence[Node]) -> str:
    others = sorted({node.pool for node in nodes} - {DEFAULT_POOL})
    there = _there_are(others) if others else "there is no pool"
    if place == f"pool {DEFAULT_POOL}" and others:
        return f"it names no pool, and every node is in one; set resources.pool ({there})"
    if place.startswith("pool "):
        return f"no node is in {place}; correct resources.pool ({there}), or add nodes to it with gpuctl_pool"
    return f"{place} has no nodes"


def _no_such_type(wanted: str, nodes: Sequence[Node], place: str) -> str:
    types = sorted({node.labels[GPU_TYPE] for node in nodes if node.labels.get(GPU_TYPE)})
    if not types:
        return (
            f"it asks for the GPU type {wanted}, and no node of {place} has the label {GPU_TYPE}; "
            f"leave out resources.gpu-type, or set the label with gpuctl_pool or gpuctl_node_label"
        )
    return (
        f"no node of {place} has the GPU type {wanted}, {_there_are(types)}; "
        f"correct resources.gpu-type, or leave it out"
    )


def _keeping_away(node: Node, pod: Mapping[str, Any]) -> list[Taint]:
    """The taints of a node that the pod does not tolerate, without those that its state explains."""
    tolerations = pod["spec"].get("tolerations") or ()
    return [
        taint
        for taint in node.taints
        if taint.effect in ("NoSchedule", "NoExecute")
        and not taint.key.startswith("node.kubernetes.io/")
        and not any(_tolerates(toleration, taint) for toleration in tolerations)
    ]


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """Kubernetes' ``Toleration.ToleratesTaint`` (component-helpers/scheduling/corev1)."""
    if toleration.get("effect") and toleration["effect"] != taint.effect:
        return False
    if toleration.get("key") and toleration["key"] != taint.key:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == taint.value


def _all_tainted(pod: Mapping[str, Any], nodes: Sequence[Node], place: str) -> Shortage:
    keys = sorted({taint.key for node in nodes for taint in _keeping_away(node, pod)})
    if keys == [GPU]:
        text = (
            f"the nodes of {place} take only jobs that use GPUs (taint {GPU}); "
            f"name a pool with other nodes in resources.pool"
        )
        return Shortage(text, lasting=True)
    text = (
        f"every node of {place} has a taint that keeps it away ({_listed(keys)}); name another pool in resources.pool"
    )
    return Shortage(text, lasting=False)  # Taints come and go with maintenance, upgrades of drivers, new nodes.


def _larger_than_any(
    requests: Mapping[str, int], nodes: Sequence[Node], place: str, pod: Mapping[str, Any]
) -> Shortage | None:
    for resource in COUNTED:
        largest = max(node.allocatable.get(resource, 0) for node in nodes)
        if requests[resource] <= largest:
            continue
        if not largest:
            text = f"no node of {place} has {_NOUNS[resource]}; name a pool with {_NOUNS[resource]} in resources.pool"
            # A node loses its GPUs while its device plugin restarts; its type remains.
            return Shortage(text, lasting=not any(node.gpu_type for node in nodes))
        training = (pod["metadata"].get("labels") or {}).get(JOB_TYPE) == "training"
        cure = " or spread the training with resources.node_count" if resource == GPU and training else ""
        text = (
            f"it asks for {_asked(resource, requests[resource])} on one node, and the largest node of {place} has "
            f"{_there(resource, largest)}; lower {_FIELDS[resource]}{cure}"
        )
        return Shortage(text, lasting=True)
    return None


def _none_takes_pods(nodes: Sequence[Node], place: str) -> str | None:
    if any(node.status == ACTIVE for node in nodes):
        return None
    number = f"none of the {len(nodes)} nodes of {place}" if len(nodes) > 1 else f"the only node of {place}"
    verb = "takes pods" if len(nodes) > 1 else "takes no pods"
    return f"{number} {verb}: {_states(nodes)}; bring one back, or name another pool in resources.pool"


def _nothing_free(requests: Mapping[str, int], nodes: Sequence[Node], place: str) -> str | None:
    if any(all(node.free(resource) >= requests[resource] for resource in COUNTED) for node in nodes):
        return None
    asked = [resource for resource in COUNTED if requests[resource]]
    # The scarcest resource explains most: the one that the fewest nodes have enough of.
    scarcest = min(asked, key=lambda resource: sum(node.free(resource) >= requests[resource] for node in nodes))
    best = max(nodes, key=lambda node: node.free(scarcest))
    free, short = best.free(scarcest), requests[scarcest] - best.free(scarcest)
    wait = "wait for other jobs to end, delete one, or raise job.priority"
    if short <= 0:
        return f"no single node of {place} has enough {_listed([_NOUNS[r] for r in asked])} free at once; {wait}"
    asks = f"it asks for {_asked(scarcest, requests[scarcest])} on one node"
    all_of_them = f"the {len(nodes)} nodes of {place}" if len(nodes) > 1 else f"the only node of {place}"
    away = [node for node in nodes if node.status != ACTIVE]
    if not free:
        resting = f" ({_states(away)})" if away else ""
        return f"{asks}, and none is free on {all_of_them}{resting}; {wait}"
    where = ", ".join(filter(None, (f"on {best.name}", _states(away))))
    return (
        f"{asks}, and the most that is free on {'one of ' if len(nodes) > 1 else ''}{all_of_them} is "
        f"{_there(scarcest, free)} ({where}), {_asked(scarcest, short)} short; {wait}"
    )


def _states(nodes: Sequence[Node]) -> str:
    words = {MAINTAINING: "cordoned", FAULTY: "not ready"}
    counts = {word: sum(node.status == status for node in nodes) for status, word in words.items()}
    return " and ".join(f"{number} {word}" for word, number in counts.items() if number)


_NOUNS = {GPU: "GPUs", GPU_MEMORY: "shared GPU memory", "cpu": "CPU", "memory": "memory"}
_FIELDS = {
    GPU: "resources.gpu",
    GPU_MEMORY: "resources.gpu-share",
    "cpu": "resources.cpu",
    "memory": "resources.memory",
}


def _asked(resource: str, number: int) -> str:
    return _amount(resource, number, math.ceil)


def _there(resource: str, number: int) -> str:
    """Rounded down, so that a little too little never reads as enough."""
    return _amount(resource, number, math.floor)


def _amount(resource: str, number: int, rounded: Any) -> str:
    if resource == GPU:
        return f"{number} GPU" if number == 1 else f"{number} GPUs"
    if resource == GPU_MEMORY:
        return f"{number}Gi of shared GPU memory"
    return f"{cores(number)} CPU" if resource == "cpu" else f"{gibibytes(number, rounded)} of memory"


def _there_are(names: Sequence[str]) -> str:
    return f"there is only {names[0]}" if len(names) == 1 else f"there are {_listed(names)}"


def _listed(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; of many the first five."""
    words = list(words)
    if len(words) > 6:
        words = [*words[:5], f"{len(words) - 5} others"]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
