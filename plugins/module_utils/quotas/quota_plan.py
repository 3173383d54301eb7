# SPDX-License-Identifier: BSD-2-Clause
"""Plan quotas, one plan per quota and namespace, with the blockers and warnings. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..accelerators.hardware import UnfitHardware
from ..cluster.status import being_deleted, is_terminating
from ..declared_source import keep_source, own_sources, record_source_in, recorded_source, source_problem
from ..engine.paths import ABSENT, Change, value_at
from ..engine.plan import Action, Plan, Step
from ..engine.planning import step_for
from ..labels import POD_SECURITY_ENFORCED, is_managed, is_protected, quota_object_name
from ..options import DeclaringOptions
from . import quota_objects
from .live_quotas import LiveQuotas
from .usage import quota_name_of, unenforced_keys

if TYPE_CHECKING:
    from ..manifest.quota_model import Quota

Object = dict[str, Any]
_OF_NO_SOURCE = DeclaringOptions()

# Of what jobs have (https://kubernetes.io/docs/concepts/security/pod-security-standards).
_FORBIDDEN = {
    "baseline": "host paths, and so no workdirs without a claim",
    "restricted": "host paths, and so no workdirs without a claim, and no containers that may run as root",
}


@dataclass
class QuotaPlans:
    """Plans in the order in which they are applied, unless there are ``blockers``.

    ``others`` has the unmanaged ResourceQuotas by namespace, ``notes`` the reasons why namespaces are kept, or still
    there. ``terminating`` are those to delete that were deleted before.
    """

    plans: list[Plan] = field(default_factory=list)
    blockers: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    terminating: list[str] = field(default_factory=list)
    others: dict[str, list[str]] = field(default_factory=dict)


def plan_quotas(quotas: Sequence[Quota], live: LiveQuotas, options: DeclaringOptions = _OF_NO_SOURCE) -> QuotaPlans:
    """Plan every declared namespace, then the removal of quotas from namespaces that are no longer declared.

    Of a task with a source, only those that it has declared: another one may have a quota of that name elsewhere.
    """
    result = QuotaPlans()
    declared = {quota.quota.name: quota for quota in quotas}
    for quota in quotas:
        for namespace in quota.namespaces:
            result.blockers += _claimed_by_others(quota.quota.name, namespace, declared, live)
            if problem := source_problem(live.of_quota(quota.quota.name).get(namespace, ()), options):
                result.blockers.append(f"quota {quota.quota.name} in namespace {namespace}: {problem}")
                continue
            try:
                result.plans.append(_quota_plan(quota, namespace, live, result, options.source))
            except UnfitHardware as problem:
                result.blockers.append(f"quota {quota.quota.name}: users.{namespace}.{problem}")
            _report_others(namespace, live, result)
    # Removals last: a namespace that moves to another quota is never without one.
    for quota in quotas:
        for namespace, objects in live.of_quota(quota.quota.name).items():
            if namespace not in quota.namespaces and _may_remove(quota.quota.name, namespace, objects, options, result):
                moved = any(namespace in each.namespaces for each in quotas)
                freed = None if moved else live.namespace(namespace)
                result.plans.append(_removal(quota.quota.name, namespace, objects, freed, live))
    return result


def _may_remove(
    quota: str, namespace: str, objects: Iterable[Object], options: DeclaringOptions, result: QuotaPlans
) -> bool:
    """Whether a task removes a quota from a namespace that its manifest no longer has."""
    sources = {recorded_source(obj) for obj in objects}
    if not options.source or sources <= own_sources(options):
        return True
    if "" in sources:
        result.warnings.append(
            f"quota {quota} in namespace {namespace}: no source declares it, so it is kept. To remove it, use "
            f"M(gpuctl_quota) with state absent, name {quota}, namespaces [{namespace}]."
        )
    return False


def plan_quota_removal(
    quotas: Sequence[Quota],
    name: str | None,
    namespaces: Sequence[str] | None,
    live: LiveQuotas,
    *,
    delete_namespaces: bool,
    sources: Collection[str] | None = None,
) -> QuotaPlans:
    """Plan the removal of the quotas of manifests, of the quota ``name``, or of all quotas in ``namespaces``.

    With a name, ``namespaces`` None stands for all namespaces of the quota; an empty list always stands for none. With
    ``sources``, quotas that another source declares stay, and so do their namespaces.
    """
    result = QuotaPlans()
    targets = list(dict.fromkeys(_quota_targets(quotas, name, namespaces, live)))
    for quota, namespace in targets:
        objects = [obj for obj in live.in_namespace(namespace) if quota is not None and quota_name_of(obj) == quota]
        if sources is not None and any(recorded_source(obj) not in sources for obj in objects):
            continue
        if quota is not None and not objects:
            result.blockers += _unmanaged_with_same_name(quota, namespace, live)
        present = live.namespace(namespace)
        shared = _others_in(namespace, {q for q, n in targets if n == namespace}, live)
        plan = _removal(quota, namespace, objects, None if shared else present, live)
        if delete_namespaces and present:
            kept = _why_kept(present, {q for q, n in targets if n == namespace}, live)
            if kept:
                result.notes[namespace] = kept
                result.warnings.append(f"namespace {namespace} is kept: {kept}.")
            else:  # The quota's objects are deleted with it.
                plan = plan.with_steps([Step(Action.DELETE, {}, present)])
        if delete_namespaces and (leaving := live.terminating(namespace)):
            result.terminating.append(namespace)
            result.notes[namespace] = being_deleted(leaving)
        result.plans.append(plan)
    return result


def _quota_plan(quota: Quota, namespace: str, live: LiveQuotas, result: QuotaPlans, source: str | None) -> Plan:
    name = quota.quota.name
    result.blockers += _unmanaged_with_same_name(name, namespace, live)
    present = live.namespaces.get(namespace)
    managed = live.namespace(namespace) is None or is_managed(present or {})
    level = quota.pod_security or live.levels.get(namespace)
    desired = quota_objects.namespace(namespace, managed=managed, pod_security=level)
    its = (obj for obj in live.in_namespace(namespace) if quota_name_of(obj) == name)
    left = {(obj["kind"], obj["metadata"]["name"]): obj for obj in its}

    def plan_object(obj: Object) -> Step:
        found = left.pop((obj["kind"], obj["metadata"]["name"]), None)
        return record_source_in(step_for(keep_source(obj, found), found), source)

    # The defaults come before the limits that require them.
    # A pod without them would be refused (pkg/quota/v1/evaluator/core/pods.go, Constraints).
    defaults = quota_objects.limit_range(quota, namespace)
    space = step_for(desired, present)
    if warning := _forbidden_by(space, quota):
        result.warnings.append(f"quota {name} in namespace {namespace}: {warning}")
    prerequisites = (space, *([plan_object(defaults)] if defaults else []))
    step = plan_object(quota_objects.resource_quota(quota, namespace))
    if unenforced := unenforced_keys(step.live):
        result.warnings.append(
            f"quota {name} in namespace {namespace}: Kubernetes does not enforce {', '.join(unenforced)}, so it is "
            f"removed. The enforced key is {', '.join(f'requests.{key}' for key in unenforced)}."
        )
        step = _without_keys(step, unenforced)
    removals = [Step(Action.DELETE, {}, obj) for obj in left.values()]
    return Plan(name, namespace, "quota", (step, *removals), prerequisites)


def _without_keys(step: Step, keys: Iterable[str]) -> Step:
    known = {change.path for change in step.changes}
    paths = [("spec", "hard", key) for key in keys]
    dropped = [Change(path, step.live["spec"]["hard"][path[-1]], ABSENT) for path in paths if path not in known]
    return replace(step, action=Action.UPDATE, changes=(*step.changes, *dropped))


def _removal(quota: str | None, namespace: str, objects: list[Object], freed: Object | None, live: LiveQuotas) -> Plan:
    """The ResourceQuota first: without its LimitRange it would reject pods.

    ``freed`` is the namespace if no quota is left in it. What its pod_security has set there is removed then.
    """
    ordered = sorted(objects, key=lambda obj: obj["kind"] != "ResourceQuota")
    steps = [Step(Action.DELETE, {}, obj) for obj in ordered if not is_terminating(obj)]
    if freed and quota_objects.has_level_of_ours(freed):
        level = live.levels.get(namespace)
        desired = quota_objects.namespace(namespace, managed=is_managed(freed), pod_security=level)
        steps.append(step_for(desired, freed))
    return Plan(quota or "", namespace, "quota", tuple(steps))


def _forbidden_by(space: Step, quota: Quota) -> str | None:
    """What the namespace no longer admits once pod_security is enforced; None if it is already."""
    forbidden = _FORBIDDEN.get(quota.pod_security or "")
    enforced = value_at(space.live, ("metadata", "labels", POD_SECURITY_ENFORCED))
    if forbidden is None or enforced == quota.pod_security:
        return None
    return (
        f"pod_security {quota.pod_security} admits no {forbidden}. Give each of storage.workdirs a claim, or use "
        f"pod_security privileged."
    )


def _quota_targets(
    quotas: Sequence[Quota], name: str | None, namespaces: Sequence[str] | None, live: LiveQuotas
) -> Iterator[tuple[str | None, str]]:
    for quota in quotas:
        for namespace in (*quota.namespaces, *live.of_quota(quota.quota.name)):
            yield quota.quota.name, namespace
    if name is not None:
        for namespace in [*live.of_quota(name), *live.left_of(name)] if namespaces is None else namespaces:
            yield name, namespace
        return
    for namespace in namespaces or ():
        found = {quota_name_of(obj) for obj in live.in_namespace(namespace)} - {None}
        for quota_name in sorted(found, key=str) or [None]:
            yield quota_name, namespace


def _claimed_by_others(quota: str, namespace: str, declared: Mapping[str, Quota], live: LiveQuotas) -> Iterator[str]:
    """Other managed quotas that have the namespace, unless this task removes it from that quota."""
    found = {quota_name_of(obj) for obj in live.in_namespace(namespace)} - {None, quota}
    for other in sorted(str(name) for name in found):
        if other not in declared:
            yield (
                f"quota {quota}: the namespace {namespace} already belongs to the quota {other}. Remove it from the "
                f"manifest of {other} in the same task, or remove it first: state absent, name {other}, namespaces "
                f"[{namespace}]."
            )


def _unmanaged_with_same_name(quota: str, namespace: str, live: LiveQuotas) -> Iterator[str]:
    name = quota_object_name(quota, namespace)
    for obj in live.in_namespace(namespace):
        if obj["metadata"]["name"] == name and not is_managed(obj):
            yield (
                f"quota {quota} in namespace {namespace}: {obj['kind']} {name} exists and does not belong to gpuctl. "
                f"Delete it: kubectl delete {obj['kind'].lower()} {name} -n {namespace}"
            )


def _report_others(namespace: str, live: LiveQuotas, result: QuotaPlans) -> None:
    found = [o for o in live.in_namespace(namespace) if o["kind"] == "ResourceQuota" and not is_managed(o)]
    if found:
        names = sorted(obj["metadata"]["name"] for obj in found)
        result.others[namespace] = names
        result.warnings.append(
            f"namespace {namespace} is also limited by quotas that do not belong to gpuctl: {', '.join(names)}."
        )


def _why_kept(namespace: Object, ending: Collection[str | None], live: LiveQuotas) -> str | None:
    """Why a namespace is not deleted; None if it can be."""
    name = namespace["metadata"]["name"]
    if is_protected(name):
        return "protected namespace"
    if not is_managed(namespace):
        return "not created by gpuctl"
    others = _others_in(name, ending, live)
    return f"also used by the quota {', '.join(others)}" if others else None


def _others_in(namespace: str, ending: Collection[str | None], live: LiveQuotas) -> list[str]:
    """The quotas of a namespace without those that are being removed."""
    found = {quota_name_of(obj) for obj in live.in_namespace(namespace)}
    return sorted(str(name) for name in found if name and name not in ending)
