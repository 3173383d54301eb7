# SPDX-License-Identifier: BSD-2-Clause
"""Which node belongs to which pool, and what has to change. Pure.

A node is in the pool that its label names, because the scheduler uses the label. A node without the label belongs to
the pool that declares it: a node that joined the cluster again has lost its labels, but its pool still declares it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..accelerators.catalog import Catalog, catalog
from ..accelerators.hardware import DEFAULT_ACCELERATOR, PoolHardware, UnfitHardware
from ..cluster.pool_declarations import Declaration, PoolQueue
from ..engine.node_writer import unknown_nodes
from ..labels import DIVISION, GPU_TYPE, GPU_TYPE_INTERNAL, POOL, pool_config_map_name

Labels = Mapping[str, str]
LabelEdit = dict[str, "str | None"]  # None removes the label


@dataclass(frozen=True)
class PoolRequest:
    """The desired state of one pool.

    With ``purge`` the pool has exactly ``nodes`` (name -> GPU type), otherwise at least these. ``nodes`` None changes
    nothing but ``remove``, ``description`` None keeps the live one. ``hardware`` are the fields of PoolHardware that
    change. ``queue`` only counts if ``sets_queue``. ``source`` is what declares the pool, "" keeps what is recorded.
    """

    name: str
    present: bool = True
    description: str | None = None
    nodes: Mapping[str, str | None] | None = None
    remove: frozenset[str] = frozenset()
    purge: bool = True
    hardware: Mapping[str, Any] = field(default_factory=dict)
    queue: PoolQueue | None = None
    sets_queue: bool = False
    source: str = ""


@dataclass(frozen=True)
class LivePools:
    """The labels of every node, the declarations of pools, and the pools whose ConfigMap has another owner.

    ``profiles`` say by which labels devices are divided.
    """

    nodes: Mapping[str, Labels]
    declarations: Mapping[str, Declaration]
    unmanaged: Collection[str] = ()
    profiles: Catalog = field(default_factory=catalog)

    def pool_of(self, node: str) -> str | None:
        """The pool of a node, by its label or else by declaration."""
        return self.nodes.get(node, {}).get(POOL) or self._declared_pools.get(node)

    def members(self, pool: str) -> dict[str, str | None]:
        """The nodes of a pool with their declared GPU types, including declared nodes that left the cluster."""
        declaration = self.declarations.get(pool)
        declared = declaration.nodes if declaration else {}
        labelled = {node for node, labels in self.nodes.items() if labels.get(POOL) == pool}
        return {node: declared.get(node) for node in sorted({*labelled, *declared}) if self.pool_of(node) == pool}

    @cached_property
    def _declared_pools(self) -> dict[str, str]:
        return {node: name for name, pool in self.declarations.items() for node in pool.nodes}


@dataclass(frozen=True)
class PoolChange:
    """The change of one requested pool. ``taken_from``: node -> the pool that it comes from.

    ``divided``: node -> the labels by which its devices are divided otherwise, each with its values before and after.
    """

    name: str
    action: str
    description: str = ""
    nodes: Mapping[str, str | None] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed_types: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    taken_from: Mapping[str, str] = field(default_factory=dict)
    hardware: PoolHardware = field(default_factory=PoolHardware)
    queue: PoolQueue | None = None
    divided: Mapping[str, Mapping[str, tuple[str | None, str | None]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Membership:
    """All changes: ``declarations`` by pool (None deletes it), labels by node.

    A pool that was not requested appears in ``declarations`` if it loses nodes.
    """

    pools: tuple[PoolChange, ...]
    declarations: Mapping[str, Declaration | None]
    labels: Mapping[str, LabelEdit]
    blockers: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Target:
    """The nodes that a pool gets (with their GPU types) and those that it has. ``taken``: node -> the pool it is in."""

    request: PoolRequest
    nodes: dict[str, str | None]
    members: Collection[str]
    taken: Mapping[str, str]


def plan_membership(requests: Sequence[PoolRequest], live: LivePools, *, force: bool = False) -> Membership:
    """Plan the requested pools. Reports all blockers, not just the first."""
    targets = {request.name: _target(request, live) for request in requests}
    blockers = [
        *(line for request in requests for line in _invalid(request, live)),
        *(line for target in targets.values() for line in _in_other_pools(target, targets) if not force),
    ]
    for target in targets.values():
        for node, owner in target.taken.items():
            if owner in targets:
                targets[owner].nodes.pop(node, None)
    labels = _label_edits(targets.values(), live)
    declarations = _declarations(targets, live)
    changes = (_pool_change(target, live, labels, declarations) for target in targets.values())
    return Membership(tuple(changes), declarations, labels, tuple(blockers))


def _target(request: PoolRequest, live: LivePools) -> _Target:
    members = live.members(request.name)
    if not request.present:
        return _Target(request, {}, members, {})
    before = live.declarations.get(request.name)
    grows = request.hardware.get("new_nodes", before.hardware.new_nodes if before else None)
    if grows:  # An autoscaler labels its own nodes.
        stays = {*(before.nodes if before else ()), *(request.nodes or ()), *request.remove}
        members = {node: kind for node, kind in members.items() if node in stays}
    given = request.nodes or {}
    # Nodes that have left the cluster stay declared, so that they are in the pool again once they return.
    kept = {} if request.nodes is not None and request.purge else members
    nodes = {node: kind for node, kind in {**kept, **given}.items() if node not in request.remove}
    owners = ((node, live.pool_of(node)) for node in given)
    return _Target(request, nodes, members, {node: pool for node, pool in owners if pool and pool != request.name})


def _invalid(request: PoolRequest, live: LivePools) -> Iterable[str]:
    if request.name in live.unmanaged:
        yield (
            f"pool {request.name}: its ConfigMap {pool_config_map_name(request.name)} exists and does not belong to "
            f"gpuctl. Give the pool another name."
        )
    given = sorted(request.nodes or ()) if request.present else []
    unknown = unknown_nodes(given, live.nodes)
    for node in given:
        if node in request.remove:
            yield f"pool {request.name}: {node} is in both nodes and remove_nodes. Remove it from one of them."
        if node in unknown:
            yield f"pool {request.name}: {unknown[node]}"


def _in_other_pools(target: _Target, targets: Mapping[str, _Target]) -> Iterable[str]:
    """The nodes that another pool has, unless the task removes them from it."""
    for node, owner in sorted(target.taken.items()):
        if owner not in targets or node in targets[owner].nodes:
            yield (
                f"pool {target.request.name}: node {node} is in pool {owner}. Remove it from that pool, or use "
                f"O(force=true) to move it."
            )


def _label_edits(targets: Collection[_Target], live: LivePools) -> dict[str, LabelEdit]:
    """For each node whose labels differ, the labels that differ."""
    desired: dict[str, LabelEdit] = {}
    for target in targets:
        for node in target.members:
            if node not in target.nodes:
                labels = live.nodes.get(node, {})
                undivided = _division_edit(PoolHardware(), labels, live.profiles)
                desired[node] = {POOL: None, **_without_type(labels), **undivided}
    for target in targets:
        hardware = _hardware_after(target, live)
        for node, gpu_type in target.nodes.items():
            types: LabelEdit = {}
            if gpu_type:
                types = {GPU_TYPE: gpu_type, GPU_TYPE_INTERNAL: gpu_type}
            elif node in (target.request.nodes or ()):
                types = _without_type(live.nodes.get(node, {}))
            divided = _division_edit(hardware, live.nodes.get(node, {}), live.profiles)
            desired[node] = {POOL: target.request.name, **types, **divided}
    edits = {
        node: {key: value for key, value in edit.items() if live.nodes[node].get(key) != value}
        for node, edit in sorted(desired.items())
        if node in live.nodes
    }
    return {node: edit for node, edit in edits.items() if edit}


def _without_type(labels: Labels) -> LabelEdit:
    """Removes a GPU type that a pool set, which the internal label shows. A type that a person set stays."""
    return {GPU_TYPE: None, GPU_TYPE_INTERNAL: None} if GPU_TYPE_INTERNAL in labels else {}


def _hardware_after(target: _Target, live: LivePools) -> PoolHardware:
    before = live.declarations.get(target.request.name)
    return replace(before.hardware if before else PoolHardware(), **target.request.hardware)


def _division_edit(pool: PoolHardware, labels: Labels, profiles: Catalog) -> LabelEdit:
    """The labels by which the devices of a node are divided as its pool declares.

    Those that a pool has set before, which DIVISION names, go with the declaration. What a person set stays.
    """
    profile = profiles.profiles.get(pool.accelerator or DEFAULT_ACCELERATOR)
    try:
        wanted = {each.kind: each for each in profile.divisions(pool)} if profile else {}
    except UnfitHardware:  # said by the plan
        wanted = {}
    owned = set(filter(None, labels.get(DIVISION, "").split(".")))
    edit: LabelEdit = {}
    if owned:
        known = (pair for each in profiles.profiles.values() for pair in each.division_labels())
        edit = {label: None for kind, label in known if kind in owned}
    edit |= {each.label: each.value for each in wanted.values()}
    return {**edit, DIVISION: ".".join(sorted(wanted)) or None} if owned or wanted else {}


def _declarations(targets: Mapping[str, _Target], live: LivePools) -> dict[str, Declaration | None]:
    found: dict[str, Declaration | None] = {}
    claimed = {node for target in targets.values() for node in target.nodes}
    for name, declaration in live.declarations.items():
        if name not in targets and claimed & declaration.nodes.keys():
            left = {node: kind for node, kind in declaration.nodes.items() if node not in claimed}
            found[name] = replace(declaration, nodes=left)
    for name, target in targets.items():
        before, description = live.declarations.get(name), target.request.description
        if description is None:
            description = before.description if before else ""
        hardware = _hardware_after(target, live)
        queue = target.request.queue if target.request.sets_queue or not before else before.queue
        after = None
        if target.request.present:
            source = target.request.source or (before.source if before else "")
            after = Declaration(name, description, target.nodes, hardware=hardware, queue=queue, source=source)
        if after != before:
            found[name] = after
    return found


def _pool_change(
    target: _Target,
    live: LivePools,
    labels: Mapping[str, LabelEdit],
    declarations: Mapping[str, Declaration | None],
) -> PoolChange:
    name, present = target.request.name, target.request.present
    labelled = {node for node in target.members if live.nodes.get(node, {}).get(POOL) == name}
    before = live.declarations.get(name)
    after = declarations.get(name) or before
    action = "unchanged"
    relabelled = labels.keys() & {*target.nodes, *labelled}
    if name in declarations or relabelled:
        action = ("update" if before else "create") if present else "delete"
    if action == "update" and before and after and not relabelled and not before.source:
        action = "annotate" if after == replace(before, source=after.source) else action
    return PoolChange(
        name=name,
        action=action,
        description=after.description if after and present else "",
        nodes=dict(sorted(target.nodes.items())),
        added=tuple(sorted(node for node in target.nodes if node in live.nodes and node not in labelled)),
        removed=tuple(sorted({*labelled, *(before.nodes if before else ())} - target.nodes.keys())),
        changed_types={
            node: (live.nodes[node].get(GPU_TYPE), edit[GPU_TYPE])
            for node, edit in labels.items()
            if node in target.nodes and node in labelled and GPU_TYPE in edit
        },
        taken_from=dict(sorted(target.taken.items())),
        hardware=after.hardware if after and present else PoolHardware(),
        queue=after.queue if after and present else None,
        divided=_divided({*target.nodes, *labelled}, live, labels),
    )


def _divided(
    nodes: Iterable[str], live: LivePools, labels: Mapping[str, LabelEdit]
) -> dict[str, dict[str, tuple[str | None, str | None]]]:
    known = {label for profile in live.profiles.profiles.values() for _kind, label in profile.division_labels()}
    found = {
        node: {key: (live.nodes[node].get(key), value) for key, value in labels[node].items() if key in known}
        for node in sorted(set(nodes) & labels.keys())
    }
    return {node: changed for node, changed in found.items() if changed}
