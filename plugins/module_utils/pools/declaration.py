# SPDX-License-Identifier: BSD-2-Clause
"""How the ConfigMaps that declare pools change. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..cluster.pool_declarations import HARDWARE, QUEUE, Declaration, pool_config_map
from ..engine.paths import ABSENT, Change, Path, value_at
from ..engine.plan import Action, Plan, Step
from ..labels import DESCRIPTION, MANAGED_BY, POOL, SOURCE, SYSTEM_NAMESPACE, pool_config_map_name


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
        step = _declaration_step(declaration, live.get(pool_config_map_name(pool), {}))
        plans.append(Plan(pool, SYSTEM_NAMESPACE, "pool", (step,)))
    return tuple(plan for plan in plans if plan.changed)


_SOURCE: Path = ("metadata", "annotations", SOURCE)

# All that a declaration sets. Other fields of a ConfigMap are not ours.
_FIELDS: tuple[Path, ...] = (
    ("metadata", "labels", MANAGED_BY),
    ("metadata", "labels", POOL),
    ("metadata", "annotations", DESCRIPTION),
    _SOURCE,
    ("data", "nodes"),
    ("data", HARDWARE),
    ("data", QUEUE),
)


def _declaration_step(declaration: Declaration | None, live: dict[str, Any]) -> Step:
    if declaration is None:
        return Step(Action.DELETE if live else Action.UNCHANGED, {}, live)
    desired = pool_config_map(declaration)
    if not live:
        return Step(Action.CREATE, desired, live)
    values = ((path, value_at(live, path), value_at(desired, path)) for path in _FIELDS)
    found = tuple(Change(*each) for each in values if (each[1] or ABSENT) != (each[2] or ABSENT))
    only_source = [(each.path, each.before) for each in found] == [(_SOURCE, ABSENT)]
    action = Action.ANNOTATE if only_source else Action.UPDATE
    return Step(action if found else Action.UNCHANGED, desired, live, found)
