# SPDX-License-Identifier: BSD-2-Clause
"""What pools with a queue have, and which team has which share, for all queueing systems. Pure.

Queues never admit what could not run: shares add up to the pool at most, and a namespace borrows up to its quota.
Otherwise pods of a training would be created and others be refused, and it would hold its GPUs for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .. import labels
from ..accelerators.catalog import catalog
from ..accelerators.hardware import DEFAULT_ACCELERATOR
from ..cluster.nodes import slim_node
from ..cluster.pool_declarations import MULTIKUEUE, Declaration
from ..kube.resources import Resource
from ..quantity import QuantityError, canonical, parse

Object = dict[str, Any]
Amounts = dict[str, Fraction]

# Of what nodes do not list, because a scheduler extender counts it, the capacity is unknown. In Kueue, a job
# that requests a resource without any quota is never admitted.
UNCOUNTED = Fraction(10**9)


@dataclass(frozen=True)
class Team:
    """A namespace with a quota: its shares of pools in GPUs, and the limits of its ResourceQuotas."""

    namespace: str
    shares: Mapping[str, int] = field(default_factory=dict)
    limits: tuple[Mapping[str, str], ...] = ()

    def limit(self, resource: str) -> Fraction | None:
        """The most that its pods may request together."""
        keys = (f"requests.{resource}", f"limits.{resource}")
        return min((parse(hard[key]).value for hard in self.limits for key in keys if key in hard), default=None)


def teams_in(resource_quotas: Iterable[Mapping[str, Any]]) -> list[Team]:
    """The namespaces with a quota of gpuctl_quota. Other ResourceQuotas limit them, too, also those of policies."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for obj in resource_quotas:
        # With less than it uses, a queue would let others preempt what runs. A used-up budget stops nothing.
        if not obj["metadata"]["name"].startswith(labels.GPU_HOURS_UNTIL):
            found.setdefault(obj["metadata"]["namespace"], []).append(obj)
    teams = []
    for namespace, quotas in sorted(found.items()):
        own = [obj for obj in quotas if labels.is_managed(obj) and labels.QUOTA in obj["metadata"]["labels"]]
        if own:
            shares = {pool: share for obj in own for pool, share in shares_of(obj).items()}
            # One of others with scopes limits only some of the pods, so it says nothing about the sum.
            scopes = {"scopes", "scopeSelector"}
            unscoped = [obj for obj in quotas if obj in own or scopes.isdisjoint(obj.get("spec") or {})]
            hard = tuple((obj.get("spec") or {}).get("hard") or {} for obj in unscoped)
            teams.append(Team(namespace, shares, hard))
    return teams


def shares_of(resource_quota: Mapping[str, Any]) -> dict[str, int]:
    """The shares as gpuctl_quota has written them; an annotation edited by hand may hold anything."""
    try:
        found = json.loads((resource_quota["metadata"].get("annotations") or {}).get(labels.SHARES, "{}"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {pool: share for pool, share in found.items() if isinstance(share, int) and share >= 0}


@dataclass(frozen=True)
class Capacity:
    """What the nodes of a pool have for pods, and how many of it are GPUs.

    ``places`` are the values of the labels that the pool declares as ``topology``, of the nodes that have all of them.
    """

    amounts: Mapping[str, Fraction]
    gpus: int
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def capacity_of(pool: Declaration, nodes: Iterable[Mapping[str, Any]]) -> Capacity:
    """The sum over the nodes of a pool that are in the cluster; of a pool whose nodes other clusters have, no limit."""
    if pool.queue and pool.queue.backend == MULTIKUEUE:
        return _no_limit(pool)
    own = [node for node in nodes if node["metadata"]["name"] in pool.nodes]
    amounts: Amounts = {"cpu": Fraction(0), "memory": Fraction(0)}
    for node in own:
        for resource, quantity in ((node.get("status") or {}).get("allocatable") or {}).items():
            if resource in ("cpu", "memory") or "/" in resource:
                amounts[resource] = amounts.get(resource, Fraction(0)) + parse(quantity).value
    profile = catalog().profiles.get(pool.hardware.accelerator or DEFAULT_ACCELERATOR)
    for row in profile.resources() if profile else ():
        if not row.listed:
            amounts[row.resource] = UNCOUNTED
    return Capacity(amounts, sum(slim_node(node).gpu_total for node in own), _places_of(pool, own))


def _no_limit(pool: Declaration) -> Capacity:
    """Worker clusters count what they have. Here, only what the quota of a namespace says is a limit."""
    profile = catalog().profiles.get(pool.hardware.accelerator or DEFAULT_ACCELERATOR)
    rows = [row.resource for row in profile.resources()] if profile else []
    names = filter(None, ("cpu", *rows, pool.hardware.rdma_resource))
    return Capacity({**dict.fromkeys(names, UNCOUNTED), "memory": UNCOUNTED * 2**30}, int(UNCOUNTED))


def _places_of(pool: Declaration, nodes: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    keys = pool.hardware.topology.values()
    found = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes}
    return {
        name: tuple(own[key] for key in keys) for name, own in sorted(found.items()) if keys and own.keys() >= {*keys}
    }


def share_problems(pool: Declaration, capacity: Capacity, teams: Sequence[Team]) -> Iterator[str]:
    """Warnings for shares of a pool that cannot be what they say."""
    promised = promised_gpus(pool.name, teams)
    if promised > capacity.gpus:
        yield (
            f"pool {pool.name} has {capacity.gpus} GPUs, but the shares in quotas add up to {promised}. Each is "
            f"reduced in proportion. Reduce shares, or add nodes to the pool."
        )


def promised_gpus(pool: str, teams: Iterable[Team]) -> int:
    return sum(team.shares.get(pool, 0) for team in teams)


def share_of(pool: str, capacity: Capacity, team: Team, promised: int) -> Amounts:
    """What of a pool is a team's own: of CPUs and memory as much as of GPUs, so that its jobs fit into it."""
    part = Fraction(team.shares.get(pool, 0), max(capacity.gpus, promised, 1))
    share = {}
    for resource, amount in capacity.amounts.items():
        own = Fraction(0) if amount == UNCOUNTED else _rounded_down(resource, amount * part)
        limit = team.limit(resource)
        share[resource] = own if limit is None else min(own, limit)
    return share


def queue_object(resource: Resource, pool: str, name: str, namespace: str | None = None) -> Object:
    place = {"namespace": namespace} if namespace else {}
    marks = {labels.MANAGED_BY: labels.FIELD_MANAGER, labels.POOL: pool}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, **place, "labels": marks},
    }


def is_gpu(resource: str) -> bool:
    row = catalog().row(resource)
    return row is not None and row.is_whole_device


def _rounded_down(resource: str, amount: Fraction) -> Fraction:
    """CPU in thousandths, anything else in whole units."""
    unit = Fraction(1, 1000) if resource == "cpu" else Fraction(1)
    return amount // unit * unit


def amount_text(resource: str, amount: Fraction) -> str:
    try:
        if resource == "cpu":
            return canonical(f"{int(amount * 1000)}m")
        return canonical(f"{int(amount) // 1024}Ki") if resource == "memory" else canonical(int(amount))
    except QuantityError:  # more than a quantity can be
        return canonical(2**63 - 1)
