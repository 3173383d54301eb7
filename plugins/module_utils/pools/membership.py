# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Which node belongs to which pool, and what has to change. Pure.

A node is in the pool that its label names, because the scheduler uses the label. A node without the label belongs to
the pool that declares it: a node that joined the cluster again has lost its labels, but its pool still declares it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..engine.node_writer import unknown_nodes
from ..labels import GPU_TYPE, GPU_TYPE_INTERNAL, POOL, pool_config_map_name
from .declaration import Declaration

Labels = Mapping[str, str]
LabelEdit = dict[str, "str | None"]  # None removes the label


@dataclass(frozen=True)
class PoolRequest:
    """The desired state of one pool.

    With ``purge`` the pool has exactly ``nodes`` (name -> GPU type), otherwise at least these. ``nodes`` None changes
    nothing but ``remove``, ``description`` None keeps the live one.
    """

    name: str
    present: bool = True
    description: str | None = None
    nodes: Mapping[str, str | None] | None = None
    remove: frozenset[str] = frozenset()
    purge: bool = True


@dataclass(frozen=True)
class LivePools:
    """The labels of every node, the declarations of pools, and the pools whose ConfigMap has another owner."""

    nodes: Mapping[str, Labels]
    declarations: Mapping[str, Declaration]
    unmanaged: Collection[str] = ()

    def pool_of(self, node: str) -> str | None:
        """The pool of a node, by its label or else by declaration."""
        return self.nodes.get(node, {}).get(POOL) or self._declaring.get(node)

    def members(self, pool: str) -> dict[str, str | None]:
        """The nodes of a pool with their declared GPU types, including declared nodes that left the cluster."""
        declaration = self.declarations.get(pool)
        declared = declaration.nodes if declaration else {}
        labelled = {node for node, labels in self.nodes.items() if labels.get(POOL) == pool}
        return {node: declared.get(node) for node in sorted({*labelled, *declared}) if self.pool_of(node) == pool}

    @cached_property
    def _declaring(self) -> dict[str, str]:
        return {node: name for name, pool in self.declarations.items() for node in pool.nodes}


@dataclass(frozen=True)
class PoolChange:
    """The change of one requested pool. ``taken_from``: node -> the pool that it comes from."""

    name: str
    action: str
    description: str = ""
    nodes: Mapping[str, str | None] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed_types: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    taken_from: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Membership:
    """All changes: ``declarations`` by pool (None deletes it), labels by node.

    A pool that was not requested appears in ``declarations`` if it loses nodes.
    """

    pools: tuple[PoolChange, ...]
    declarations: Mapping[str, Declaration | None]
    labels: Mapping[str, LabelEdit]
    blockers: tuple[str, ...] = ()


def plan_membership(requests: Sequence[PoolRequest], live: LivePools, *, force: bool = False) -> Membership:
    """Plan the requested pools. Reports all blockers, not just the first."""
    members = {request.name: live.members(request.name) for request in requests}
    targets = {request.name: _target(request, members[request.name]) for request in requests}
    taken = {request.name: _taken(request, live) for request in requests}
    blockers = [
        *(line for request in requests for line in _invalid(request, live)),
        *(line for request in requests for line in _in_other_pools(request, taken[request.name], targets, force)),
    ]
    for request in requests:
        for node, owner in taken[request.name].items():
            if owner in targets:
                targets[owner].pop(node, None)
    labels = _label_edits(requests, live, members, targets)
    declarations = _declarations(requests, live, targets)
    return Membership(
        tuple(
            _pool_change(request, live, targets[request.name], taken[request.name], labels, declarations)
            for request in requests
        ),
        declarations,
        labels,
        tuple(blockers),
    )


def _target(request: PoolRequest, members: Mapping[str, str | None]) -> dict[str, str | None]:
    if not request.present:
        return {}
    given = request.nodes
    kept = {} if given is not None and request.purge else members
    return {node: kind for node, kind in {**kept, **(given or {})}.items() if node not in request.remove}


def _taken(request: PoolRequest, live: LivePools) -> dict[str, str]:
    """The requested nodes that belong to another pool, each with that pool."""
    owners = {node: live.pool_of(node) for node in request.nodes or ()} if request.present else {}
    return {node: owner for node, owner in owners.items() if owner and owner != request.name}


def _invalid(request: PoolRequest, live: LivePools) -> Iterable[str]:
    given = request.nodes or {}
    if request.name in live.unmanaged:
        yield (
            f"pool {request.name}: its ConfigMap {pool_config_map_name(request.name)} exists and does not belong to "
            f"gpuctl. Give the pool another name."
        )
    if not request.present:
        return
    unknown = unknown_nodes(sorted(given), live.nodes)
    for node in sorted(given):
        if node in request.remove:
            yield f"pool {request.name}: {node} is in both nodes and remove_nodes. Remove it from one of them."
        if node in unknown:
            yield f"pool {request.name}: {unknown[node]}"


def _in_other_pools(
    request: PoolRequest, taken: Mapping[str, str], targets: Mapping[str, Collection[str]], force: bool
) -> Iterable[str]:
    for node, owner in sorted(taken.items()):
        released = owner in targets and node not in targets[owner]  # The task declares the move at both ends.
        if not released and not force:
            yield (
                f"pool {request.name}: node {node} is in pool {owner}. Remove it from that pool, or set force to true "
                f"to move it."
            )


def _label_edits(
    requests: Sequence[PoolRequest],
    live: LivePools,
    members: Mapping[str, Collection[str]],
    targets: Mapping[str, Mapping[str, str | None]],
) -> dict[str, LabelEdit]:
    """For each node whose labels differ, the labels that differ."""
    desired: dict[str, LabelEdit] = {}
    for request in requests:
        for node in members[request.name]:
            if node not in targets[request.name]:
                desired[node] = {POOL: None, **_without_type(live.nodes.get(node, {}))}
    for request in requests:
        for node, gpu_type in targets[request.name].items():
            desired[node] = {POOL: request.name, **_gpu_type_labels(request, node, gpu_type, live)}
    edits = {
        node: {key: value for key, value in edit.items() if live.nodes[node].get(key) != value}
        for node, edit in sorted(desired.items())
        if node in live.nodes
    }
    return {node: edit for node, edit in edits.items() if edit}


def _gpu_type_labels(request: PoolRequest, node: str, gpu_type: str | None, live: LivePools) -> LabelEdit:
    if gpu_type:
        return {GPU_TYPE: gpu_type, GPU_TYPE_INTERNAL: gpu_type}
    given = node in (request.nodes or ())
    return _without_type(live.nodes.get(node, {})) if given else {}


def _without_type(labels: Labels) -> LabelEdit:
    """Removes a GPU type that a pool set, which the internal label shows. A type that a person set stays."""
    return {GPU_TYPE: None, GPU_TYPE_INTERNAL: None} if GPU_TYPE_INTERNAL in labels else {}


def _declarations(
    requests: Sequence[PoolRequest], live: LivePools, targets: Mapping[str, Mapping[str, str | None]]
) -> dict[str, Declaration | None]:
    found: dict[str, Declaration | None] = {}
    claimed = {node for request in requests for node in targets[request.name]}
    for name, declaration in live.declarations.items():
        if name not in targets and claimed & declaration.nodes.keys():
            left = {node: kind for node, kind in declaration.nodes.items() if node not in claimed}
            found[name] = replace(declaration, nodes=left)
    for request in requests:
        before = live.declarations.get(request.name)
        if not request.present:
            if before:
                found[request.name] = None
            continue
        kept = before.description if before else ""
        description = kept if request.description is None else request.description
        after = Declaration(request.name, description, targets[request.name])
        if after != before:
            found[request.name] = after
    return found


def _pool_change(
    request: PoolRequest,
    live: LivePools,
    target: Mapping[str, str | None],
    taken: Mapping[str, str],
    labels: Mapping[str, LabelEdit],
    declarations: Mapping[str, Declaration | None],
) -> PoolChange:
    labelled = {node for node, carried in live.nodes.items() if carried.get(POOL) == request.name}
    before = live.declarations.get(request.name)
    known = {*labelled, *(before.nodes if before else ())}
    after = declarations.get(request.name) or before
    changed_types = {
        node: (live.nodes[node].get(GPU_TYPE), edit[GPU_TYPE])
        for node, edit in labels.items()
        if node in target and node in labelled and GPU_TYPE in edit
    }
    changed = request.name in declarations or any(node in target or node in labelled for node in labels)
    return PoolChange(
        name=request.name,
        action=_action(request, before, changed),
        description=after.description if after and request.present else "",
        nodes=dict(sorted(target.items())),
        added=tuple(sorted(node for node in target if node in live.nodes and node not in labelled)),
        removed=tuple(sorted(known - target.keys())),
        changed_types=changed_types,
        taken_from=dict(sorted(taken.items())),
    )


def _action(request: PoolRequest, before: Declaration | None, changed: bool) -> str:
    if not changed:
        return "unchanged"
    if not request.present:
        return "delete"
    return "update" if before else "create"
