# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_pool: all pools of a task become as declared, or nothing changes."""

from __future__ import annotations

from typing import Any

from ..cluster.pool_declarations import PoolQueue
from ..jobs.priority_classes import provide_priority_classes
from ..namespaces import allowed_namespaces
from ..queues.provide_queues import QueueChanges, provide_queues, queued_pools
from ..task import ModuleSpec, Task, TaskFailed
from .drain import await_division, disturbance, drained, jobs_on_divided_nodes
from .guarded import apply_under_lease, permission_hint
from .lease import PoolLease
from .membership import PoolRequest
from .pool_apply import apply_pools, validate_pools
from .pool_options import HARDWARE_OPTIONS, POOL_CONSTRAINTS, PoolOptions
from .pool_plan import PoolPlans, plan_pools
from .pool_results import pool_diffs, pool_results


def run(task: Task[PoolOptions]) -> dict[str, Any]:
    """Bring the pools of a task to the desired state.

    Returns ``changed``, ``results``, ``diff`` and ``msg``. Raises TaskFailed with a message that says that nothing was
    changed, or what could not be rolled back.
    """
    if task.options.source or task.options.adopt:
        from ..declared_source import require_usable  # Here: few tasks have a source.

        require_usable(task.options)
    requests = select_pools(task.options)
    if not requests:
        return {"changed": False, "results": [], "diff": [], "msg": "0 pools: nothing to do"}
    client = task.client()

    def plan() -> PoolPlans:
        ignored = frozenset(task.options.ignore_jobs or ())
        return plan_pools(
            client,
            requests,
            force=task.options.force,
            ignored_jobs=ignored,
            options=task.options,
            limited=allowed_namespaces(task) is not None,
        )

    def apply() -> PoolPlans:
        return apply_under_lease(
            PoolLease(client, progress=task.progress),
            plan,
            lambda plans, fence: apply_pools(client, plans, fence, task.progress),
            create_lease=True,
            warn=task.warn,
        )

    task.require_non_negative("drain_timeout")
    busy: dict[str, list[tuple[str, str]]] = {}
    drains: list[dict[str, str]] = []
    with permission_hint():
        if task.check_mode or task.options.drain:
            plans = plan()
            busy = jobs_on_divided_nodes(task, plans)
        if task.options.drain and any(pool.divided for pool in plans.membership.pools):
            with drained(task, busy) as drains:
                if not task.check_mode:
                    plans = apply()
                    await_division(task, plans)
        elif not task.check_mode:
            plans = apply()
            busy = jobs_on_divided_nodes(task, plans)
        if task.check_mode:
            validate_pools(client, plans, task.warn)
    client.remembered.clear()  # What later tasks of the play know is what is declared now.
    for warning in plans.warnings:
        task.warn(warning)
    for pool, jobs in busy.items() if not task.options.drain else ():
        task.warn(disturbance(pool, jobs))
    diff = task.diff(lambda: [*drains, *pool_diffs(plans)])
    queues = _provide_queues(task, plans)
    diff += queues.diff
    if plans.changed and task.options.state == "present":
        diff += provide_priority_classes(task)
    result = pool_results(plans, busy)
    return {**result, "changed": result["changed"] or queues.changed, "diff": diff}


MODULE = ModuleSpec(PoolOptions, run, POOL_CONSTRAINTS, manifests=("pool",), level="administer")


def _provide_queues(task: Task[PoolOptions], plans: PoolPlans) -> QueueChanges:
    """The queues of all pools, if there are any, or were before the task."""
    queued = queued_pools(plans.declarations)
    if not queued and not queued_pools(plans.live.declarations):
        return QueueChanges()
    try:
        return provide_queues(task, queued)
    except TaskFailed as failure:
        raise TaskFailed(str(failure), **{**pool_results(plans), **failure.result}) from failure


def select_pools(options: PoolOptions) -> list[PoolRequest]:
    """The pools of the manifests or of the option ``name``, validated before any request is sent."""
    from ..manifest.load import load
    from ..manifest.pool_model import Pool

    named = options.name is not None
    requests, others = [], []
    for document in load(options.src or (), _manifest(options) if named else options.definition):
        model = document.model
        if not isinstance(model, Pool):
            others.append(f"{document.origin} ({model.kind})")
            continue
        # A manifest declares its whole pool; options change only what they name.
        complete = not named and options.purge
        requests.append(
            PoolRequest(
                name=model.pool.name,
                present=options.state == "present",
                description=model.pool.description or ("" if complete else None),
                nodes={node: entry.gpu_type for node, entry in model.nodes.items()}
                if "nodes" in model.model_fields_set
                else None,
                remove=frozenset(options.remove_nodes or ()),
                purge=options.purge,
                hardware={
                    name: _plain(name, getattr(model, name))
                    for name in HARDWARE_OPTIONS
                    if complete or getattr(options, name) is not None
                },
                queue=PoolQueue(**model.queue.model_dump()) if model.queue else None,
                sets_queue=complete or options.queue is not None,
                # What a manifest declares may be of no source yet, also if it is deleted.
                source=(options.source or "") if named or options.state == "present" else "",
            )
        )
    if not requests and not options.allow_empty:
        found = f" Found: {', '.join(others)}." if others else ""
        raise TaskFailed(f"no pool found in src or definition.{found}")
    return requests


def _plain(name: str, value: Any) -> Any:
    """A field of PoolHardware: a block of a manifest as a map of what it sets."""
    if name not in ("sharing", "new_nodes", "time_limit"):
        return value
    found = value.model_dump(exclude_none=True) if value else {}
    return found if name == "sharing" else {key: str(each) for key, each in found.items()}


def _manifest(options: PoolOptions) -> dict[str, Any]:
    """The options as a manifest, so that the same validation applies."""
    manifest: dict[str, Any] = {"kind": "pool", "pool": {"name": options.name}}
    if options.description is not None:
        manifest["pool"]["description"] = options.description
    # An empty text or map removes what the pool declares.
    manifest |= {name: value for name in (*HARDWARE_OPTIONS, "queue") if (value := getattr(options, name))}
    nodes = options.nodes
    if nodes is not None:
        # On the command line (ansible -a 'nodes=node-1,node-2') a list is a string.
        is_text = isinstance(nodes, str)
        manifest["nodes"] = [node.strip() for node in nodes.split(",") if node.strip()] if is_text else nodes
    return manifest
