# SPDX-License-Identifier: BSD-2-Clause
"""The objects of Volcano behind pools with a queue, from what pools and quotas declare. Pure.

Each namespace with a quota has one Queue for each pool. Its fields are those of Volcano's plugin ``capacity``:

capability   the most that the namespace may have of the pool: all of it, up to its quota and borrowing limit
deserved     its share, which it gets back from those who have borrowed it (the action ``reclaim``)
guarantee    what of the share is never lent
weight       the share once more, for the plugin ``proportion``, which knows no ``deserved``

Queues have no parent for the pool: not every configuration of Volcano has hierarchies, and the pool is no more than its
nodes anyway. ``deserved`` has CPUs and memory only where a pool has no accelerators: a Queue that is below it in *any*
resource takes others back (pkg/scheduler/plugins/capacity, PreemptiveFn), so CPUs that are left would take GPUs.

A pool with levels of its network has a HyperNode for each place, with the nodes or the narrower places in it.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from .. import labels
from ..accelerators.catalog import catalog
from ..cluster.pool_declarations import Declaration, PoolQueue
from ..kube.resources import HYPER_NODE, QUEUE
from .teams import (
    UNCOUNTED,
    Amounts,
    Capacity,
    Object,
    Team,
    amount_text,
    is_gpu,
    promised_gpus,
    queue_object,
    share_of,
)

# The schema of the CustomResourceDefinition allows no more.
_MAX_WEIGHT = 65535


def volcano_objects(pool: Declaration, capacity: Capacity, teams: Sequence[Team]) -> list[Object]:
    """All objects of a pool with a queue."""
    if pool.queue is None:
        return []
    counted = Capacity({name: each for name, each in capacity.amounts.items() if each != UNCOUNTED}, capacity.gpus)
    promised = promised_gpus(pool.name, teams)
    queues = [
        _team_queue(pool, pool.queue, counted, team, share_of(pool.name, counted, team, promised)) for team in teams
    ]
    return [*_hyper_nodes(pool, capacity.places), *queues]


def _hyper_nodes(pool: Declaration, places: Mapping[str, tuple[str, ...]]) -> list[Object]:
    """The narrowest places first, whose tier is 1. A rack may be called as one of another block, so names are paths."""
    objects = []
    depth = len(pool.hardware.topology)
    for tier in range(1, depth + 1):
        members: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
        for node, place in places.items():
            inner = _place_name(pool.name, place[: depth - tier + 2])
            kind, name = ("Node", node) if tier == 1 else ("HyperNode", inner)
            members[place[: depth - tier + 1]][name] = kind
        for path, found in sorted(members.items()):
            obj = queue_object(HYPER_NODE, pool.name, _place_name(pool.name, path))
            selected = [{"type": found[name], "selector": {"exactMatch": {"name": name}}} for name in sorted(found)]
            objects.append({**obj, "spec": {"tier": tier, "members": selected}})
    return objects


def _place_name(pool: str, path: Iterable[str]) -> str:
    """Label values that are not valid names are replaced by their digest."""
    parts = (
        part if re.fullmatch(labels.DNS_LABEL, part) else hashlib.sha256(part.encode()).hexdigest()[:8] for part in path
    )
    return ".".join([labels.pool_queue_name(pool), *parts])


def _team_queue(pool: Declaration, queue: PoolQueue, capacity: Capacity, team: Team, share: Amounts) -> Object:
    obj = queue_object(QUEUE, pool.name, labels.team_queue_name(pool.name, team.namespace))
    accelerators = {name for name in share if catalog().row(name)}
    deserved = {name: own for name, own in share.items() if own and name in (accelerators or share)}
    kept = {
        name: own - queue.lending_limit
        for name, own in deserved.items()
        if queue.lending_limit is not None and is_gpu(name) and own > queue.lending_limit
    }
    obj["spec"] = {
        "weight": min(max(team.shares.get(pool.name, 0), 1), _MAX_WEIGHT),
        "reclaimable": queue.preemption != "never",
        "capability": _amount_texts(_queue_capability(queue, capacity, team, share)),
        **({"deserved": _amount_texts(deserved)} if deserved else {}),
        **({"guarantee": {"resource": _amount_texts(kept)}} if kept else {}),
    }
    return obj


def _queue_capability(queue: PoolQueue, capacity: Capacity, team: Team, share: Amounts) -> Amounts:
    most = {}
    for name, amount in capacity.amounts.items():
        limits = [amount]
        if (limit := team.limit(name)) is not None:
            limits.append(limit)
        if is_gpu(name) and queue.borrowing_limit is not None:
            limits.append(share[name] + queue.borrowing_limit)
        most[name] = min(limits)
    return most


def _amount_texts(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    return {name: amount_text(name, amounts[name]) for name in sorted(amounts)}
