# SPDX-License-Identifier: BSD-2-Clause
"""A pool's ConfigMap, which declares its nodes with their GPU types and describes it. Pure.

The scheduler uses the labels of the nodes; the ConfigMap records what the labels should be. Read one with
``kubectl get configmap pool-<name> -n gpuctl-system -o yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..engine.fields import ABSENT, Change, Path, value_at
from ..engine.plan import Action, Plan, Step
from ..labels import (
    DESCRIPTION,
    DNS_LABEL,
    FIELD_MANAGER,
    LABEL_VALUE,
    MANAGED_BY,
    POOL,
    SYSTEM_NAMESPACE,
    is_managed,
    pool_config_map_name,
)
from ..manifest.problems import abridged, number_of


@dataclass(frozen=True)
class Declaration:
    """A declared pool: node name -> GPU type, None if undeclared. Nodes that cannot be read are missing."""

    name: str
    description: str = ""
    nodes: Mapping[str, str | None] = field(default_factory=dict)
    problem: str | None = None  # what of the ConfigMap cannot be read


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
    """The declarations by pool. Skips unmanaged ConfigMaps and those that are not named as a pool's."""
    found = {}
    for config_map in config_maps:
        metadata = config_map["metadata"]
        pool = (metadata.get("labels") or {}).get(POOL)
        if pool and is_managed(config_map) and metadata["name"] == pool_config_map_name(pool):
            description = (metadata.get("annotations") or {}).get(DESCRIPTION) or ""
            nodes, odd = _parse_nodes((config_map.get("data") or {}).get("nodes") or "")
            found[pool] = Declaration(pool, description, nodes, _problem(pool, odd) if odd else None)
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


_NODE_LINE = re.compile(rf"(?P<node>{DNS_LABEL}(?:\.{DNS_LABEL})*):\s*(?P<type>{LABEL_VALUE})?")


def _parse_nodes(text: str) -> tuple[dict[str, str | None], list[int]]:
    """The nodes with their GPU types, and the numbers of the lines that are none: a person may have edited them."""
    nodes: dict[str, str | None] = {}
    odd = []
    for number, line in enumerate(text.splitlines(), 1):
        if found := _NODE_LINE.fullmatch(line.strip()):
            nodes[found["node"]] = found["type"]
        elif line.strip():
            odd.append(number)
    return nodes, odd


def _problem(pool: str, odd: list[int]) -> str:
    name = pool_config_map_name(pool)
    return (
        f"ConfigMap {name} in namespace {SYSTEM_NAMESPACE}: {number_of(len(odd), 'line')} of nodes cannot be read: "
        f"{abridged([str(number) for number in odd], 5)}. Correct them to NODE: GPU-TYPE with kubectl edit configmap "
        f"{name} --namespace {SYSTEM_NAMESPACE}, or declare the pool again with M(gpuctl_pool)."
    )
