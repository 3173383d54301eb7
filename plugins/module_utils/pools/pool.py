# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_pool: all pools of a task become as declared, or nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..kube.concurrency import concurrency_argument_spec
from ..task import ModuleSpec, Task, TaskFailed

if TYPE_CHECKING:
    from .membership import PoolRequest

STATES = ("present", "absent")


def pool_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of gpuctl_pool beside those of the connection."""
    return {
        "state": {"type": "str", "choices": list(STATES), "default": "present"},
        "src": {"type": "list", "elements": "path"},
        "definition": {"type": "raw"},
        "allow_empty": {"type": "bool", "default": False},
        "name": {"type": "str"},
        "description": {"type": "str"},
        "nodes": {"type": "raw"},
        "remove_nodes": {"type": "list", "elements": "str"},
        "purge": {"type": "bool", "default": True},
        "force": {"type": "bool", "default": False},
        **concurrency_argument_spec(),
    }


POOL_CONSTRAINTS: dict[str, Any] = {
    "mutually_exclusive": [("src", "definition", "name")],
    "required_one_of": [("src", "definition", "name")],
    "required_by": {"description": "name", "nodes": "name", "remove_nodes": "name"},
}


def run(task: Task) -> dict[str, Any]:
    """Bring the pools of a task to the desired state.

    Returns ``changed``, ``results``, ``diff`` and ``msg``. Raises TaskFailed with a message that says that nothing was
    changed, or what could not be rolled back.
    """
    requests = _select(task.params)
    if not requests:
        return {"changed": False, "results": [], "diff": [], "msg": "0 pools: nothing to do"}
    from .guarded import apply_under_lease, permission_hint
    from .lease import PoolLease
    from .pool_apply import apply_pools, validate_pools
    from .pool_plan import PoolPlans, plan_pools
    from .pool_results import pool_diffs, pool_results

    client = task.client()

    def plan() -> PoolPlans:
        return plan_pools(client, requests, force=task.params["force"])

    with permission_hint():
        if task.check_mode:
            plans = plan()
            validate_pools(client, plans, task.warn)
        else:
            plans = apply_under_lease(
                PoolLease(client),
                plan,
                lambda plans, check_lease: apply_pools(client, plans, check_lease, task.warn),
                create_lease=True,
                warn=task.warn,
            )
    for warning in plans.warnings:
        task.warn(warning)
    return {**pool_results(plans), "diff": task.diff(lambda: pool_diffs(plans))}


MODULE = ModuleSpec(pool_argument_spec(), run, POOL_CONSTRAINTS)


def _select(params: Mapping[str, Any]) -> list[PoolRequest]:
    """The pools of the manifests or of the option ``name``, validated before any request is sent."""
    from ..manifest.load import load
    from ..manifest.models import Pool
    from .membership import PoolRequest

    named = params["name"] is not None
    requests, others = [], []
    for document in load(params["src"] or (), _manifest(params) if named else params["definition"]):
        model = document.model
        if not isinstance(model, Pool):
            others.append(f"{document.origin} ({model.kind})")
            continue
        # A manifest declares its whole pool; options change only what they name.
        complete = not named and params["purge"]
        requests.append(
            PoolRequest(
                name=model.pool.name,
                present=params["state"] == "present",
                description=model.pool.description or ("" if complete else None),
                nodes={node: entry.gpu_type for node, entry in model.nodes.items()}
                if "nodes" in model.model_fields_set
                else None,
                remove=frozenset(params["remove_nodes"] or ()),
                purge=params["purge"],
            )
        )
    if not requests and not params["allow_empty"]:
        found = f" Found: {', '.join(others)}." if others else ""
        raise TaskFailed(f"no pool found in src or definition.{found}")
    return requests


def _manifest(params: Mapping[str, Any]) -> dict[str, Any]:
    """The options as a manifest, so that the same validation applies."""
    manifest: dict[str, Any] = {"kind": "pool", "pool": {"name": params["name"]}}
    if params["description"] is not None:
        manifest["pool"]["description"] = params["description"]
    nodes = params["nodes"]
    if nodes is not None:
        # On the command line (ansible -a 'nodes=node-1,node-2') a list is a string.
        is_text = isinstance(nodes, str)
        manifest["nodes"] = [node.strip() for node in nodes.split(",") if node.strip()] if is_text else nodes
    return manifest
