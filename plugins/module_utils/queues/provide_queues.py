# SPDX-License-Identifier: BSD-2-Clause
"""Bring the objects of queueing systems to what pools and quotas declare. gpuctl_pool always does, gpuctl_quota if it
has written something: whichever of two concurrent tasks reads last has read what both of them wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..cluster.pool_declarations import MULTIKUEUE, Declaration
from ..cluster.status import is_terminating
from ..engine.apply import Executor
from ..engine.changes import diffs_of
from ..engine.plan import Action, Plan, Step, object_id
from ..engine.planning import step_for
from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.discovery import group_versions
from ..kube.errors import KubeError, as_sentence
from ..kube.resources import NODE, RESOURCE_QUOTA
from ..labels import MANAGED, POOL
from ..task import Task, TaskFailed
from .backends import BACKENDS
from .kueue_objects import kueue_objects
from .teams import Capacity, Object, Team, capacity_of, share_problems, teams_in
from .volcano_objects import volcano_objects

_BUILDERS = {"kueue": kueue_objects, MULTIKUEUE: kueue_objects, "volcano": volcano_objects}


@dataclass(frozen=True)
class QueueChanges:
    """What was written of queues, or would be in check mode."""

    changed: bool = False
    diff: list[dict[str, str]] = field(default_factory=list)


def queued_pools(pools: Mapping[str, Declaration | None]) -> dict[str, Declaration]:
    """Those whose queue consists of objects, or cannot be read: its objects stay as they are then."""
    found = {name: pool for name, pool in pools.items() if pool and (pool.queue or pool.has_unread_queue)}
    return {name: pool for name, pool in found.items() if not pool.queue or BACKENDS[pool.queue.backend].kinds}


def backend_problems(client: Client, pools: Mapping[str, Declaration | None]) -> Iterator[str]:
    """Why pools cannot have queues in this cluster."""
    wanted: dict[str, list[str]] = {}
    for name, pool in sorted(pools.items()):
        if pool and pool.queue:
            wanted.setdefault(pool.queue.backend, []).append(name)
    served = group_versions(client) if wanted else frozenset()
    for name, found in sorted(wanted.items()):
        backend = BACKENDS[name]
        if missing := backend.missing(served):
            yield (
                f"pool {', '.join(found)}: queue {name}, but the cluster does not serve {missing}. "
                f"{backend.install}, or remove queue."
            )


def _backend_name(pool: Declaration) -> str:
    return pool.queue.backend if pool.queue else ""


def provide_queues(
    task: Task[Any],
    pools: Mapping[str, Declaration],
    quotas_after: Callable[[Sequence[Object]], Sequence[Object]] = lambda live: live,
) -> QueueChanges:
    """Write what differs for ``pools``, which are all that have queues, and delete what is left of others.

    ``quotas_after`` are the ResourceQuotas as the task leaves them, from the live ones. Raises TaskFailed.
    """
    client = task.client()
    try:
        present = _present_backends(client, pools)
        return _provide(task, pools, present, quotas_after) if present else QueueChanges()
    except KubeError as problem:
        raise TaskFailed(
            f"{as_sentence(str(problem))} Pools and quotas are written, their queues are not, or in part. Apply the "
            f"pools again with M(gpuctl_pool).",
            changed=True,
        ) from problem


def _provide(
    task: Task[Any],
    pools: Mapping[str, Declaration],
    backends: Sequence[str],
    quotas_after: Callable[[Sequence[Object]], Sequence[Object]],
) -> QueueChanges:
    plans = _plans(task, pools, backends, quotas_after)
    client = task.client()
    executor = Executor(client, check_mode=task.check_mode, gone_timeout=0, warn=task.warn, progress=task.progress)
    for plan in plans:
        executor.apply_plan(plan)
    return QueueChanges(bool(plans), task.diff(lambda: [diff for plan in plans for diff in diffs_of(plan)]))


def plans_for_queues(task: Task[Any], pools: Mapping[str, Declaration]) -> list[Plan]:
    """What ``provide_queues`` would write. Raises KubeError."""
    present = _present_backends(task.client(), pools)
    return _plans(task, pools, present, lambda live: live) if present else []


def _present_backends(client: Client, pools: Mapping[str, Declaration]) -> list[str]:
    """The queueing systems that the cluster has, or that a pool asks for."""
    wanted = set(map(_backend_name, pools.values()))
    served = group_versions(client)
    # Also those that no pool asks for now: objects of pools that had a queue are left to delete.
    backends = ((name, backend) for name, backend in BACKENDS.items() if backend.kinds)
    return [name for name, backend in backends if name in wanted or not backend.missing(served)]


def _plans(
    task: Task[Any],
    pools: Mapping[str, Declaration],
    backends: Sequence[str],
    quotas_after: Callable[[Sequence[Object]], Sequence[Object]],
) -> list[Plan]:
    client = task.client()
    kinds = list(dict.fromkeys(kind for name in backends for kind in BACKENDS[name].kinds))
    nodes, quotas, *live = run_concurrently(
        lambda kind: client.list_objects(kind, labels=MANAGED if kind in kinds else ""),
        (NODE, RESOURCE_QUOTA, *kinds),
        client.concurrency,
    )
    teams = teams_in(quotas_after(quotas))
    desired: list[Object] = []
    unread = {name for name, pool in pools.items() if pool.has_unread_queue}
    for pool in pools.values():
        if pool.has_unread_queue:
            task.warn(f"{pool.problem} Until then, its queue stays as it is.")
            continue
        capacity = capacity_of(pool, nodes)
        desired += queue_objects(pool, capacity, teams)
        for problem in share_problems(pool, capacity, teams):
            task.warn(problem)
    return plan_queues(desired, [obj for objects in live for obj in objects if _pool_label(obj) not in unread])


def queue_objects(pool: Declaration, capacity: Capacity, teams: Sequence[Team]) -> list[Object]:
    """All objects of a pool with a queue, in the order of their creation. Pure."""
    return _BUILDERS[pool.queue.backend](pool, capacity, teams) if pool.queue else []


def plan_queues(desired: Iterable[Object], live: Iterable[Object]) -> list[Plan]:
    """A plan for each pool whose objects differ: what is no longer desired is deleted last, users first. Pure."""
    left = {object_id(obj): obj for obj in live}
    steps: dict[str, list[Step]] = {}
    for obj in desired:
        steps.setdefault(_pool_label(obj), []).append(step_for(obj, left.pop(object_id(obj), None)))
    order = [kind.kind for backend in BACKENDS.values() for kind in backend.kinds]
    for obj in sorted(left.values(), key=lambda obj: order.index(obj["kind"]), reverse=True):
        if not is_terminating(obj):
            steps.setdefault(_pool_label(obj), []).append(Step(Action.DELETE, {}, obj))
    changed = {pool: [step for step in found if step.action is not Action.UNCHANGED] for pool, found in steps.items()}
    return [Plan(pool, "", "queue of pool", tuple(found)) for pool, found in changed.items() if found]


def _pool_label(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get(POOL, ""))
