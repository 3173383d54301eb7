# SPDX-License-Identifier: BSD-2-Clause
"""The objects of Kueue behind pools with a queue, from what pools and quotas declare. Pure.

A ResourceFlavor   the nodes of the pool, with a Topology if it declares levels of its network
A Cohort           the part of the pool that no team has a share of, which all of them borrow
ClusterQueues      one for each namespace with a quota: its share of the pool, and what it may borrow
LocalQueues        the same as seen from the namespace: what its jobs name

One ClusterQueue for the whole pool would serve first who comes first: Kueue shares fairly and gives shares back between
ClusterQueues only. A Cohort of several pools would lend nothing, because no two pools have the same nodes.

Kueue never admits what could not run: shares add up to the pool at most, and a namespace borrows up to its quota.
Otherwise pods of a training would be created and others be refused, and it would hold its GPUs for nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .. import labels
from ..accelerators import DEFAULT_ACCELERATOR, catalog
from ..cluster.declared import Declaration, PoolQueue
from ..cluster.nodes import slim_node
from ..kube.resources import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, RESOURCE_FLAVOR, TOPOLOGY, Resource
from ..quantity import QuantityError, canonical, parse

Object = dict[str, Any]
Amounts = dict[str, Fraction]

# In the order of their creation: each refers to those before it.
QUEUE_KINDS = (TOPOLOGY, RESOURCE_FLAVOR, COHORT, CLUSTER_QUEUE, LOCAL_QUEUE)

_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # Kubernetes sets this label on every namespace.
_PREEMPTION = {
    "never": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
    "reclaim": {"reclaimWithinCohort": "Any", "withinClusterQueue": "Never"},
    "priority": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
}
# Of what nodes do not list, because a scheduler extender counts it, Kueue cannot know how much there is. A job that
# requests a resource without any quota is never admitted.
_UNCOUNTED = Fraction(10**9)


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
    """The namespaces with a quota of ours; whatever other ResourceQuotas are there limit them, too."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for obj in resource_quotas:
        found.setdefault(obj["metadata"]["namespace"], []).append(obj)
    teams = []
    for namespace, quotas in sorted(found.items()):
        own = [obj for obj in quotas if labels.is_managed(obj)]
        if own:
            shares = {pool: share for obj in own for pool, share in _shares_of(obj).items()}
            unscoped = [obj for obj in quotas if not ({"scopes", "scopeSelector"} & (obj.get("spec") or {}).keys())]
            hard = tuple((obj.get("spec") or {}).get("hard") or {} for obj in unscoped)
            teams.append(Team(namespace, shares, hard))
    return teams


def _shares_of(resource_quota: Mapping[str, Any]) -> dict[str, int]:
    """The shares as gpuctl_quota has written them; a text that somebody has edited may be anything."""
    try:
        found = json.loads((resource_quota["metadata"].get("annotations") or {}).get(labels.SHARES, "{}"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {pool: share for pool, share in found.items() if isinstance(share, int) and share >= 0}


@dataclass(frozen=True)
class Capacity:
    """What the nodes of a pool have for pods, and how many of it are GPUs."""

    amounts: Mapping[str, Fraction]
    gpus: int


def capacity_of(pool: Declaration, nodes: Iterable[Mapping[str, Any]]) -> Capacity:
    """The sum over the nodes of a pool that are in the cluster."""
    own = [node for node in nodes if node["metadata"]["name"] in pool.nodes]
    amounts: Amounts = {"cpu": Fraction(0), "memory": Fraction(0)}
    for node in own:
        for resource, quantity in ((node.get("status") or {}).get("allocatable") or {}).items():
            if resource in ("cpu", "memory") or "/" in resource:
                amounts[resource] = amounts.get(resource, Fraction(0)) + parse(quantity).value
    profile = catalog().profiles.get(pool.hardware.accelerator or DEFAULT_ACCELERATOR)
    for row in profile.resources() if profile else ():
        if not row.listed:
            amounts[row.resource] = _UNCOUNTED
    return Capacity(amounts, sum(slim_node(node).gpu_total for node in own))


def queue_objects(pool: Declaration, capacity: Capacity, teams: Sequence[Team]) -> list[Object]:
    """All objects of a pool with a queue, in the order of their creation."""
    queue = pool.queue
    if queue is None:
        return []
    shares = {team.namespace: _share(pool.name, capacity, team, _promised(pool.name, teams)) for team in teams}
    rest = {
        resource: amount - sum((share[resource] for share in shares.values()), Fraction(0))
        for resource, amount in capacity.amounts.items()
    }
    flavor = _flavor_name(pool)
    objects = [*_flavor(pool, flavor), _object(COHORT, pool.name, labels.pool_queue_name(pool.name))]
    objects[-1]["spec"] = {"resourceGroups": [_group(flavor, {name: _quota(name, rest[name]) for name in rest})]}
    for team in teams:
        share = shares[team.namespace]
        quotas = {name: _team_quota(name, share[name], queue, team) for name in share}
        objects += [_cluster_queue(pool, team.namespace, queue, _group(flavor, quotas))]
    return [*objects, *(_local_queue(pool.name, team.namespace) for team in teams)]


def share_problems(pool: Declaration, capacity: Capacity, teams: Sequence[Team]) -> Iterator[str]:
    """Warnings for shares of a pool that cannot be what they say."""
    promised = _promised(pool.name, teams)
    if promised > capacity.gpus:
        yield (
            f"pool {pool.name} has {capacity.gpus} GPUs, but the shares in quotas add up to {promised}. Each is "
            f"reduced in proportion. Reduce shares, or add nodes to the pool."
        )


def _promised(pool: str, teams: Iterable[Team]) -> int:
    return sum(team.shares.get(pool, 0) for team in teams)


def _share(pool: str, capacity: Capacity, team: Team, promised: int) -> Amounts:
    """What of a pool is a team's own: of CPUs and memory as much as of GPUs, so that its jobs fit into it."""
    part = Fraction(team.shares.get(pool, 0), max(capacity.gpus, promised, 1))
    share = {}
    for resource, amount in capacity.amounts.items():
        own = Fraction(0) if amount == _UNCOUNTED else _floor(resource, amount * part)
        limit = team.limit(resource)
        share[resource] = own if limit is None else min(own, limit)
    return share


def _team_quota(resource: str, share: Fraction, queue: PoolQueue, team: Team) -> Object:
    row = catalog().row(resource)
    is_gpu = row is not None and row.is_whole_device
    limit = team.limit(resource)
    most = [] if limit is None else [max(limit - share, Fraction(0))]
    if is_gpu and queue.borrowing_limit is not None:
        most.append(Fraction(queue.borrowing_limit))
    quota = _quota(resource, share)
    if most:
        quota["borrowingLimit"] = _text(resource, min(most))
    if is_gpu and queue.lending_limit is not None:  # Kueue accepts no more than the share.
        quota["lendingLimit"] = _text(resource, min(Fraction(queue.lending_limit), share))
    return quota


def _quota(resource: str, amount: Fraction) -> Object:
    return {"name": resource, "nominalQuota": _text(resource, amount)}


def _group(flavor: str, quotas: Mapping[str, Object]) -> Object:
    names = sorted(quotas)
    return {"coveredResources": names, "flavors": [{"name": flavor, "resources": [quotas[name] for name in names]}]}


def _flavor_name(pool: Declaration) -> str:
    """Another name for other levels: Kueue lets neither the levels of a Topology change nor the one of a flavor."""
    if not pool.hardware.topology:
        return labels.pool_queue_name(pool.name)
    digest = hashlib.sha256(json.dumps(_levels(pool)).encode()).hexdigest()
    return f"{labels.pool_queue_name(pool.name)}.{digest[:8]}"


def _levels(pool: Declaration) -> list[str]:
    levels = [key for key in pool.hardware.topology.values() if key != labels.HOSTNAME]
    return [*dict.fromkeys(levels), labels.HOSTNAME]


def _flavor(pool: Declaration, name: str) -> list[Object]:
    flavor = _object(RESOURCE_FLAVOR, pool.name, name)
    flavor["spec"] = {"nodeLabels": {labels.POOL: pool.name}}
    if not pool.hardware.topology:
        return [flavor]
    topology = _object(TOPOLOGY, pool.name, name)
    topology["spec"] = {"levels": [{"nodeLabel": key} for key in _levels(pool)]}
    flavor["spec"]["topologyName"] = name
    return [topology, flavor]


def _cluster_queue(pool: Declaration, namespace: str, queue: PoolQueue, group: Object) -> Object:
    obj = _object(CLUSTER_QUEUE, pool.name, _cluster_queue_name(pool.name, namespace))
    obj["spec"] = {
        "cohortName": labels.pool_queue_name(pool.name),
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: namespace}},
        "preemption": dict(_PREEMPTION[queue.preemption]),
        "resourceGroups": [group],
    }
    return obj


def _local_queue(pool: str, namespace: str) -> Object:
    obj = _object(LOCAL_QUEUE, pool, labels.pool_queue_name(pool), namespace)
    obj["spec"] = {"clusterQueue": _cluster_queue_name(pool, namespace)}
    return obj


def _cluster_queue_name(pool: str, namespace: str) -> str:
    return f"{labels.pool_queue_name(pool)}.{namespace}"


def _object(resource: Resource, pool: str, name: str, namespace: str | None = None) -> Object:
    place = {"namespace": namespace} if namespace else {}
    marks = {labels.MANAGED_BY: labels.FIELD_MANAGER, labels.POOL: pool}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, **place, "labels": marks},
    }


def _floor(resource: str, amount: Fraction) -> Fraction:
    """CPU in thousandths, anything else in whole units."""
    unit = Fraction(1, 1000) if resource == "cpu" else Fraction(1)
    return amount // unit * unit


def _text(resource: str, amount: Fraction) -> str:
    try:
        if resource == "cpu":
            return canonical(f"{int(amount * 1000)}m")
        return canonical(f"{int(amount) // 1024}Ki") if resource == "memory" else canonical(int(amount))
    except QuantityError:  # more than a quantity can be
        return canonical(2**63 - 1)
