# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_rbac: read, plan and apply the access of one account."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..cluster.status import being_deleted, is_terminating
from ..engine.apply import ApplyFailed, ApplyResult, Executor
from ..engine.changes import diffs_of, resource_result
from ..engine.plan import Action, Plan, Step, describe, object_id
from ..engine.planning import step_for
from ..engine.rounds import apply_in_rounds, merged
from ..jobs.priority_classes import priority_class_steps
from ..kube.concurrency import run_concurrently
from ..kube.errors import ConcurrentChange, KubeError, as_sentence
from ..kube.resources import CLUSTER_ROLE_BINDING, NAMESPACE, ROLE_BINDING, SERVICE_ACCOUNT, resource_of
from ..labels import DNS_LABEL, LABEL_LENGTH, MANAGED, SYSTEM_NAMESPACE, is_managed, owner_of_reserved
from ..options import Options, option
from ..permissions import ADMINISTER, LEVELS, READ, SUBMIT
from ..pools.lease import system_namespace
from ..task import ModuleSpec, Task, TaskFailed
from . import levels

Object = dict[str, Any]

_KINDS = {"service_account": SERVICE_ACCOUNT.kind, "user": levels.USER, "group": levels.GROUP}


@dataclass(frozen=True, kw_only=True)
class SubjectOptions(Options):
    """The options of modules that are about one account."""

    kind: str = option("str", choices=list(_KINDS), default="service_account")
    name: str = option("str", required=True)
    namespace: str = option("str", default=SYSTEM_NAMESPACE)

    @property
    def subject(self) -> levels.Subject:
        kind = _KINDS[self.kind]
        return levels.Subject(kind, self.name, self.namespace if kind == SERVICE_ACCOUNT.kind else "")

    @property
    def noun(self) -> str:
        """What messages call it."""
        return "account" if self.kind == "service_account" else self.kind


@dataclass(frozen=True, kw_only=True)
class RbacOptions(SubjectOptions):
    state: str = option("str", choices=["present", "absent"], default="present")
    level: str | None = option("str", choices=list(LEVELS))
    namespaces: list[str] | None = option("list", elements="str")
    exec: bool = option("bool", default=False)
    append: bool = option("bool", default=False)


RBAC_CONSTRAINTS: dict[str, Any] = {
    "required_if": [("state", "present", ("level",)), ("level", SUBMIT, ("namespaces",))],
}


def run(task: Task[RbacOptions]) -> dict[str, Any]:
    """Bring the access of one account to the desired state.

    Returns ``changed``, ``results``, ``diff`` and ``msg``. Raises TaskFailed, with the same if something was written.
    """
    _validate_options(task.options)
    # Manual changes to managed roles and bindings are overwritten.
    executor = Executor(
        task.client(), check_mode=task.check_mode, gone_timeout=60, warn=task.warn, force_conflicts=True
    )
    try:
        plan = _plan_access(task)
    except TaskFailed as blockers:
        raise TaskFailed(f"{blockers}\nNothing was changed.") from None
    if task.check_mode or not plan.changed:
        return _access_result(task, executor.apply_plan(plan))
    return _apply_in_rounds(task, executor, plan)


MODULE = ModuleSpec(RbacOptions, run, RBAC_CONSTRAINTS, level="administer")


def _validate_options(options: RbacOptions) -> None:
    """Raises TaskFailed with all errors at once."""
    errors = [*subject_errors(options), *_label_errors("namespaces", options.namespaces or ())]
    if options.exec and options.level != SUBMIT:
        errors.append("exec: requires level=submit. The other levels do not run commands in containers.")
    if options.namespaces == []:
        # An empty variable must not mean the whole cluster.
        errors.append("namespaces: must not be empty. Name at least one, or omit it for the whole cluster.")
    if options.level == SUBMIT:
        errors += [
            f"namespaces: reserved for {owner} itself: {name}. Remove it. Jobs there could take over the cluster."
            for name in options.namespaces or ()
            if (owner := owner_of_reserved(name))
        ]
    if errors:
        raise TaskFailed.before_any_write(errors)


def subject_errors(options: SubjectOptions) -> list[str]:
    """What is wrong with the options that name an account, as messages."""
    if options.kind == "service_account":
        return [*_label_errors("name", [options.name]), *_label_errors("namespace", [options.namespace])]
    name = options.name
    if not name.strip() or not name.isprintable():
        return [f"name: invalid name {name!r}. Use the one that the authentication of the API server gives."]
    if name.startswith("system:"):
        # system:authenticated has all users, and system:serviceaccounts has the accounts of all pods.
        return [f"name: reserved for Kubernetes itself: {name}. Use a {options.kind} of the identity provider."]
    return []


def _label_errors(option: str, names: Iterable[str]) -> list[str]:
    return [
        f"{option}: invalid name {name!r}. Use lower case letters, digits and '-', at most {LABEL_LENGTH}."
        for name in names
        if len(name) > LABEL_LENGTH or not re.fullmatch(DNS_LABEL, name)
    ]


def _apply_in_rounds(task: Task[RbacOptions], executor: Executor, plan: Plan) -> dict[str, Any]:
    done: list[ApplyResult] = []

    def apply(plan: Plan) -> None:
        try:
            done.append(executor.apply_plan(plan))
        except ApplyFailed as failure:
            done.append(failure.result)
            if failure.result.conflict or _has_lost_namespace(task, plan):
                raise ConcurrentChange(str(failure)) from failure
            raise

    def plan_again() -> Plan | None:
        plan = _plan_access(task)
        return plan if plan.changed else None

    try:
        apply_in_rounds(plan, apply, plan_again, subject=f"the access of {describe(plan)}", warn=task.warn)
    except (KubeError, TaskFailed) as problem:
        result = _access_result(task, merged(done))
        text = str(problem) if result["changed"] else f"{as_sentence(problem)} Nothing was changed."
        raise TaskFailed(text, **{name: result[name] for name in ("changed", "results", "diff")}) from problem
    return _access_result(task, merged(done))


def _has_lost_namespace(task: Task[RbacOptions], plan: Plan) -> bool:
    """Whether a namespace is gone by now of a plan for all that there are."""
    if task.options.namespaces is not None:
        return False
    try:
        found = _active_namespaces(task)
    except KubeError:
        return False
    places = {step.identity["metadata"].get("namespace") for step in plan.steps} - {None}
    return not places <= {plan.namespace, *found}


def _plan_access(task: Task[RbacOptions]) -> Plan:
    return _plan_present(task) if task.options.state == "present" else _plan_absent(task)


def _plan_present(task: Task[RbacOptions]) -> Plan:
    """The account if it is missing, the roles of its level and its bindings; then the removal of the others, if any."""
    options = task.options
    subject, level = options.subject, str(options.level)
    found = _active_namespaces(task)
    needed = [each for each in (subject.namespace, *(options.namespaces or ())) if each]
    prerequisites = tuple(_namespace_steps(task, needed, found))
    if level in (SUBMIT, ADMINISTER):  # Jobs need them, and submit may not write them.
        prerequisites += priority_class_steps(task.client(), task.warn)
    places = found if options.namespaces is None else options.namespaces
    jobs = [place for place in places if owner_of_reserved(place) is None]
    bindings = levels.bindings(subject, level, options.namespaces, jobs, exec=options.exec)
    managed = _managed_bindings(task)
    bound = {object_id(obj): obj for obj in managed if subject in levels.subjects_of(obj)}
    kept = list(bound.values()) if options.append else []
    _require_separate_accounts(subject, [*bindings, *kept], (obj for obj in managed if object_id(obj) not in bound))
    desired = [*levels.cluster_roles(level, exec=options.exec), *bindings]
    read = run_concurrently(
        lambda obj: bound.get(object_id(obj)) or _live_object(task, obj), desired, task.client().concurrency
    )
    live = dict(zip(map(object_id, desired), read, strict=True))
    require_managed(obj for obj in live.values() if obj)
    steps = [*_account_steps(task, subject), *(step_for(obj, live[object_id(obj)]) for obj in desired)]
    # Last, so that an account that changes its level always has one.
    others = {} if options.append else bound
    removals = [Step(Action.DELETE, {}, obj) for identity, obj in others.items() if identity not in live]
    return Plan(options.name, subject.namespace, options.noun, (*steps, *removals), prerequisites)


def _account_steps(task: Task[RbacOptions], subject: levels.Subject) -> Iterator[Step]:
    """Creates a service account if it is missing. One that gpuctl did not create (a pod's) is bound, not changed."""
    if subject.kind == SERVICE_ACCOUNT.kind:
        account = levels.account(subject.name, subject.namespace)
        present = _live_object(task, account)
        yield Step(Action.UNCHANGED, account, present) if present else step_for(account, None)


def _plan_absent(task: Task[RbacOptions]) -> Plan:
    """Delete the account's bindings, and the account if gpuctl created it. Roles stay: others may be bound."""
    options, subject = task.options, task.options.subject
    deleted = [obj for obj in _managed_bindings(task) if subject in levels.subjects_of(obj)]
    account = next(_account_steps(task, subject), None)
    if account and account.live and is_managed(account.live):
        deleted.insert(0, account.live)
    return Plan(options.name, subject.namespace, options.noun, tuple(Step(Action.DELETE, {}, obj) for obj in deleted))


def _active_namespaces(task: Task[RbacOptions]) -> list[str]:
    """Those that are not terminating."""
    found = task.client().list_objects(NAMESPACE, metadata_only=True)
    return [obj["metadata"]["name"] for obj in found if not is_terminating(obj)]


def _namespace_steps(task: Task[RbacOptions], names: list[str], found: Collection[str]) -> Iterator[Step]:
    """Creates the namespace of accounts and pools if it is missing. Raises TaskFailed if another one is missing."""
    if task.options.level != READ:
        names = [*names, SYSTEM_NAMESPACE]
    missing = [name for name in dict.fromkeys(names) if name not in found]
    if SYSTEM_NAMESPACE in missing:
        missing.remove(SYSTEM_NAMESPACE)
        yield step_for(system_namespace(), None)
    if missing and not task.check_mode:  # In check mode, an earlier task may only have predicted them.
        live = (task.client().get(NAMESPACE, None, name) for name in missing)
        if leaving := next(filter(None, map(being_deleted, live)), None):
            raise TaskFailed(f"{leaving} Create it again once it is gone.")
        noun = "namespace" if len(missing) == 1 else "namespaces"
        raise TaskFailed(
            f"{noun} {', '.join(missing)} not found. Create it with "
            f"M(gpuctl_workspace namespace={missing[0]}), or with M(gpuctl_quota) and a quota for it."
        )


def _managed_bindings(task: Task[RbacOptions]) -> list[Object]:
    """Those of all accounts, in the whole cluster."""
    kinds = (CLUSTER_ROLE_BINDING, ROLE_BINDING)
    return [obj for kind in kinds for obj in task.client().list_objects(kind, labels=MANAGED)]


def _require_separate_accounts(me: levels.Subject, own: list[Object], others: Iterable[Object]) -> None:
    """Raises TaskFailed if the task would let one account run pods as another one that may do more."""
    problems = [
        f"an account that submits jobs to namespace {account.namespace} can run them as any account of it: "
        f"{submitter.name} would also have the role {role} of {account.name}. Keep accounts in a namespace "
        f"without jobs, such as {SYSTEM_NAMESPACE}."
        for submitter, account, role in levels.reachable_accounts([*own, *others])
        if me in (submitter, account)
    ]
    if problems:
        raise TaskFailed("\n".join(problems))


def _live_object(task: Task[RbacOptions], obj: Object) -> Object | None:
    metadata = obj["metadata"]
    return task.client().get(resource_of(obj), metadata.get("namespace"), metadata["name"])


def require_managed(found: Iterable[Object]) -> None:
    """Raises TaskFailed with those that this collection did not make."""
    unmanaged = [
        f"{obj['kind']} {obj['metadata']['name']} exists and does not belong to gpuctl. Delete it, or label it "
        f"app.kubernetes.io/managed-by=runwhere.gpuctl."
        for obj in found
        if not is_managed(obj)
    ]
    if unmanaged:
        raise TaskFailed("\n".join(unmanaged))


def _access_result(task: Task[RbacOptions], applied: ApplyResult) -> dict[str, Any]:
    plan, present, subject = applied.plan, task.options.state == "present", task.options.subject
    result = {
        "name": plan.name,
        "namespace": plan.namespace or None,
        "kind": task.options.kind,
        "user": subject.user,
        "level": task.options.level if present else None,
        "namespaces": task.options.namespaces if present else None,
        "revoked_namespaces": None if present else _job_namespaces(plan),
        "action": str(plan.action),
        "resources": [resource_result(step) for step in (*plan.prerequisites, *plan.steps)],
    }
    return {
        "changed": plan.changed,
        "results": [result],
        "diff": task.diff(lambda: diffs_of(plan)),
        "msg": f"{subject.user or f'group {subject.name}'}: {result['action']}",
    }


def _job_namespaces(plan: Plan) -> list[str]:
    """Where the account could create and change jobs, by the bindings that go."""
    gone = (step.live for step in plan.steps if step.kind == ROLE_BINDING.kind)
    return sorted({obj["metadata"]["namespace"] for obj in gone if obj["roleRef"]["name"] in levels.RUNS_PODS})
