# SPDX-License-Identifier: BSD-2-Clause
"""What gpuctl_pool returns. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..cluster.pool_declarations import Declaration, hardware_fields, queue_fields
from ..engine.changes import action_summary, map_diff
from ..engine.node_writer import label_diff
from ..labels import SYSTEM_NAMESPACE
from .membership import PoolChange
from .pool_plan import PoolPlans


def pool_results(plans: PoolPlans, busy: Mapping[str, Sequence[tuple[str, str]]] | None = None) -> dict[str, Any]:
    """``changed``, ``results`` and ``msg``. ``busy`` are the jobs on nodes that are divided otherwise, by pool."""
    jobs = busy or {}
    results = [
        {**_pool_result(pool), "busy_jobs": [f"{namespace}/{name}" for namespace, name in jobs.get(pool.name, ())]}
        for pool in plans.membership.pools
    ]
    return {"changed": plans.changed, "results": results, "msg": action_summary(results, "pool")}


def pool_diffs(plans: PoolPlans) -> list[dict[str, str]]:
    """Ansible's ``diff`` entries: one for each declaration and for each node that changes."""
    return [
        *(
            map_diff(
                f"Pool {name} ({SYSTEM_NAMESPACE})",
                _declared_fields(plans.live.declarations.get(name)),
                _declared_fields(after),
            )
            for name, after in plans.membership.declarations.items()
        ),
        *(label_diff(change) for change in plans.label_changes),
    ]


def _pool_result(pool: PoolChange) -> dict[str, Any]:
    return {
        "name": pool.name,
        "action": pool.action,
        "description": pool.description,
        "nodes": list(pool.nodes),
        "gpu_types": dict(pool.nodes),
        "added": list(pool.added),
        "removed": list(pool.removed),
        "changed_types": {
            node: {"before": before, "after": after} for node, (before, after) in pool.changed_types.items()
        },
        "taken_from": dict(pool.taken_from),
        "hardware": hardware_fields(pool.hardware),
        "queue": queue_fields(pool.queue),
        "divided": {
            node: {label: {"before": before, "after": after} for label, (before, after) in changed.items()}
            for node, changed in pool.divided.items()
        },
    }


def _declared_fields(declaration: Declaration | None) -> dict[str, str]:
    if declaration is None:
        return {}
    nodes = {f"nodes.{node}": declaration.nodes[node] or "no GPU type" for node in sorted(declaration.nodes)}
    texts = {"description": declaration.description, "source": declaration.source}
    given = {name: text for name, text in texts.items() if text}
    return {"name": declaration.name, **given, **_hardware(declaration), **_queue_settings(declaration), **nodes}


def _queue_settings(declaration: Declaration) -> dict[str, str]:
    return {f"queue.{name}": str(value) for name, value in queue_fields(declaration.queue).items()}


def _hardware(declaration: Declaration) -> dict[str, str]:
    shown: dict[str, str] = {}
    for name, value in hardware_fields(declaration.hardware).items():
        entries = (
            {f"{name}.{key}": str(text) for key, text in value.items()} if isinstance(value, dict) else {name: value}
        )
        shown |= entries
    return shown
