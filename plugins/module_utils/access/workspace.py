# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_workspace: a namespace with what jobs need in it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..cluster.status import being_deleted, is_terminating
from ..engine.apply import ApplyFailed, ApplyResult, Executor
from ..engine.changes import diffs_of, resource_result
from ..engine.plan import Action, Plan, Step
from ..engine.planning import step_for
from ..kube.errors import ApiError, KubeError, as_sentence
from ..kube.resources import NAMESPACE, PERSISTENT_VOLUME_CLAIM, RESOURCE_QUOTA, SECRET, Resource
from ..labels import (
    DNS_LABEL,
    LABEL_LENGTH,
    OBJECT_COUNTS,
    PULL_SECRET,
    TOKEN_SECRET,
    is_managed,
    owner_of_reserved,
)
from ..namespaces import NamespaceOptions, own_namespace, require_allowed
from ..options import option
from ..quantity import QuantityError, parse
from ..quotas.quota_objects import namespace as namespace_object
from ..rbac.new_namespaces import grant_in_new_namespaces
from ..task import ModuleSpec, Task, TaskFailed
from .workspace_objects import (
    count_quota,
    data_claim,
    login,
    logins_of,
    pull_secret,
    registry_secrets,
    token_secret,
)

Object = dict[str, Any]
Builder = Callable[["Object | None"], Object]
"""An object that the options describe, for the live one of its name."""

_CLAIM = "data"
_CLAIM_OPTIONS = {
    "name": {"type": "str", "default": _CLAIM},
    "size": {"type": "str"},
    "storage_class": {"type": "str"},
    "access_mode": {
        "type": "str",
        "choices": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"],
    },
}
_REGISTRY_OPTIONS = {
    "server": {"type": "str"},
    "username": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "config_file": {"type": "path"},
}
_RESOURCE_NAME = re.compile(r"[a-z]{1,63}(\.[a-z0-9]([-.a-z0-9]{0,200}[a-z0-9])?)?")
_TOKEN_NAME = re.compile(r"[-._a-zA-Z0-9]{1,253}")  # apimachinery, IsConfigMapKey


@dataclass(frozen=True, kw_only=True)
class WorkspaceOptions(NamespaceOptions):
    state: str = option("str", choices=["present", "absent"], default="present")
    namespace: str = option("str")  # run() fills in the default
    claim: dict[str, Any] | None = option("dict", options=_CLAIM_OPTIONS)
    registry: dict[str, Any] | None = option(
        "dict",
        options=_REGISTRY_OPTIONS,
        mutually_exclusive=[("config_file", "server"), ("config_file", "username"), ("config_file", "password")],
        required_together=[("server", "username", "password")],
    )
    tokens: dict[str, Any] | None = option("dict", no_log=True)
    object_counts: dict[str, Any] | None = option("dict")
    keep_object_counts: bool = option("bool", default=False)


def run(task: Task[WorkspaceOptions]) -> dict[str, Any]:
    """Bring a namespace, its claim and its Secrets to the desired state.

    Returns ``changed``, ``results``, ``diff`` and ``msg``. Raises TaskFailed, with the same if something was written.
    """
    task = task.with_options(replace(task.options, namespace=own_namespace(task, task.options.namespace).name))
    options = task.options
    desired = _workspace_builders(task)
    plan = _plan_present(task, desired) if options.state == "present" else _plan_absent(task)
    executor = Executor(task.client(), check_mode=task.check_mode, gone_timeout=60, warn=task.warn)
    try:
        applied = executor.apply_plan(_sendable(plan) if task.check_mode else plan)
    except ApplyFailed as failure:
        result = _workspace_result(task, failure.result.plan)
        written = {name: result[name] for name in ("changed", "results", "diff")} if result["changed"] else {}
        raise TaskFailed(_failure_text(failure), **written) from failure
    result = _workspace_result(task, plan)
    if _creates_namespace(plan):
        result["diff"] += grant_in_new_namespaces(task, [plan.namespace])
    _note_terminating(task, applied, result)
    return result


# Deleting a workspace deletes its data, so the namespace must be given and has no default.
MODULE = ModuleSpec(WorkspaceOptions, run, {"required_if": [("state", "absent", ("namespace",))]}, level="administer")


def _workspace_builders(task: Task[WorkspaceOptions]) -> list[Builder]:
    """The objects that the options describe. Raises TaskFailed, before any request, with all errors at once."""
    options, errors = task.options, []
    require_allowed(task, [options.namespace])
    if owner := owner_of_reserved(options.namespace):
        errors.append(f"namespace: reserved for {owner} itself: {options.namespace}. Choose another one.")
    builders: list[Builder] = []
    if options.claim is not None:
        errors += _claim_errors(options.claim, options.state)
        builders.append(partial(data_claim, options.namespace, options.claim))
    if options.registry is not None and options.state == "present":
        try:
            registries = _registries(options.registry)
            task.mask(registry_secrets(registries))
            secret = pull_secret(options.namespace, registries)
            builders.append(lambda _live: secret)
        except ValueError as problem:
            errors.append(f"registry: {problem}")
    if options.tokens:
        errors += _token_errors(options.tokens)
        given = {str(name): None if value is None else str(value) for name, value in options.tokens.items()}
        task.mask({value for value in given.values() if value})
        if options.state == "present":
            builders.append(partial(token_secret, options.namespace, given))
    errors += _count_errors(options.object_counts or {})
    if options.object_counts and options.state == "present" and not errors:
        counts = count_quota(options.namespace, options.object_counts)
        builders.append(lambda _live: counts)
    if errors:
        raise TaskFailed.before_any_write(errors)
    return builders


def _count_errors(counts: Mapping[str, Any]) -> Iterator[str]:
    for name, count in counts.items():
        if not _RESOURCE_NAME.fullmatch(str(name)):
            yield f"object_counts: invalid resource {name!r}. Use names such as configmaps and jobs.batch."
        if not re.fullmatch(r"[0-9]{1,9}", str(count)):
            yield f"object_counts: not a number of {name}: {count!r}. Use a whole number, such as 300."


def _token_errors(tokens: Mapping[str, Any]) -> Iterator[str]:
    """Names, and never values, of what cannot be a key of a Secret."""
    for name, value in tokens.items():
        if not _TOKEN_NAME.fullmatch(str(name)):
            yield f"tokens: invalid name {name!r}. Use letters, digits, '-', '_' and '.'."
        if isinstance(value, (dict, list)):
            yield f"tokens: the value of {name} is not text. Give a string, or null to remove it."


def _claim_errors(claim: Mapping[str, Any], state: str) -> list[str]:
    errors = []
    name, size = claim["name"], claim["size"]
    if len(name) > LABEL_LENGTH or not re.fullmatch(DNS_LABEL, name):
        errors.append(
            f"claim.name: invalid name {name!r}. Use lower case letters, digits and '-', at most {LABEL_LENGTH}."
        )
    if state == "present" and not _is_size(size):
        errors.append(f"claim.size: {'missing' if size is None else f'not a size: {size!r}'}. Give one such as 500Gi.")
    return errors


def _is_size(size: Any) -> bool:
    try:
        return parse(str(size)).value > 0 if size is not None else False
    except QuantityError:
        return False


def _registries(registry: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Raises ValueError with a message for the user."""
    path = registry["config_file"]
    if path is None:
        if not registry["server"]:
            raise ValueError("no credentials given. Set server, username and password, or config_file.")
        return login(registry["server"], registry["username"], registry["password"])
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as problem:
        reason = (getattr(problem, "strerror", None) or "not UTF-8").lower()
        raise ValueError(f"cannot read config_file {path}: {reason}. Check the path.") from None
    try:
        return logins_of(text)
    except ValueError as problem:
        raise ValueError(f"config_file {path} {problem}") from None


def _plan_present(task: Task[WorkspaceOptions], desired: list[Builder]) -> Plan:
    client, name = task.client(), task.options.namespace
    present = client.get(NAMESPACE, None, name)
    prerequisite = step_for(namespace_object(name, managed=True), None) if present is None else None
    # It accepts no new objects (plugin/pkg/admission/namespace/lifecycle).
    if present is not None and is_terminating(present):
        raise TaskFailed(f"{being_deleted(present)} Run the task again once it is gone. Nothing was changed.")
    steps = []
    for build in desired:
        obj = build(None)
        live = client.get(_RESOURCES[obj["kind"]], name, obj["metadata"]["name"]) if present else None
        # A forced apply would take it over, and state absent would then delete what we have not made.
        if live is not None and not is_managed(live):
            raise TaskFailed(
                f"{obj['kind']} {obj['metadata']['name']} in namespace {name} exists and does not belong to gpuctl. "
                f"Delete it, or label it app.kubernetes.io/managed-by=runwhere.gpuctl. Nothing was changed."
            )
        if not (live and task.options.keep_object_counts and live["kind"] == RESOURCE_QUOTA.kind):
            steps.append(step_for(build(live), live))
    # An empty map asks for no limits; without the option, those that are set stay.
    if task.options.object_counts == {} and present:
        live = client.get(RESOURCE_QUOTA, name, OBJECT_COUNTS)
        steps += [Step(Action.DELETE, {}, live)] if live and is_managed(live) else []
    return Plan(name, name, "workspace", tuple(steps), (prerequisite,) if prerequisite else ())


def _plan_absent(task: Task[WorkspaceOptions]) -> Plan:
    """Delete the claim, the Secrets and the quota of counts, if they are ours. The namespace is gpuctl_quota's to
    delete."""
    client, name = task.client(), task.options.namespace
    claim = (task.options.claim or {}).get("name", _CLAIM)
    found = (
        client.get(PERSISTENT_VOLUME_CLAIM, name, claim),
        client.get(SECRET, name, PULL_SECRET),
        _unless_forbidden(task, SECRET, TOKEN_SECRET),
        _unless_forbidden(task, RESOURCE_QUOTA, OBJECT_COUNTS),
    )
    ours = [obj for obj in found if obj and is_managed(obj) and not is_terminating(obj)]
    return Plan(name, name, "workspace", tuple(Step(Action.DELETE, {}, obj) for obj in ours))


def _unless_forbidden(task: Task[WorkspaceOptions], resource: Resource, name: str) -> Object | None:
    """A live object that the roles of former versions do not name."""
    try:
        return task.client().get(resource, task.options.namespace, name)
    except ApiError as error:
        if not error.is_forbidden:
            raise
    task.warn(
        f"{resource.kind} {name} in namespace {task.options.namespace} is kept if there is one, because the account "
        f"has no permission to read it. As a cluster administrator, run gpuctl_rbac for an administrator's account "
        f"(level administer), which writes the roles of all levels, and then this task again."
    )
    return None


_RESOURCES = {resource.kind: resource for resource in (PERSISTENT_VOLUME_CLAIM, SECRET, RESOURCE_QUOTA)}


def _creates_namespace(plan: Plan) -> bool:
    return any(step.action is Action.CREATE for step in plan.prerequisites)


def _sendable(plan: Plan) -> Plan:
    """What a dry run can validate: nothing in a namespace that does not exist yet."""
    return plan.with_steps(()) if _creates_namespace(plan) else plan


def _failure_text(failure: ApplyFailed) -> str:
    """With what Kubernetes allows for a claim (ValidatePersistentVolumeClaimUpdate), where that is the matter."""
    text = failure.message
    if "is immutable after creation" in text or "can not be less than" in text:
        hint = "A claim keeps its access mode and storage class, and grows once it is bound. Name another one."
        return f"{as_sentence(text)} {hint}"
    return text


def _note_terminating(task: Task[WorkspaceOptions], applied: ApplyResult, result: dict[str, Any]) -> None:
    """Say it where a claim outlives its deletion, because pods still mount it."""
    if task.check_mode:
        return
    for step in applied.plan.steps:
        if step.action is Action.DELETE and step.kind == PERSISTENT_VOLUME_CLAIM.kind:
            try:
                left = task.client().get(PERSISTENT_VOLUME_CLAIM, task.options.namespace, step.name)
            except KubeError:  # All is deleted, whatever this look would have said.
                return
            if left is not None:
                result["results"][0]["reason"] = f"Claim {step.name} is deleted once no pod mounts it any more."


def _workspace_result(task: Task[WorkspaceOptions], plan: Plan) -> dict[str, Any]:
    options = task.options
    # What is created in a namespace that was there is a change of the workspace.
    changed = plan.action in (Action.CREATE, Action.UPDATE)
    new = Action.CREATE if _creates_namespace(plan) else Action.UPDATE
    action = str(new if changed else plan.action)
    result = {
        "name": plan.namespace,
        "namespace": plan.namespace,
        "claim": options.claim["name"] if options.claim and options.state == "present" else None,
        "pull_secret": PULL_SECRET if options.registry and options.state == "present" else None,
        "token_secret": TOKEN_SECRET if options.tokens and options.state == "present" else None,
        "action": action,
        "reason": None,
        "resources": [resource_result(step) for step in (*plan.prerequisites, *plan.steps)],
    }
    return {
        "changed": plan.changed,
        "results": [result],
        "diff": task.diff(lambda: diffs_of(plan)),
        "msg": f"workspace {plan.namespace}: {action}",
    }
