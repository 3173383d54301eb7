# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_stack: the objects of a vendor's software, and the labels by which it configures nodes.

A stack owns what has its label: that is what a second task changes or deletes, and nothing else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..engine.apply import ApplyFailed, ApplyResult, Executor
from ..engine.changes import diffs_of, resource_result
from ..engine.node_writer import (
    LabelChange,
    NodeWriter,
    WriteResult,
    label_diff,
    node_label_values,
    read_node_metadata,
    unknown_nodes,
)
from ..engine.plan import Action, Plan, Step, object_id
from ..engine.planning import step_for
from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.discovery import group_versions, served_kinds
from ..kube.resources import BY_KIND, NAMESPACE, Resource
from ..labels import DNS_LABEL, FIELD_MANAGER, MANAGED, MANAGED_BY, STACK
from ..manifest.problems import number_of
from ..options import Options, option
from ..task import ModuleSpec, Task, TaskFailed

Object = dict[str, Any]

# In the order in which they are created. Namespaces come first; one that exists is left as it is, and none is deleted.
# Managed Deployments are jobs (cluster/read_jobs.py), so there are none here.
_KINDS: Mapping[str, Resource] = {
    kind: BY_KIND[kind]
    for kind in (
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ConfigMap",
        "RuntimeClass",
        "Service",
        "DaemonSet",
        "CronJob",
        "ServiceMonitor",
        "PodMonitor",
        "PrometheusRule",
        "AlertmanagerConfig",
        "GrafanaDashboard",
        "ScaledObject",
    )
}
# Those that not every cluster has, and what has them.
_OPERATORS = {
    "monitoring.coreos.com": "the Prometheus operator",
    "grafana.integreatly.org": "the Grafana operator",
    "keda.sh": "KEDA",
}


@dataclass(frozen=True, kw_only=True)
class StackOptions(Options):
    name: str = option("str", required=True)
    state: str = option("str", choices=["present", "absent"], default="present")
    objects: list[Object] | None = option("list", elements="dict")
    node_labels: dict[str, Any] | None = option("dict")


def run(task: Task[StackOptions]) -> dict[str, Any]:
    """Bring the objects and node labels of one stack to the desired state: a list for each kind, writes that differ."""
    options = task.options
    if not re.fullmatch(DNS_LABEL, options.name):
        raise TaskFailed(f"name: invalid name {options.name!r}. Use lower case letters, digits and '-'.")
    desired = _stack_objects(options)
    changes = _label_changes(task)
    leaves_objects = options.objects is None and options.state == "present"
    plan = Plan(options.name, "", "stack") if leaves_objects else _plan_stack(task, desired)
    executor = Executor(task.client(), check_mode=task.check_mode, gone_timeout=60, warn=task.warn)
    try:
        applied = executor.apply_plan(plan)
    except ApplyFailed as failure:
        raise TaskFailed(failure.message, **_stack_result(task, failure.result, ())) from None
    written = NodeWriter(task.client(), task.check_mode).write(changes)
    result = _stack_result(task, applied, written.done)
    if written.failures:
        raise TaskFailed("\n".join(failure.message for failure in written.failures), **result)
    return {**result, "msg": _stack_summary(options.name, plan, written)}


MODULE = ModuleSpec(StackOptions, run)


def _stack_objects(options: StackOptions) -> list[Object]:
    """The objects, marked as those of the stack. Raises TaskFailed with all errors at once."""
    objects = (options.objects or []) if options.state == "present" else []
    errors = [problem for number, obj in enumerate(objects) if (problem := _object_problem(number, obj))]
    if options.objects == []:
        errors.append("objects: empty. Use O(state=absent) to delete the stack, or omit it to leave its objects.")
    if options.objects is None and options.state == "present" and not options.node_labels:
        errors.append("objects: missing. Give the objects of the stack, or O(node_labels).")
    if errors:
        raise TaskFailed.before_any_write(errors)
    order = list(_KINDS)
    return [_as_of_stack(obj, options.name) for obj in sorted(objects, key=lambda obj: order.index(obj["kind"]))]


def _object_problem(number: int, obj: Object) -> str | None:
    metadata = obj.get("metadata")
    resource = _KINDS.get(str(obj.get("kind")))
    if resource is None or obj.get("apiVersion") != resource.api_version:
        given = f"{obj.get('apiVersion')} {obj.get('kind')}"
        known = ", ".join(f"{each.api_version} {each.kind}" for each in _KINDS.values())
        return f"objects[{number}]: kind not supported: {given}. Install others with Helm. Supported: {known}."
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return f"objects[{number}]: {resource.kind} without metadata.name. Add it."
    if resource.namespaced != bool(metadata.get("namespace")):
        hint = "Add metadata.namespace" if resource.namespaced else "Remove metadata.namespace"
        return f"objects[{number}]: {resource.kind} {metadata['name']} with a wrong place. {hint}."
    return None


def _as_of_stack(obj: Object, name: str) -> Object:
    labels = {**(obj["metadata"].get("labels") or {}), MANAGED_BY: FIELD_MANAGER, STACK: name}
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


def _plan_stack(task: Task[StackOptions], desired: list[Object]) -> Plan:
    """What is missing or differs, and then the removal of what the stack no longer has."""
    client, name = task.client(), task.options.name

    served = _served_kinds(client)
    _require_kinds(desired, served)

    def read(resource: Resource) -> list[Object]:
        return client.list_objects(resource, labels=f"{MANAGED},{STACK}={name}")

    found = run_concurrently(read, served, client.concurrency)
    live = {object_id(obj): obj for objects in found for obj in objects}
    missing = [obj for obj in desired if object_id(obj) not in live]
    live |= {object_id(obj): obj for obj in _existing_namespaces(task, missing)}
    wanted = {object_id(obj) for obj in desired}
    steps = [_object_step(obj, live.get(object_id(obj))) for obj in desired]
    # Backwards, so that what runs goes before the account, roles and namespace that it needs.
    removed = [obj for key, obj in reversed(live.items()) if key not in wanted and obj["kind"] != NAMESPACE.kind]
    steps += [Step(Action.DELETE, {}, obj) for obj in removed]
    return Plan(name, "", "stack", tuple(steps))


def _served_kinds(client: Client) -> list[Resource]:
    """The kinds that the cluster has. The list of a missing one would be answered as by something else (404, text)."""
    versions = {each.api_version for each in _KINDS.values() if _operator(each)} & group_versions(client)
    kinds = {version: served_kinds(client, version) for version in sorted(versions)}
    return [
        each
        for each in _KINDS.values()
        if _operator(each) is None or each.kind in kinds.get(each.api_version, frozenset())
    ]


def _operator(resource: Resource) -> str | None:
    return _OPERATORS.get(resource.api_version.partition("/")[0])


def _require_kinds(desired: list[Object], served: list[Resource]) -> None:
    """Raises TaskFailed for kinds that the cluster does not have."""
    missing: dict[str | None, set[str]] = {}
    for resource in {_KINDS[obj["kind"]] for obj in desired} - set(served):
        missing.setdefault(_operator(resource), set()).add(resource.kind)
    if missing:
        raise TaskFailed.before_any_write(
            [
                f"objects: kinds that the cluster does not have: {', '.join(sorted(kinds))}. Install {operator} first."
                for operator, kinds in missing.items()
            ]
        )


def _object_step(desired: Object, live: Object | None) -> Step:
    # Others may live there; an apply would own its labels, and removing the stack would take them away.
    if live and desired["kind"] == NAMESPACE.kind:
        return Step(Action.UNCHANGED, desired, live)
    return step_for(desired, live)


def _existing_namespaces(task: Task[StackOptions], missing: list[Object]) -> list[Object]:
    """The namespaces among the objects that exist. Raises TaskFailed for other names that something else has."""

    def read(obj: Object) -> Object | None:
        metadata = obj["metadata"]
        return task.client().get(_KINDS[obj["kind"]], metadata.get("namespace"), metadata["name"])

    found = list(filter(None, run_concurrently(read, missing, task.client().concurrency)))
    problems = [_taken_by_others(obj, task.options.name) for obj in found if obj["kind"] != NAMESPACE.kind]
    if problems:
        raise TaskFailed.before_any_write(problems)
    return found


def _taken_by_others(obj: Object, name: str) -> str:
    metadata = obj["metadata"]
    where = f" in namespace {metadata['namespace']}" if metadata.get("namespace") else ""
    return (
        f"{obj['kind']} {metadata['name']}{where} exists and does not belong to stack {name}: the software may be "
        f"installed already. Delete it, or use another name or namespace."
    )


def _label_changes(task: Task[StackOptions]) -> list[LabelChange]:
    """The labels of nodes that differ. Raises TaskFailed for what is no node, or is not the vendor's."""
    given = task.options.node_labels or {}
    if not given:
        return []
    nodes = read_node_metadata(task.client())
    problems = [*unknown_nodes(given, nodes).values(), *_label_problems(given)]
    if problems:
        raise TaskFailed.before_any_write(problems)
    found = []
    for node, labels in given.items():
        wanted = {key: None if value is None else str(value) for key, value in labels.items()}
        before = node_label_values(nodes[node], wanted)
        differing = {key: value for key, value in wanted.items() if before[key] != value}
        if differing:
            found.append(LabelChange(nodes[node], differing, {key: before[key] for key in differing}))
    return found


# Labels of Kubernetes itself decide where pods run, and it sets them (docs, "Well-Known Labels").
_CONFIGURATION = re.compile(r"(?!.*(kubernetes|k8s)\.io/)[-a-z0-9.]+/[-A-Za-z0-9_.]+")


def _label_problems(given: Mapping[str, Any]) -> Iterator[str]:
    for node, labels in given.items():
        if not isinstance(labels, dict):
            yield f"node_labels.{node}: not a dictionary. Give labels with their values."
            continue
        for key in labels:
            if not _CONFIGURATION.fullmatch(str(key)) or str(key).startswith("runwhere.ai/"):
                yield f"node_labels.{node}: not a label of a vendor: {key}. M(gpuctl_node_label) sets others."


def _stack_result(task: Task[StackOptions], applied: ApplyResult, labelled: Iterable[LabelChange]) -> dict[str, Any]:
    plan, labelled = applied.plan, list(labelled)
    return {
        "changed": plan.changed or bool(labelled),
        "resources": [resource_result(step) for step in plan.steps],
        "nodes": [{"node_name": change.node, "labels": dict(change.labels)} for change in labelled],
        "diff": task.diff(lambda: [*diffs_of(plan), *map(label_diff, labelled)]),
    }


_DONE = {Action.CREATE: "created", Action.UPDATE: "updated", Action.RECREATE: "recreated", Action.DELETE: "deleted"}


def _stack_summary(name: str, plan: Plan, written: WriteResult) -> str:
    """``stack nvidia: 1 object updated, 2 deleted, 7 unchanged, 3 nodes labelled``"""
    counts = Counter(_DONE.get(step.action, "unchanged") for step in plan.steps)
    words = [f"{counts[done]} {done}" for done in (*_DONE.values(), "unchanged") if counts[done]]
    if words:
        number, _space, done = words[0].partition(" ")
        words[0] = f"{number_of(int(number), 'object')} {done}"
    if written.done:
        words.append(f"{number_of(len(written.done), 'node')} labelled")
    return f"stack {name}: {', '.join(words) or 'nothing to do'}"
