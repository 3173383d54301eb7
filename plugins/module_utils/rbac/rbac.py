# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind the module gpuctl_rbac: what an account may do, read, planned and written like everything else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..labels import SYSTEM_NAMESPACE
from ..task import ModuleSpec, Task, TaskFailed
from .levels import ADMINISTER, LEVELS, SUBMIT

if TYPE_CHECKING:
    from ..engine.apply import ApplyResult
    from ..engine.plan import Plan, Step

# The heavy imports stand in the functions that need them, see job.py.

Object = dict[str, Any]


def rbac_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of gpuctl_rbac beside those of the connection."""
    return {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "name": {"type": "str", "required": True},
        "namespace": {"type": "str", "default": SYSTEM_NAMESPACE},
        "level": {"type": "str", "choices": list(LEVELS)},
        "namespaces": {"type": "list", "elements": "str"},
    }


RBAC_CONSTRAINTS: dict[str, Any] = {
    "required_if": [("state", "present", ("level",)), ("level", SUBMIT, ("namespaces",))],
}


def run(task: Task) -> dict[str, Any]:
    """Bring the access of one account to what the task asks for.

    Returns ``changed``, ``results``, ``diff`` and ``msg``. Raises TaskFailed before anything is written, and KubeError
    for what the server refuses on the way.
    """
    from ..engine.apply import Executor

    _check(task.params)
    plan = _planned_present(task) if task.params["state"] == "present" else _planned_absent(task)
    # What somebody changed by hand in our roles and bindings is put right: rights are not a matter of who was last.
    executor = Executor(
        task.client(), check_mode=task.check_mode, gone_timeout=60, warn=task.warn, force_conflicts=True
    )
    return _report(task, executor.apply_plan(plan))


MODULE = ModuleSpec(rbac_argument_spec(), run, RBAC_CONSTRAINTS)

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST = 63


def _check(params: Mapping[str, Any]) -> None:
    """The mistakes that can be told without a cluster, all at once."""
    names = {"name": [params["name"]], "namespace": [params["namespace"]], "namespaces": params["namespaces"] or []}
    problems = [
        f"{option} {name!r} cannot be a name in Kubernetes; use lower case letters, digits and '-', at most {_LONGEST}."
        for option, given in names.items()
        for name in given
        if len(name) > _LONGEST or not _DNS_LABEL.fullmatch(name)
    ]
    if params["namespaces"] == []:
        # A variable that is empty is not the whole cluster.
        problems.append("namespaces is empty; name at least one, or leave it out to mean the whole cluster.")
    if params["namespaces"] and params["level"] == ADMINISTER:
        problems.append("administer is for the whole cluster, as pools and quotas are; leave namespaces out.")
    if problems:
        raise TaskFailed("\n".join([*problems, "Nothing was changed."]))


def _planned_present(task: Task) -> Plan:
    """The account where it is missing, the roles of its level, its bindings; then the end of bindings it had before."""
    from ..engine.plan import Action, Plan, Step, step_for
    from . import levels

    params = task.params
    name, namespace, level = params["name"], params["namespace"], params["level"]
    before = tuple(_namespace_steps(task, [namespace, *(params["namespaces"] or ())]))
    wanted = [*levels.cluster_roles(level), *levels.bindings(name, namespace, level, params["namespaces"])]
    held = {_identity(obj): obj for obj in _bindings_of(task, name, namespace)}
    live = {_identity(obj): held.pop(_identity(obj), None) or _get(task, obj) for obj in wanted}
    _refuse_foreign(obj for obj in live.values() if obj)
    wanted_account = levels.account(name, namespace)
    present = _get(task, wanted_account)
    # An account that somebody else made (the one of a pod, say) gets the rights, and nothing of it is touched.
    account = step_for(wanted_account, present) if not present else Step(Action.UNCHANGED, wanted_account, present)
    steps = [step_for(obj, live[_identity(obj)]) for obj in wanted]
    # Last: an account that moves to another level is never without one.
    ends = [Step(Action.DELETE, {}, obj) for obj in held.values()]
    return Plan(name, namespace, "account", (account, *steps, *ends), before)


def _planned_absent(task: Task) -> Plan:
    """The end of the account's bindings, and of the account where it is ours. The roles stay: others may be bound."""
    from ..engine.plan import Action, Plan, Step
    from ..labels import is_ours
    from . import levels

    name, namespace = task.params["name"], task.params["namespace"]
    ending = _bindings_of(task, name, namespace)
    present = _get(task, levels.account(name, namespace))
    if present and is_ours(present):
        ending.insert(0, present)
    return Plan(name, namespace, "account", tuple(Step(Action.DELETE, {}, obj) for obj in ending))


def _namespace_steps(task: Task, names: list[str]) -> Iterator[Step]:
    """The namespace of accounts is made where it is missing; that any other is missing is an error."""
    from ..engine.plan import step_for
    from ..kube.resources import NAMESPACE
    from ..pools.lease import system_namespace

    found = {obj["metadata"]["name"] for obj in task.client().list_objects(NAMESPACE, metadata_only=True)}
    missing = [name for name in dict.fromkeys(names) if name not in found]
    if SYSTEM_NAMESPACE in missing:
        missing.remove(SYSTEM_NAMESPACE)
        yield step_for(system_namespace(), None)
    if missing and not task.check_mode:  # in which an earlier task may only have said that it would make them
        noun = "namespace" if len(missing) == 1 else "namespaces"
        raise TaskFailed(
            f"there is no {noun} {', '.join(missing)}. Create it first: kubectl create namespace, or gpuctl_quota with "
            f"a quota for it. Nothing was changed."
        )


def _bindings_of(task: Task, name: str, namespace: str) -> list[Object]:
    """What of ours gives the account rights anywhere."""
    from ..kube.resources import CLUSTER_ROLE_BINDING, ROLE_BINDING
    from ..labels import OURS
    from .levels import is_subject

    found = [
        obj for kind in (CLUSTER_ROLE_BINDING, ROLE_BINDING) for obj in task.client().list_objects(kind, labels=OURS)
    ]
    return [obj for obj in found if is_subject(obj, name, namespace)]


def _get(task: Task, obj: Object) -> Object | None:
    from ..kube.resources import resource_of

    metadata = obj["metadata"]
    return task.client().get(resource_of(obj), metadata.get("namespace"), metadata["name"])


def _identity(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]


def _refuse_foreign(found: Iterator[Object]) -> None:
    from ..labels import is_ours

    foreign = [
        f"{obj['kind']} {obj['metadata']['name']} exists and does not belong to gpuctl, so it was not touched. Delete "
        f"it or label it app.kubernetes.io/managed-by=runwhere.gpuctl."
        for obj in found
        if not is_ours(obj)
    ]
    if foreign:
        raise TaskFailed("\n".join([*foreign, "Nothing was changed."]))


def _report(task: Task, outcome: ApplyResult) -> dict[str, Any]:
    from ..engine.results import diffs_of, resource_result

    params, plan = task.params, outcome.plan
    present = params["state"] == "present"
    result = {
        "name": plan.name,
        "namespace": plan.namespace,
        "user": f"system:serviceaccount:{plan.namespace}:{plan.name}",
        "level": params["level"] if present else None,
        "namespaces": params["namespaces"] if present else None,
        "action": str(plan.action),
        "resources": [resource_result(step) for step in (*plan.prerequisites, *plan.steps)],
    }
    return {
        "changed": plan.changed,
        "results": [result],
        "diff": task.diff(lambda: diffs_of(plan, ())),
        "msg": f"{result['user']}: {result['action']}",
    }
