# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind the module gpuctl_pool: load, read what is there, plan, and change it as one.

Either all pools of a task become what was asked for, or nothing changes: see pools/lease.py for two runs at the same
time, and ``_write`` for the way back when something is refused halfway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..kube.concurrency import concurrency_argument_spec
from ..task import ModuleSpec, Task, TaskFailed

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
    """Bring the pools of a task to the state that it asks for.

    Returns ``changed``, ``results``, ``diff`` and ``msg``. Raises TaskFailed; then nothing was changed, or the message
    says what is left.
    """
    from ..kube.errors import ApiError
    from .lease import Abandoned, Overtaken, PoolLease

    requests = _requested(task)
    if not requests:
        return {"changed": False, "results": [], "diff": [], "msg": "0 pools: nothing to do"}
    lease = PoolLease(task.client())
    overtaken: Overtaken | None = None
    former: _Plan | None = None  # what was planned before somebody else may have changed the pools

    def faster() -> Overtaken:
        """Asked for once their changes have been read: before that, they may not have taken the Lease."""
        return overtaken or lease.overtaken()

    while True:
        established = _observed(task, lease)
        plan = _planned(task, requests, faster if former else None)
        if not plan.changed:
            return _result(task, plan)
        # Whoever changed other pools than ours at the same time is in nobody's way: then the plan is still the same.
        if former and former.membership != plan.membership:
            raise TaskFailed(f"{faster()}. This run changed nothing; run it again to have its pools instead.")
        if task.check_mode:
            _predict(task, plan, established)
            return _result(task, plan)
        former = plan
        try:
            if not established:
                lease.establish()
                continue
            with lease.held():
                _write(task, plan, lease)
                return _result(task, plan)
        except Overtaken as problem:
            overtaken = problem
        except Abandoned as problem:
            former = None
            task.warn(f"{problem}; it was given up, and what it left half done is completed here.")
        except ApiError as refusal:
            raise TaskFailed(f"{refusal}. {_RIGHTS}" if refusal.is_forbidden else str(refusal)) from None


MODULE = ModuleSpec(pool_argument_spec(), run, POOL_CONSTRAINTS)


@dataclass(frozen=True)
class _Plan:
    """What is going to be written, and what it was decided on."""

    membership: Any  # membership.Membership
    now: Any  # membership.PoolsNow
    steps: tuple[Any, ...]  # engine.plan.Plan, one for each ConfigMap that changes
    changes: tuple[Any, ...]  # nodes.LabelChange, one for each node that changes

    @property
    def changed(self) -> bool:
        return bool(self.steps or self.changes)


def _requested(task: Task) -> list[Any]:
    """The pools that the options name, validated; no request has been sent when this fails."""
    from ..manifest.load import load
    from ..manifest.models import Pool
    from .membership import PoolRequest

    params = task.params
    present, named = params["state"] == "present", params["name"] is not None
    definition = _written_out(params) if named else params["definition"]
    requests, others = [], []
    for document in load(params["src"] or (), definition):
        model = document.model
        if not isinstance(model, Pool):
            others.append(f"{document.origin} ({model.kind})")
            continue
        given = "nodes" in model.model_fields_set
        # A manifest is the whole truth about its pool, options are what they name.
        complete = not named and params["purge"]
        requests.append(
            PoolRequest(
                name=model.pool.name,
                present=present,
                description=model.pool.description or ("" if complete else None),
                nodes={node: entry.gpu_type for node, entry in model.nodes.items()} if given else None,
                remove=frozenset(params["remove_nodes"] or ()),
                purge=params["purge"],
            )
        )
    if not requests and not params["allow_empty"]:
        only = f", only: {', '.join(others)}" if others else ""
        raise TaskFailed(f"there is no pool in what was given{only}.")
    return requests


def _written_out(params: Mapping[str, Any]) -> dict[str, Any]:
    """The plain options as the manifest that they stand for, so that they are held to the same rules."""
    manifest: dict[str, Any] = {"kind": "pool", "pool": {"name": params["name"]}}
    if params["description"] is not None:
        manifest["pool"]["description"] = params["description"]
    nodes = params["nodes"]
    if nodes is not None:
        # On a command line (ansible -a 'nodes=node-1,node-2') a list is a text.
        is_text = isinstance(nodes, str)
        manifest["nodes"] = [node.strip() for node in nodes.split(",") if node.strip()] if is_text else nodes
    return manifest


def _observed(task: Task, lease: Any) -> bool:
    from ..kube.errors import ApiError

    try:
        return bool(lease.observe())
    except ApiError as refusal:
        if not refusal.is_forbidden:
            raise
        if task.check_mode:
            return True  # Nothing is going to be taken.
        raise TaskFailed(f"{refusal}. {_RIGHTS}") from None


_RIGHTS = (
    "Changing pools needs the rights to list, get and patch nodes, and to get, list, create, patch and delete "
    "configmaps and leases in the namespace gpuctl-system."
)


def _planned(task: Task, requests: list[Any], faster: Callable[[], Exception] | None) -> _Plan:
    from ..engine.plan import Action, Plan, Step, step_for
    from ..labels import GPU_TYPE, GPU_TYPE_INTERNAL, POOL, SYSTEM_NAMESPACE, pool_config_map_name
    from ..engine.node_writer import LabelChange, labels_of
    from .declaration import pool_config_map
    from .membership import plan_membership

    metadata, config_maps, now = _read(task)
    membership = plan_membership(requests, now, force=task.params["force"])
    blockers = [*membership.blockers, *_jobs_in_the_way(task, membership)]
    if blockers:
        before = f"{faster()}, and now:\n" if faster else ""
        raise TaskFailed(before + "\n".join([*blockers, "Nothing was changed."]))
    steps = []
    for name, declaration in membership.declarations.items():
        live = config_maps.get(pool_config_map_name(name))
        step = step_for(pool_config_map(declaration), live) if declaration else Step(Action.DELETE, {}, live or {})
        steps.append(Plan(name, SYSTEM_NAMESPACE, "pool", (step,)))
    changes = []
    for node, edit in membership.labels.items():
        decided_on = labels_of(metadata[node], dict.fromkeys((POOL, GPU_TYPE, GPU_TYPE_INTERNAL)))
        changes.append(LabelChange(metadata[node], edit, decided_on))
    return _Plan(membership, now, tuple(plan for plan in steps if plan.changed), tuple(changes))


def _read(task: Task) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Nodes and ConfigMaps by name, and what they say about pools: two lists, in pages."""
    from ..kube.errors import ApiError
    from ..kube.resources import CONFIG_MAP
    from ..labels import SYSTEM_NAMESPACE
    from ..engine.node_writer import read_node_metadata
    from .declaration import declaration_of
    from .membership import PoolsNow

    client = task.client()
    try:
        nodes = read_node_metadata(client)
        config_maps = {obj["metadata"]["name"]: obj for obj in client.select(CONFIG_MAP, SYSTEM_NAMESPACE)}
    except ApiError as refusal:
        if refusal.is_forbidden:
            raise TaskFailed(f"{refusal}. {_RIGHTS}") from None
        raise
    declared = [declaration_of(obj) for obj in config_maps.values()]
    declarations = {declaration.name: declaration for declaration in declared if declaration}
    prefix = "pool-"
    foreign = {name.removeprefix(prefix) for name in config_maps if name.startswith(prefix)} - declarations.keys()
    labels = {name: metadata.get("labels") or {} for name, metadata in nodes.items()}
    return nodes, config_maps, PoolsNow(labels, declarations, foreign)


def _jobs_in_the_way(task: Task, membership: Any) -> list[str]:
    """The jobs that use pools which are going to be deleted; with ``force`` a warning says that they keep running."""
    leaving = [pool.name for pool in membership.pools if pool.action == "delete"]
    if not leaving:
        return []
    from ..kube.errors import ApiError

    try:
        users = _users_of(task, leaving)
    except ApiError as refusal:
        if not refusal.is_forbidden:
            raise
        if task.params["force"]:
            return []
        return [
            f"whether jobs use the pool {' or '.join(leaving)} cannot be told: {refusal.message}. Have the right to "
            f"list jobs, deployments and statefulsets in all namespaces granted, or set force to true to delete "
            f"regardless."
        ]
    found = [f"pool {pool} is used by {', '.join(sorted(jobs))}" for pool, jobs in sorted(users.items())]
    if task.params["force"]:
        for line in found:
            task.warn(f"{line}. Running pods go on, but no new pod of these jobs finds a node any more.")
        return []
    return [
        f"{line}; delete them or let them finish first, or set force to true (which stops none of them)."
        for line in found
    ]


def _users_of(task: Task, pools: list[str]) -> dict[str, list[str]]:
    """The unfinished workloads of all namespaces that name one of the pools, by pool."""
    from ..cluster.status import status_of
    from ..kube.resources import DEPLOYMENT, JOB, STATEFUL_SET
    from ..labels import POOL

    users: dict[str, list[str]] = {}
    for resource in (JOB, DEPLOYMENT, STATEFUL_SET):
        for obj in task.client().select(resource, labels=f"{POOL} in ({','.join(sorted(pools))})"):
            # Only trainings come to an end. A paused service needs its pool when it is resumed.
            if status_of(obj) not in ("Succeeded", "Failed"):
                metadata = obj["metadata"]
                users.setdefault(metadata["labels"][POOL], []).append(f"{metadata['namespace']}/{metadata['name']}")
    return users


def _predict(task: Task, plan: _Plan, established: bool) -> None:
    """The same writes as dry runs, so that the server validates them."""
    from ..engine.apply import Executor
    from ..kube.resources import NAMESPACE
    from ..labels import SYSTEM_NAMESPACE
    from ..engine.node_writer import NodeWriter

    client = task.client()
    if established or client.get(NAMESPACE, None, SYSTEM_NAMESPACE):
        executor = Executor(client, check_mode=True, gone_timeout=0, warn=task.warn, force_conflicts=True)
        for step in plan.steps:
            executor.apply_plan(step)
    writer = NodeWriter(client, check_mode=True)
    failures = writer.write(plan.changes).failures
    forbidden = [failure for failure in failures if failure.error == "Forbidden"]
    if forbidden:
        task.warn(f"labels of nodes were not validated by the server, {forbidden[0].message}")
    elif failures:
        raise TaskFailed("\n".join([*(failure.message for failure in failures), "Nothing was changed."]))


def _write(task: Task, plan: _Plan, lease: Any) -> None:
    """Declare, label the nodes, and last remove declarations; when something is refused, take all of it back.

    A run that is killed in between leaves the declaration of what it was at, and the next run completes that.
    """
    from ..engine.apply import ApplyResult, Executor
    from ..engine.plan import Action
    from ..kube.errors import KubeError
    from ..engine.node_writer import NodeWriter

    # Declarations are ours alone: what somebody changed in one by hand is put right.
    executor = Executor(task.client(), check_mode=False, gone_timeout=60, warn=task.warn, force_conflicts=True)
    writer = NodeWriter(task.client(), before_each=lease.check)
    declared: list[ApplyResult] = []
    labelled: tuple[Any, ...] = ()
    try:
        for step in plan.steps:
            if step.action is not Action.DELETE:
                declared.append(executor.apply_plan(step))
        written = writer.write(plan.changes)
        labelled = written.done
        if written.failures:
            raise TaskFailed("\n".join(dict.fromkeys(failure.message for failure in written.failures)))
        lease.check()
        for step in plan.steps:
            if step.action is Action.DELETE:
                declared.append(executor.apply_plan(step))
    except (KubeError, TaskFailed) as problem:
        left = [f"{failure.node} ({failure.message})" for failure in writer.undo(labelled)]
        left += _undeclare(executor, declared)
        end = f"What could not be taken back: {'; '.join(left)}" if left else "Nothing was changed."
        raise TaskFailed(f"{problem}\n{end}") from problem


def _undeclare(executor: Any, outcomes: Iterable[Any]) -> list[str]:
    """Make the ConfigMaps what they were; what could not be, in words."""
    from ..engine.fields import applied_by
    from ..engine.plan import Action, Step
    from ..kube.errors import KubeError
    from ..labels import FIELD_MANAGER

    left = []
    for outcome in outcomes:
        (step,) = outcome.plan.steps
        if step.action is Action.CREATE:
            (made,) = outcome.objects.values()
            back = Step(Action.DELETE, {}, made)
        else:
            back = Step(Action.UPDATE, applied_by(FIELD_MANAGER, step.live), {})
        try:
            executor.apply_plan(outcome.plan.with_steps((back,)))
        except KubeError as problem:
            left.append(str(problem))
    return left


def _result(task: Task, plan: _Plan) -> dict[str, Any]:
    for line in _taken_by_force(plan):
        task.warn(line)
    results = [_entry(pool) for pool in plan.membership.pools]
    counts = Counter(result["action"] for result in results)
    summary = ", ".join(f"{number} {action}" for action, number in sorted(counts.items()))
    return {
        "changed": plan.changed,
        "results": results,
        "diff": task.diff(lambda: _diffs(plan)),
        "msg": f"{len(results)} {'pool' if len(results) == 1 else 'pools'}: {summary}",
    }


def _taken_by_force(plan: _Plan) -> Iterable[str]:
    """What happens to pools that the task does not declare, which is why somebody has to be told."""
    declared = {pool.name for pool in plan.membership.pools}
    for pool in plan.membership.pools:
        for former in sorted(set(pool.taken_from.values()) - declared):
            nodes = [node for node, owner in pool.taken_from.items() if owner == former]
            yield f"pool {pool.name} takes {', '.join(nodes)} from pool {former}, because force is true."


def _entry(pool: Any) -> dict[str, Any]:
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
    }


def _diffs(plan: _Plan) -> list[dict[str, str]]:
    """For each pool what changes in its declaration, and for each node its labels."""
    from ..labels import SYSTEM_NAMESPACE
    from ..engine.node_writer import diff_of

    diffs = []
    for name, after in plan.membership.declarations.items():
        before = plan.now.declarations.get(name)
        diffs.append(_declaration_diff(f"Pool {name} ({SYSTEM_NAMESPACE})", before, after))
    return [*diffs, *(diff_of(change) for change in plan.changes)]


def _declaration_diff(header: str, before: Any, after: Any) -> dict[str, str]:
    left, right = _facts(before), _facts(after)
    keys = [key for key in {**left, **right} if left.get(key) != right.get(key)]
    return {
        "before": "".join(f"{key}: {left[key]}\n" for key in keys if key in left),
        "after": "".join(f"{key}: {right[key]}\n" for key in keys if key in right),
        "before_header": header,
        "after_header": header,
    }


def _facts(declaration: Any) -> dict[str, str]:
    if declaration is None:
        return {}
    nodes = {f"nodes.{node}": declaration.nodes[node] or "no GPU type" for node in sorted(declaration.nodes)}
    description = {"description": declaration.description} if declaration.description else {}
    return {"name": declaration.name, **description, **nodes}
