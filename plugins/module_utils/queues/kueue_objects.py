# SPDX-License-Identifier: BSD-2-Clause
"""The objects of Kueue behind pools with a queue, from what pools and quotas declare. Pure.

A ResourceFlavor   the nodes of the pool, with a Topology if it declares levels of its network
A Cohort           the part of the pool that no team has a share of, which all of them borrow
ClusterQueues      one for each namespace with a quota: its share of the pool, and what it may borrow
LocalQueues        the same as seen from the namespace: what its jobs name

With MultiKueue, a pool of the manager has the same objects, without limits but those of quotas, and its ClusterQueues
name the AdmissionCheck by which Kueue hands jobs to pools of the same name in worker clusters (access/multikueue.py).

One ClusterQueue for the whole pool would serve first who comes first: Kueue shares fairly and gives shares back between
ClusterQueues only. A Cohort of several pools would lend nothing, because no two pools have the same nodes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from .. import labels
from ..cluster.pool_declarations import MULTIKUEUE, Declaration, PoolQueue
from ..kube.resources import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, RESOURCE_FLAVOR, TOPOLOGY
from .teams import Capacity, Object, Team, amount_text, is_gpu, promised_gpus, queue_object, share_of

MULTIKUEUE_NAME = "gpuctl-multikueue"  # of the AdmissionCheck, and of all else that there is once
_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # Kubernetes sets this label on every namespace.
_PREEMPTION = {
    "never": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
    "reclaim": {"reclaimWithinCohort": "Any", "withinClusterQueue": "Never"},
    "priority": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
}


def kueue_objects(pool: Declaration, capacity: Capacity, teams: Sequence[Team]) -> list[Object]:
    """All objects of a pool with a queue, in the order of their creation."""
    queue = pool.queue
    if queue is None:
        return []
    if queue.backend == MULTIKUEUE:  # Worker clusters know the shares.
        teams = [replace(team, shares={}) for team in teams]
    shares = {team.namespace: share_of(pool.name, capacity, team, promised_gpus(pool.name, teams)) for team in teams}
    rest = {
        resource: amount - sum((share[resource] for share in shares.values()), Fraction(0))
        for resource, amount in capacity.amounts.items()
    }
    flavor = _flavor_name(pool)
    objects = [*_flavor(pool, flavor), queue_object(COHORT, pool.name, labels.pool_queue_name(pool.name))]
    objects[-1]["spec"] = {"resourceGroups": [_group(flavor, {name: _quota(name, rest[name]) for name in rest})]}
    for team in teams:
        share = shares[team.namespace]
        quotas = {name: _team_quota(name, share[name], queue, team) for name in share}
        objects += [_cluster_queue(pool, team.namespace, queue, _group(flavor, quotas))]
    return [*objects, *(_local_queue(pool.name, team.namespace) for team in teams)]


def _team_quota(resource: str, share: Fraction, queue: PoolQueue, team: Team) -> Object:
    limit = team.limit(resource)
    most = [] if limit is None else [max(limit - share, Fraction(0))]
    if is_gpu(resource) and queue.borrowing_limit is not None:
        most.append(Fraction(queue.borrowing_limit))
    quota = _quota(resource, share)
    if most:
        quota["borrowingLimit"] = amount_text(resource, min(most))
    if is_gpu(resource) and queue.lending_limit is not None:  # Kueue accepts no more than the share.
        quota["lendingLimit"] = amount_text(resource, min(Fraction(queue.lending_limit), share))
    return quota


def _quota(resource: str, amount: Fraction) -> Object:
    return {"name": resource, "nominalQuota": amount_text(resource, amount)}


def _group(flavor: str, quotas: Mapping[str, Object]) -> Object:
    # The resources of a flavor must have the order of coveredResources (Kueue, webhook of ClusterQueues).
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
    flavor = queue_object(RESOURCE_FLAVOR, pool.name, name)
    flavor["spec"] = {"nodeLabels": {labels.POOL: pool.name}}
    if not pool.hardware.topology:
        return [flavor]
    topology = queue_object(TOPOLOGY, pool.name, name)
    topology["spec"] = {"levels": [{"nodeLabel": key} for key in _levels(pool)]}
    flavor["spec"]["topologyName"] = name
    return [topology, flavor]


def _cluster_queue(pool: Declaration, namespace: str, queue: PoolQueue, group: Object) -> Object:
    obj = queue_object(CLUSTER_QUEUE, pool.name, labels.team_queue_name(pool.name, namespace))
    obj["spec"] = {
        "cohortName": labels.pool_queue_name(pool.name),
        # Without one, a ClusterQueue admits jobs of no namespace.
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: namespace}},
        "preemption": dict(_PREEMPTION[queue.preemption]),
        "resourceGroups": [group],
    }
    if queue.backend == MULTIKUEUE:  # Kueue's webhook then sets ``managedBy`` of Jobs (ApplyDefaultForManagedBy).
        obj["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": MULTIKUEUE_NAME}]}
    return obj


def _local_queue(pool: str, namespace: str) -> Object:
    obj = queue_object(LOCAL_QUEUE, pool, labels.pool_queue_name(pool), namespace)
    obj["spec"] = {"clusterQueue": labels.team_queue_name(pool, namespace)}
    return obj
