# SPDX-License-Identifier: BSD-2-Clause
"""Read nodes and declarations, and plan which ConfigMaps and labels change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..accelerators.catalog import Catalog, Profile
from ..accelerators.hardware import DEFAULT_ACCELERATOR, PoolHardware, UnfitHardware
from ..cluster.declared import declared_in
from ..cluster.pool_declarations import MULTIKUEUE, Declaration
from ..cluster.read_jobs import WORKLOADS
from ..cluster.status import ENDED, status_of
from ..engine.node_writer import LabelChange, node_label_values, read_node_metadata
from ..engine.plan import Plan
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import CONFIG_MAP
from ..labels import DIVISION, GPU_TYPE, GPU_TYPE_INTERNAL, POOL, SYSTEM_NAMESPACE, pool_config_map_name
from ..options import DeclaringOptions
from ..queues.provide_queues import backend_problems, queued_pools
from ..task import TaskFailed
from .declaration import plan_config_maps
from .lease import Versions, versions_of
from .membership import LivePools, Membership, PoolRequest, plan_membership

_OF_NO_SOURCE = DeclaringOptions()


@dataclass(frozen=True)
class PoolPlans:
    """What is written, and the state that it was decided on."""

    membership: Membership
    live: LivePools
    config_maps: tuple[Plan, ...]
    label_changes: tuple[LabelChange, ...]
    planned_on: Versions
    warnings: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.config_maps or self.label_changes)

    @property
    def declarations(self) -> dict[str, Declaration | None]:
        """All pools as they will be; None are those that are deleted."""
        return {**self.live.declarations, **self.membership.declarations}

    @property
    def decisions(self) -> Membership:
        return self.membership


def plan_pools(
    client: Client,
    requests: Sequence[PoolRequest],
    *,
    force: bool,
    ignored_jobs: Collection[str] = (),
    keep_going: bool = False,
    options: DeclaringOptions = _OF_NO_SOURCE,
    limited: bool = False,
) -> PoolPlans:
    """Two lists of requests, nodes and ConfigMaps, in pages. Raises TaskFailed with all blockers, or with
    ``keep_going`` returns them.

    ``ignored_jobs`` (``<namespace>/<name>``) do not count as users of a deleted pool. ``limited``: the task may only
    act in some namespaces, and so only on pools that its own source declares.
    """
    nodes = read_node_metadata(client)
    config_maps = client.list_objects(CONFIG_MAP, SYSTEM_NAMESPACE)
    declared = declared_in(config_maps)
    declarations = declared.pools
    names, prefix = (obj["metadata"]["name"] for obj in config_maps), pool_config_map_name("")
    unmanaged = {name.removeprefix(prefix) for name in names if name.startswith(prefix)} - declarations.keys()
    labels = {name: metadata.get("labels") or {} for name, metadata in nodes.items()}
    live = LivePools(labels, declarations, unmanaged, declared.profiles)

    others: list[str] = []
    if options.source or limited:
        from .pool_sources import changed_for_others, plannable  # Here: of most tasks, no source declares the pools.

        requests, others = plannable(requests, declarations, options, limited=limited)
    membership = plan_membership(requests, live, force=force)
    in_use = _deleted_pools_in_use(client, membership, ignored_jobs, force=force)
    unfit = [*_unfit_hardware(requests, declared.profiles), *_unserved_classes(client, requests, declarations)]
    if options.source or limited:
        others += changed_for_others(membership, declarations, options, limited=limited)
    blockers = [*others, *membership.blockers, *unfit, *_unfit_queues(client, membership), *(() if force else in_use)]
    if blockers and not keep_going:
        from ..declared_source import once_each  # Here: most declarations are fine.

        raise TaskFailed.before_any_write(once_each(blockers))
    keys = (POOL, GPU_TYPE, GPU_TYPE_INTERNAL, DIVISION)
    return PoolPlans(
        membership,
        live,
        plan_config_maps(membership.declarations, config_maps),
        tuple(
            LabelChange(nodes[node], edit, node_label_values(nodes[node], dict.fromkeys((*keys, *edit))))
            for node, edit in membership.labels.items()
        ),
        versions_of(nodes.values(), config_maps),
        warnings=(*in_use, *_forced_moves(membership), *_unread_lines(requests, declarations)),
        blockers=tuple(blockers),
    )


def _unfit_hardware(requests: Iterable[PoolRequest], known: Catalog) -> Iterator[str]:
    """What pools declare of accelerators that there are not."""
    for request in requests:
        accelerator = request.hardware.get("accelerator") or DEFAULT_ACCELERATOR
        backend = request.hardware.get("share_backend")
        if accelerator not in known.profiles:
            names = ", ".join(sorted(known.profiles))
            yield f"pool {request.name}: unknown accelerator: {accelerator}. Known are {names}."
        elif backend and backend not in known.profiles[accelerator].backends:
            names = ", ".join(known.profiles[accelerator].backends) or "none"
            yield f"pool {request.name}: {accelerator} has no share_backend {backend}. It has: {names}."
        else:
            yield from _unfit_division(request, known.profiles[accelerator])


def _unfit_division(request: PoolRequest, profile: Profile) -> Iterator[str]:
    division = {name: request.hardware[name] for name in ("sharing", "mig") if request.hardware.get(name)}
    try:
        list(profile.divisions(PoolHardware(**division)))
    except UnfitHardware as problem:
        yield f"pool {request.name}, {problem}"


def _unserved_classes(
    client: Client, requests: Iterable[PoolRequest], declarations: Mapping[str, Declaration]
) -> Iterator[str]:
    """Newly declared classes of devices that no job could claim. What is declared already, doctor reports."""
    former = {name: each.hardware.device_class for name, each in declarations.items()}
    classes = {each.name: each.hardware.get("device_class") for each in requests if each.present}
    new = {name: declared for name, declared in classes.items() if declared and declared != former.get(name)}
    if not new:
        return
    from ..kube.discovery import group_versions  # Here: few pools declare a class.
    from ..kube.features import DEVICE_CLAIMS, unserved

    problem = unserved(DEVICE_CLAIMS, group_versions(client))
    for name, declared in new.items() if problem else ():
        yield f"pool {name}, device_class {declared}: {problem}. Remove device_class."


def _unfit_queues(client: Client, membership: Membership) -> Iterator[str]:
    """Why pools that change cannot have the queues that they declare."""
    queued = queued_pools(membership.declarations)
    for name, pool in queued.items():
        if pool.hardware.device_class:
            yield (
                f"pool {name}: queue and device_class exclude each other, because queues count the resources that "
                f"nodes list. Remove one of them."
            )
        if pool.queue and pool.queue.backend == MULTIKUEUE and pool.nodes:
            yield (
                f"pool {name}: queue multikueue, but the pool has nodes. Kueue runs its jobs in other clusters only: "
                f"remove the nodes, or use queue: kueue."
            )
    yield from backend_problems(client, membership.declarations)


def _unread_lines(requests: Iterable[PoolRequest], declarations: Mapping[str, Declaration]) -> Iterator[str]:
    """Warnings for the lines of a declaration that this task leaves out when it writes it again."""
    found = (declarations.get(request.name) for request in requests)
    return (declaration.problem for declaration in found if declaration and declaration.problem)


def _forced_moves(membership: Membership) -> Iterator[str]:
    """Warnings for the pools that lose nodes to this task without being part of it."""
    requested = {pool.name for pool in membership.pools}
    for pool in membership.pools:
        for owner in sorted(set(pool.taken_from.values()) - requested):
            nodes = [node for node, taken_from in pool.taken_from.items() if taken_from == owner]
            yield f"pool {pool.name} takes {', '.join(nodes)} from pool {owner}."


def _deleted_pools_in_use(
    client: Client, membership: Membership, ignored_jobs: Collection[str], *, force: bool
) -> list[str]:
    """A sentence for each deleted pool that unfinished jobs use: a blocker, or with ``force`` a warning."""
    deleted = sorted(pool.name for pool in membership.pools if pool.action == "delete")
    if not deleted:
        return []
    try:
        jobs = _unfinished_by_pool(client, deleted, ignored_jobs)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        unknown = (
            f"cannot check whether jobs use the pool {' or '.join(deleted)}: {error.message}. Request permission to "
            f"list jobs, deployments and statefulsets in all namespaces, or use O(force=true) to delete it regardless."
        )
        return [] if force else [unknown]
    consequence = (
        ". Running pods continue, but new pods of these jobs find no node."
        if force
        else ". Delete the jobs or let them finish, or use O(force=true), which does not stop them."
    )
    return [f"pool {pool} is used by {', '.join(sorted(jobs[pool]))}{consequence}" for pool in sorted(jobs)]


def _unfinished_by_pool(client: Client, pools: Collection[str], ignored: Collection[str]) -> dict[str, list[str]]:
    """The unfinished workloads of all namespaces, as ``<namespace>/<name>`` by pool."""
    found: dict[str, list[str]] = {}
    for resource in WORKLOADS:
        for obj in client.list_objects(resource, labels=f"{POOL} in ({','.join(pools)})"):
            metadata = obj["metadata"]
            job = f"{metadata['namespace']}/{metadata['name']}"
            # Only trainings finish. A paused service needs its pool when it is resumed.
            if job not in ignored and status_of(obj) not in ENDED:
                found.setdefault(metadata["labels"][POOL], []).append(job)
    return found
