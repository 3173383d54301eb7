# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_policy: what the API server enforces of a policy, and where modules read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ..accelerators.hardware import PoolHardware
from ..cluster.declared import read_declared
from ..cluster.status import being_deleted, is_terminating
from ..declared_source import (
    keep_source,
    limited_problem,
    own_sources,
    record_source_in,
    recorded_source,
    require_usable,
    source_problem,
)
from ..engine.apply import ApplyFailed, Executor
from ..engine.changes import diffs_of, resource_result
from ..engine.plan import Action, Plan, Step, object_id
from ..engine.planning import step_for
from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.discovery import group_versions
from ..kube.errors import ApiError
from ..kube.features import DEVICE_CLAIMS, earlier_versions
from ..kube.resources import (
    ADMISSION_POLICY,
    ADMISSION_POLICY_BINDING,
    CONFIG_MAP,
    DEVICE_CLASS,
    NAMESPACE,
    NETWORK_POLICY,
    NODE,
    RESOURCE_QUOTA,
    Resource,
)
from ..labels import MANAGED, POLICY, QUOTA, SYSTEM_NAMESPACE, is_managed, pod_security_of, policy_name
from ..namespaces import NamespaceOptions, allowed_namespaces, namespace_problem
from ..options import DeclaringOptions, option
from ..policies.admission_policies import admission_objects
from ..policies.counted import counted_names, is_limited, pool_problems
from ..policies.namespace_objects import namespace_objects
from ..policies.policy_rules import PolicyRules, policy_config_map, read_rules, rules_of
from ..quotas.policy_levels import read_policies
from ..quotas.quota_objects import has_level_of_ours
from ..quotas.quota_objects import namespace as namespace_object
from ..task import ModuleSpec, Task, TaskFailed

Object = dict[str, Any]

# In the order of their deletion: bindings first, so that no policy is bound that does not exist.
KINDS: tuple[Resource, ...] = (ADMISSION_POLICY_BINDING, ADMISSION_POLICY, NETWORK_POLICY, RESOURCE_QUOTA, CONFIG_MAP)


@dataclass(frozen=True, kw_only=True)
class PolicyOptions(NamespaceOptions, DeclaringOptions):
    state: str = option("str", choices=["present", "absent"], default="present")
    src: str | None = option("path")
    definition: Any = option("raw")
    name: str | None = option("str")


POLICY_CONSTRAINTS: dict[str, Any] = {
    "mutually_exclusive": [("src", "definition", "name")],
    "required_one_of": [("src", "definition", "name")],
    "required_if": [("state", "present", ("src", "definition"), True)],
}


def run(task: Task[PolicyOptions]) -> dict[str, Any]:
    """Bring the objects of one policy to the desired state. Raises TaskFailed and ManifestErrors."""
    options = task.options
    require_usable(options)
    rules = rules_in(options)
    name = rules.name if rules else str(options.name)
    plan = plan_policy(task, name, rules if options.state == "present" else None)
    executor = Executor(task.client(), check_mode=task.check_mode, gone_timeout=60, warn=task.warn)
    try:
        applied = executor.apply_plan(plan)
    except ApplyFailed as failure:
        raise TaskFailed(failure.message, **_policy_result(task, failure.result.plan)) from None
    result = _policy_result(task, applied.plan)
    return {**result, "name": name, "msg": f"policy {name}: {'changed' if result['changed'] else 'unchanged'}"}


MODULE = ModuleSpec(PolicyOptions, run, POLICY_CONSTRAINTS)


def rules_in(options: PolicyOptions) -> PolicyRules | None:
    if options.name is not None:
        return None
    from ..manifest.load import load_policy

    return rules_of(load_policy(options.src, options.definition))


def plan_policy(task: Task[Any], name: str, rules: PolicyRules | None) -> Plan:
    """The steps to what the rules say; without rules, to none of the policy's objects. Raises TaskFailed."""
    client, options = task.client(), task.options
    if problems := list(_not_allowed(task, rules)):
        raise TaskFailed.before_any_write(f"policy {name}: {problem}" for problem in problems)

    def read(resource: Resource) -> list[Object]:
        return client.list_objects(resource, labels=f"{MANAGED},{POLICY}={name}")

    own = run_concurrently(read, KINDS, client.concurrency)
    live = {object_id(obj): obj for objects in own for obj in objects}
    declaring = [obj for obj in live.values() if _declares(obj)]
    if problem := source_problem(declaring, options):
        raise TaskFailed.before_any_write([f"policy {name}: {problem}"])
    found = client.list_objects(NAMESPACE, metadata_only=True) if rules or declaring else []
    namespaces = {obj["metadata"]["name"]: obj for obj in found}
    here = [each for each, obj in namespaces.items() if not is_terminating(obj)]
    desired: list[Object] = []
    steps: list[Step] = []
    if rules is not None:
        rules, hardware = _counted(task, rules)
        for missing in sorted(set(rules.namespaces) - set(here)):
            leaving = being_deleted(client.get(NAMESPACE, None, missing)) if missing in namespaces else ""
            gone = f"{leaving} Create it again" if leaving else f"namespace {missing} does not exist. Create it"
            task.warn(f"policy {name}: {gone}, and then apply the policy again.")
        desired = [policy_config_map(rules), *admission_objects(rules), *namespace_objects(rules, here, hardware)]
        if SYSTEM_NAMESPACE not in namespaces:
            steps.append(step_for(namespace_object(SYSTEM_NAMESPACE, managed=True), None))
        steps += (secured := _secured(rules, namespaces))
        if secured and (problems := list(_contested_levels(client, rules, secured))):
            raise TaskFailed.before_any_write(problems)
        _warn_of_unjudged_claims(task, rules, desired)
    is_own = bool(options.source) and all(recorded_source(obj) == options.source for obj in declaring)
    limited = allowed_namespaces(task) is not None
    source = options.source if is_own or not (limited and declaring) else None
    steps += [_step(obj, live.pop(object_id(obj), None), source) for obj in desired]
    steps += [Step(Action.DELETE, {}, obj) for obj in _in_order(live.values()) if not is_terminating(obj)]
    steps += _released(client, name, [before for obj in declaring if (before := read_rules(obj))], rules, namespaces)
    plan = Plan(name, "", "policy", tuple(steps))
    if declaring and not is_own and plan.changed:
        adopted = all(recorded_source(obj) in own_sources(options) for obj in declaring)
        if rules is None and options.source and not adopted:
            raise TaskFailed.before_any_write([f"policy {name}: {options.source} does not declare it, so it is kept."])
        if limited:
            raise TaskFailed.before_any_write([f"policy {name}: {limited_problem(options.source)}"])
    return plan


def _declares(obj: Object) -> bool:
    """Whether an object has the rules, and so their source. Teams can label ConfigMaps in their own namespaces."""
    is_config_map = obj["kind"] == CONFIG_MAP.kind and obj["metadata"]["namespace"] == SYSTEM_NAMESPACE
    return is_config_map and policy_name(obj) is not None


def _step(desired: Object, live: Object | None, source: str | None) -> Step:
    """The rules carry the source; what follows from them goes with them."""
    if desired["kind"] != CONFIG_MAP.kind:
        return step_for(desired, live)
    return record_source_in(step_for(keep_source(desired, live), live), source)


def _not_allowed(task: Task[PolicyOptions], rules: PolicyRules | None) -> Iterator[str]:
    """What of the rules is about more than the namespaces that the task may act in."""
    allowed = allowed_namespaces(task)
    if rules is None or allowed is None:
        return
    yield from (problem for each in sorted(rules.namespaces) if (problem := namespace_problem(each, allowed)))
    if rules.labels_of_nodes:
        yield "labels.nodes is about the nodes of all namespaces. Remove it, or O(allowed_namespaces)."


def _counted(task: Task[PolicyOptions], rules: PolicyRules) -> tuple[PolicyRules, dict[str, PoolHardware]]:
    """The rules with what quotas count in this cluster, and what its pools have. Raises TaskFailed.

    Also makes known the accelerators that administrators declare, whose resources the rules are about.
    """
    client = task.client()
    declared = read_declared(client, task.warn)
    if not is_limited(rules):
        return rules, {}
    hardware = {pool: declared.hardware(pool) for pool in declared.pools}
    if problems := pool_problems(rules, hardware):
        raise TaskFailed.before_any_write(problems)
    listed = client.list_slim(NODE, lambda node: list((node.get("status") or {}).get("allocatable") or ()))
    try:
        classes = [obj["metadata"]["name"] for obj in client.list_objects(DEVICE_CLASS, metadata_only=True)]
    except ApiError as error:
        if error.status != 404:
            raise
        classes = []  # before Kubernetes 1.34
    return replace(rules, counted=counted_names(chain.from_iterable(listed), classes, hardware.values())), hardware


def _warn_of_unjudged_claims(task: Task[PolicyOptions], rules: PolicyRules, desired: Iterable[Object]) -> None:
    """Claims have another form in the beta versions of their API, and where v1 is not served, its rules match nothing.

    A rule for v1 matches requests of other versions only if the server has v1 (admission, matchPolicy Equivalent).
    """
    if not any(obj["metadata"]["name"].endswith("-claims") for obj in desired):
        return
    if early := earlier_versions(DEVICE_CLAIMS, group_versions(task.client())):
        task.warn(
            f"policy {rules.name}: the limits of GPUs do not hold for claims of devices, because this cluster serves "
            f"{' and '.join(early)} and not {DEVICE_CLAIMS.api}. Until it does, do not let teams create ResourceClaims "
            f"or ResourceClaimTemplates."
        )


def _in_order(objects: Iterable[Object]) -> list[Object]:
    order = [resource.kind for resource in KINDS]
    return sorted(objects, key=lambda obj: order.index(obj["kind"]))


def _secured(rules: PolicyRules, namespaces: dict[str, Object]) -> list[Step]:
    """The Pod Security level of namespaces whose teams have one."""
    steps = []
    for name, own in sorted(rules.namespaces.items()):
        live = namespaces.get(name)
        if live is None or is_terminating(live) or own.pod_security is None:
            continue
        desired = namespace_object(name, managed=is_managed(live), pod_security=own.pod_security)
        if pod_security_of(live) != own.pod_security:
            steps.append(step_for(desired, live))
    return steps


def _released(
    client: Client, name: str, former: Iterable[PolicyRules], rules: PolicyRules | None, namespaces: dict[str, Object]
) -> Iterator[Step]:
    """The namespaces that lose the Pod Security level that the policy gave them. One with a quota of gpuctl_quota keeps
    it until that is applied: the quota may say the same."""
    kept = rules.levels if rules else {}
    left = {place: level for each in former for place, level in each.levels.items() if place not in kept}
    if not left:
        return
    others = {place for other in read_policies(client) if other.name != name for place in other.levels}
    quotas = client.list_objects(RESOURCE_QUOTA, labels=f"{MANAGED},{QUOTA}", metadata_only=True)
    others |= {obj["metadata"]["namespace"] for obj in quotas}
    for place in sorted(left.keys() & namespaces.keys() - others):
        live = namespaces[place]
        if has_level_of_ours(live) and pod_security_of(live) == left[place] and not is_terminating(live):
            yield step_for(namespace_object(place, managed=is_managed(live)), live)


def _contested_levels(client: Client, rules: PolicyRules, secured: Iterable[Step]) -> Iterator[str]:
    """Namespaces to which another policy gives another level: each task would undo what the one before has set."""
    others = [other for other in read_policies(client) if other.name != rules.name]
    for namespace in (str(step.identity["metadata"]["name"]) for step in secured):
        for other in others:
            level = other.levels.get(namespace)
            if level not in (None, rules.levels[namespace]):
                yield (
                    f"policy {rules.name}: {other.source} gives namespace {namespace} the Pod Security level {level}. "
                    f"Remove pod_security from one of the two policies, or give both the same."
                )


def _policy_result(task: Task[PolicyOptions], plan: Plan) -> dict[str, Any]:
    # What the API server evaluates follows from the rules, which the ConfigMap has.
    derived = (ADMISSION_POLICY.kind, ADMISSION_POLICY_BINDING.kind)
    shown = plan.with_steps(step for step in plan.steps if step.kind not in derived)
    return {
        "changed": plan.changed,
        "action": str(plan.action),
        "resources": [resource_result(step) for step in plan.steps],
        "diff": task.diff(lambda: diffs_of(shown)),
    }
