# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Which node belongs to which pool, and what has to change for that. Pure: data in, data out.

A node is in the pool that its label names: that is what the scheduler goes by. A node without the label belongs to the
pool that declares it (a node that joined the cluster anew has lost its labels, its pool has not lost the node).
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..labels import GPU_TYPE, GPU_TYPE_INTERNAL, POOL
from .declaration import Declaration

Labels = Mapping[str, str]
LabelEdit = dict[str, "str | None"]  # None removes the label


@dataclass(frozen=True)
class PoolRequest:
    """What is asked of one pool.

    ``nodes`` None leaves the membership as it is, but for ``remove``; with ``purge`` the pool has exactly ``nodes``,
    without it at least these. ``description`` None keeps the one that is there.
    """

    name: str
    present: bool = True
    description: str | None = None
    nodes: Mapping[str, str | None] | None = None
    remove: frozenset[str] = frozenset()
    purge: bool = True


@dataclass(frozen=True)
class PoolsNow:
    """What is there: the labels of every node, the declarations of pools, and ConfigMaps in the way of one."""

    nodes: Mapping[str, Labels]
    declarations: Mapping[str, Declaration]
    foreign: Collection[str] = ()

    def pool_of(self, node: str) -> str | None:
        """The pool that a node belongs to, by its label or else by declaration."""
        return self.nodes.get(node, {}).get(POOL) or self._declaring.get(node)

    def members(self, pool: str) -> dict[str, str | None]:
        """The nodes of a pool with the GPU types that it declares for them; declared ones that are gone too."""
        declaration = self.declarations.get(pool)
        declared = declaration.nodes if declaration else {}
        labelled = {node for node, labels in self.nodes.items() if labels.get(POOL) == pool}
        return {node: declared.get(node) for node in sorted({*labelled, *declared}) if self.pool_of(node) == pool}

    @cached_property
    def _declaring(self) -> dict[str, str]:
        return {node: name for name, pool in self.declarations.items() for node in pool.nodes}


@dataclass(frozen=True)
class PoolChange:
    """What happens to one of the pools that were asked for. ``taken_from``: node -> the pool that it comes from."""

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
    """Everything that has to change: ``declarations`` (None: none any more) by pool, labels by node.

    Other pools appear in ``declarations`` when nodes are taken from them.
    """

    pools: tuple[PoolChange, ...]
    declarations: Mapping[str, Declaration | None]
    labels: Mapping[str, LabelEdit]
    blockers: tuple[str, ...] = ()


def plan_membership(requests: Sequence[PoolRequest], now: PoolsNow, *, force: bool = False) -> Membership:
    """What makes the pools what is asked for. All obstacles are found, not just the first."""
    members = {request.name: now.members(request.name) for request in requests}
    targets = {request.name: _target(request, members[request.name]) for request in requests}
    taken = {request.name: _taken(request, now) for request in requests}
    blockers = [
        *(line for request in requests for line in _unfit(request, now)),
        *(line for request in requests for line in _not_free(request, taken[request.name], targets, force)),
    ]
    for request in requests:
        for node, former in taken[request.name].items():
            if former in targets:
                targets[former].pop(node, None)
    labels = _label_edits(requests, now, members, targets)
    declarations = _declarations(requests, now, targets)
    return Membership(
        tuple(
            _pool_change(request, now, targets[request.name], taken[request.name], labels, declarations)
            for request in requests
        ),
        declarations,
        labels,
        tuple(blockers),
    )


def declarations_after(now: PoolsNow, pools: Mapping[str, str | None]) -> dict[str, Declaration]:
    """The declarations that have to change so that they stay true when nodes' pool labels become ``pools``."""
    changed: dict[str, Declaration] = {}
    for name, declaration in now.declarations.items():
        nodes = {node: kind for node, kind in declaration.nodes.items() if pools.get(node, name) == name}
        nodes |= {node: None for node, pool in pools.items() if pool == name and node not in nodes}
        if nodes != declaration.nodes:
            changed[name] = replace(declaration, nodes=nodes)
    return changed


# Comparing takes 0.1 s for each name in a cluster of 2,000 nodes, and who has many names wrong has the wrong cluster.
_GUESSED = 3


def unknown_nodes(names: Iterable[str], nodes: Collection[str]) -> dict[str, str]:
    """Those of ``names`` that are no nodes of the cluster, each with a sentence that says so.

    A few of them get a hint at the name that was probably meant.
    """
    unknown = [name for name in dict.fromkeys(names) if name not in nodes]
    near = {name: difflib.get_close_matches(name, nodes, n=1, cutoff=0.6) for name in unknown[:_GUESSED]}
    return {name: f"the cluster has no node {name}{_hint(near.get(name))}" for name in unknown}


def _hint(near: Sequence[str] | None) -> str:
    return f"; did you mean {near[0]}?" if near else "; kubectl get nodes lists the names."


def _target(request: PoolRequest, members: Mapping[str, str | None]) -> dict[str, str | None]:
    if not request.present:
        return {}
    given = request.nodes
    kept = {} if given is not None and request.purge else members
    return {node: kind for node, kind in {**kept, **(given or {})}.items() if node not in request.remove}


def _taken(request: PoolRequest, now: PoolsNow) -> dict[str, str]:
    """The given nodes that belong to another pool, and to which."""
    owners = {node: now.pool_of(node) for node in request.nodes or ()} if request.present else {}
    return {node: owner for node, owner in owners.items() if owner and owner != request.name}


def _unfit(request: PoolRequest, now: PoolsNow) -> Iterable[str]:
    given = request.nodes or {}
    if request.name in now.foreign:
        yield (
            f"pool {request.name}: the ConfigMap that would declare it exists and does not belong to gpuctl, so it was "
            f"not touched; give the pool another name."
        )
    if not request.present:
        return
    unknown = unknown_nodes(sorted(given), now.nodes)
    for node in sorted(given):
        if node in request.remove:
            yield f"pool {request.name}: {node} is both in nodes and in remove_nodes; keep one of them."
        if node in unknown:
            yield f"pool {request.name}: {unknown[node]}"


def _not_free(
    request: PoolRequest, taken: Mapping[str, str], targets: Mapping[str, Collection[str]], force: bool
) -> Iterable[str]:
    for node, owner in sorted(taken.items()):
        let_go = owner in targets and node not in targets[owner]  # a move, declared at both ends
        if not let_go and not force:
            yield f"pool {request.name}: {node} is in pool {owner}; take it out there, or set force to true to move it."


def _label_edits(
    requests: Sequence[PoolRequest],
    now: PoolsNow,
    members: Mapping[str, Collection[str]],
    targets: Mapping[str, Mapping[str, str | None]],
) -> dict[str, LabelEdit]:
    """One edit for each node that has other labels than it should have, with nothing in it that stays."""
    wanted: dict[str, LabelEdit] = {}
    for request in requests:
        for node in members[request.name]:
            if node not in targets[request.name]:
                wanted[node] = {POOL: None, **_without_type(now.nodes.get(node, {}))}
    for request in requests:
        for node, gpu_type in targets[request.name].items():
            wanted[node] = {POOL: request.name, **_typed(request, node, gpu_type, now)}
    edits = {
        node: {key: value for key, value in edit.items() if now.nodes[node].get(key) != value}
        for node, edit in sorted(wanted.items())
        if node in now.nodes
    }
    return {node: edit for node, edit in edits.items() if edit}


def _typed(request: PoolRequest, node: str, gpu_type: str | None, now: PoolsNow) -> LabelEdit:
    if gpu_type:
        return {GPU_TYPE: gpu_type, GPU_TYPE_INTERNAL: gpu_type}
    given = node in (request.nodes or ())
    return _without_type(now.nodes.get(node, {})) if given else {}


def _without_type(labels: Labels) -> LabelEdit:
    """A GPU type goes if a pool set it: the internal label says so. One that a person set stays."""
    return {GPU_TYPE: None, GPU_TYPE_INTERNAL: None} if GPU_TYPE_INTERNAL in labels else {}


def _declarations(
    requests: Sequence[PoolRequest], now: PoolsNow, targets: Mapping[str, Mapping[str, str | None]]
) -> dict[str, Declaration | None]:
    found: dict[str, Declaration | None] = {}
    claimed = {node for request in requests for node in targets[request.name]}
    for name, declaration in now.declarations.items():
        if name not in targets and claimed & declaration.nodes.keys():
            left = {node: kind for node, kind in declaration.nodes.items() if node not in claimed}
            found[name] = replace(declaration, nodes=left)
    for request in requests:
        before = now.declarations.get(request.name)
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
    now: PoolsNow,
    target: Mapping[str, str | None],
    taken: Mapping[str, str],
    labels: Mapping[str, LabelEdit],
    declarations: Mapping[str, Declaration | None],
) -> PoolChange:
    labelled = {node for node, carried in now.nodes.items() if carried.get(POOL) == request.name}
    before = now.declarations.get(request.name)
    known = {*labelled, *(before.nodes if before else ())}
    after = declarations.get(request.name) or before
    changed_types = {
        node: (now.nodes[node].get(GPU_TYPE), edit[GPU_TYPE])
        for node, edit in labels.items()
        if node in target and node in labelled and GPU_TYPE in edit
    }
    changed = request.name in declarations or any(node in target or node in labelled for node in labels)
    return PoolChange(
        name=request.name,
        action=_action(request, before, changed),
        description=after.description if after and request.present else "",
        nodes=dict(sorted(target.items())),
        added=tuple(sorted(node for node in target if node in now.nodes and node not in labelled)),
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
