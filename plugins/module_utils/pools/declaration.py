# SPDX-License-Identifier: BSD-2-Clause
"""A pool's ConfigMap, which declares its nodes with their GPU types and describes it. Pure.

The scheduler uses the labels of the nodes; the ConfigMap records what the labels should be. Read one with
``kubectl get configmap pool-<name> -n gpuctl-system -o yaml``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..engine.fields import ABSENT, Change, Path, value_at
from ..engine.plan import Action, Plan, Step
from ..labels import DESCRIPTION, FIELD_MANAGER, MANAGED_BY, POOL, SYSTEM_NAMESPACE, is_managed, pool_config_map_name


@dataclass(frozen=True)
class Declaration:
    """A declared pool: node name -> GPU type, None if undeclared."""

    name: str
    description: str = ""
    nodes: Mapping[str, str | None] = field(default_factory=dict)


def pool_config_map(declaration: Declaration) -> dict[str, Any]:
    """The ConfigMap of a pool; its ``nodes`` are YAML, one line ``<node>: <gpu type>`` each."""
    annotations = {"annotations": {DESCRIPTION: declaration.description}} if declaration.description else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": pool_config_map_name(declaration.name),
            "namespace": SYSTEM_NAMESPACE,
            "labels": {MANAGED_BY: FIELD_MANAGER, POOL: declaration.name},
            **annotations,
        },
        "data": {"nodes": _format_nodes(declaration.nodes)},
    }


def declarations_in(config_maps: Iterable[Mapping[str, Any]]) -> dict[str, Declaration]:
    """The declarations by pool. Skips unmanaged ConfigMaps and those that declare no pool."""
    found = {}
    for config_map in config_maps:
        metadata = config_map["metadata"]
        pool = (metadata.get("labels") or {}).get(POOL)
        if pool and is_managed(config_map):
            description = (metadata.get("annotations") or {}).get(DESCRIPTION) or ""
            nodes = _parse_nodes((config_map.get("data") or {}).get("nodes") or "")
            found[pool] = Declaration(pool, description, nodes)
    return found


def declarations_after(
    declarations: Mapping[str, Declaration], pools: Mapping[str, str | None]
) -> dict[str, Declaration]:
    """The declarations that have to change when the pool labels of nodes become ``pools`` (node -> pool)."""
    changed: dict[str, Declaration] = {}
    for name, declaration in declarations.items():
        nodes = {node: kind for node, kind in declaration.nodes.items() if pools.get(node, name) == name}
        nodes |= {node: None for node, pool in pools.items() if pool == name and node not in nodes}
        if nodes != declaration.nodes:
            changed[name] = replace(declaration, nodes=nodes)
    return changed


def plan_config_maps(
    declarations: Mapping[str, Declaration | None], config_maps: Iterable[dict[str, Any]]
) -> tuple[Plan, ...]:
    """A plan for each ConfigMap that changes. ``declarations`` are by pool, None deletes one."""
    live = {obj["metadata"]["name"]: obj for obj in config_maps}
    plans = []
    for pool, declaration in declarations.items():
        step = _step(declaration, live.get(pool_config_map_name(pool), {}))
        plans.append(Plan(pool, SYSTEM_NAMESPACE, "pool", (step,)))
    return tuple(plan for plan in plans if plan.changed)


# All that a declaration sets. Other fields of a ConfigMap are not ours.
_FIELDS: tuple[Path, ...] = (
    ("metadata", "labels", MANAGED_BY),
    ("metadata", "labels", POOL),
    ("metadata", "annotations", DESCRIPTION),
    ("data", "nodes"),
)


def _step(declaration: Declaration | None, live: dict[str, Any]) -> Step:
    if declaration is None:
        return Step(Action.DELETE if live else Action.UNCHANGED, {}, live)
    desired = pool_config_map(declaration)
    if not live:
        return Step(Action.CREATE, desired, live)
    values = ((path, value_at(live, path), value_at(desired, path)) for path in _FIELDS)
    found = tuple(Change(*each) for each in values if (each[1] or ABSENT) != (each[2] or ABSENT))
    return Step(Action.UPDATE if found else Action.UNCHANGED, desired, live, found)


def _format_nodes(nodes: Mapping[str, str | None]) -> str:
    # Neither node names nor label values contain a colon, a space or a line break: no YAML library needed.
    return "".join(f"{node}: {nodes[node]}\n" if nodes[node] else f"{node}:\n" for node in sorted(nodes))


def _parse_nodes(text: str) -> dict[str, str | None]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {node.strip(): gpu_type.strip() or None for node, dummy, gpu_type in pairs if node.strip()}
