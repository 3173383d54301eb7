# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What has to be done for quotas, one plan per quota and namespace, and what stands in the way. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..cluster.status import is_terminating
from ..engine.fields import ABSENT, Change
from ..engine.plan import Action, Plan, Step, step_for
from ..labels import is_ours, is_protected, quota_object_name
from ..manifest.models import Quota
from . import quota_objects
from .live_quotas import Live
from .quota_writes import unenforced_keys
from .usage import quota_name_of

Object = dict[str, Any]


@dataclass
class Planned:
    """Plans in the order in which they are carried out; ``obstacles`` forbid all of them.

    ``others`` names the ResourceQuotas of others by namespace; ``notes`` says of namespaces why they are kept.
    """

    plans: list[Plan] = field(default_factory=list)
    blockers: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    others: dict[str, list[str]] = field(default_factory=dict)


def plan_quotas(quotas: Sequence[Quota], live: Live) -> Planned:
    """Every namespace of the quotas as declared, then the end of the quotas where they are no longer declared."""
    planned = Planned()
    declared = {quota.quota.name: quota for quota in quotas}
    for quota in quotas:
        for namespace in quota.namespaces:
            planned.blockers += _claimed_by_others(quota.quota.name, namespace, declared, live)
            planned.plans.append(_plan(quota, namespace, live, planned))
            _report_others(namespace, live, planned)
    # What is taken away goes last: a namespace that moves to another quota is never without one.
    for quota in quotas:
        for namespace, objects in live.of_quota(quota.quota.name).items():
            if namespace not in quota.namespaces:
                planned.plans.append(_removal(quota.quota.name, namespace, objects))
    return planned


def plan_quota_removal(
    quotas: Sequence[Quota], name: str | None, namespaces: Sequence[str] | None, live: Live, *, delete_namespaces: bool
) -> Planned:
    """The end of quotas: of the given manifests, of the one of that name, or of all in the given namespaces.

    ``namespaces`` None stands for all that the quota ``name`` is for, an empty list for none.
    """
    planned = Planned()
    targets = list(dict.fromkeys(_targets(quotas, name, namespaces, live)))
    for quota, namespace in targets:
        objects = [obj for obj in live.in_namespace(namespace) if quota is not None and quota_name_of(obj) == quota]
        if quota is not None and not objects:
            planned.blockers += _same_name_of_others(quota, namespace, live, "deleted")
        plan = _removal(quota, namespace, objects)
        present = live.namespace(namespace)
        if delete_namespaces and present:
            kept = _why_kept(present, {q for q, n in targets if n == namespace}, live)
            if kept:
                planned.notes[namespace] = kept
                planned.warnings.append(f"namespace {namespace} is kept: {kept}.")
            else:  # With everything in it: nothing of the quota needs a deletion of its own.
                plan = plan.with_steps([Step(Action.DELETE, {}, present)])
        planned.plans.append(plan)
    return planned


def _plan(quota: Quota, namespace: str, live: Live, planned: Planned) -> Plan:
    name = quota.quota.name
    planned.blockers += _same_name_of_others(name, namespace, live, "touched")
    present = live.namespaces.get(namespace)
    wanted = quota_objects.namespace(namespace, made_by_us=live.namespace(namespace) is None or is_ours(present or {}))
    ours = (obj for obj in live.in_namespace(namespace) if quota_name_of(obj) == name)
    by_identity = {(obj["kind"], obj["metadata"]["name"]): obj for obj in ours}
    # Defaults come before the limits that make them necessary.
    defaults = quota_objects.limit_range(quota, namespace)
    before = [step_for(wanted, present)]
    if defaults:
        before.append(step_for(defaults, by_identity.pop((defaults["kind"], defaults["metadata"]["name"]), None)))
    limits = quota_objects.resource_quota(quota, namespace)
    step = step_for(limits, by_identity.pop((limits["kind"], limits["metadata"]["name"]), None))
    if unenforced := unenforced_keys(step.live):
        planned.warnings.append(
            f"quota {name} in namespace {namespace}: {', '.join(unenforced)} limits nothing in Kubernetes and is "
            f"removed; what counts is {', '.join(f'requests.{key}' for key in unenforced)}."
        )
        step = _without(step, unenforced)
    rest = [Step(Action.DELETE, {}, obj) for obj in by_identity.values()]
    return Plan(name, namespace, "quota", (step, *rest), tuple(before))


def _without(step: Step, keys: Iterable[str]) -> Step:
    known = {change.path for change in step.changes}
    paths = [("spec", "hard", key) for key in keys]
    dropped = [Change(path, step.live["spec"]["hard"][path[-1]], ABSENT) for path in paths if path not in known]
    return replace(step, action=Action.UPDATE, changes=(*step.changes, *dropped))


def _removal(quota: str | None, namespace: str, objects: Iterable[Object]) -> Plan:
    """The ResourceQuota first: without its LimitRange it would refuse pods."""
    ordered = sorted(objects, key=lambda obj: obj["kind"] != "ResourceQuota")
    steps = tuple(Step(Action.DELETE, {}, obj) for obj in ordered if not is_terminating(obj))
    return Plan(quota or "", namespace, "quota", steps)


def _targets(
    quotas: Sequence[Quota], name: str | None, namespaces: Sequence[str] | None, live: Live
) -> Iterator[tuple[str | None, str]]:
    for quota in quotas:
        for namespace in (*quota.namespaces, *live.of_quota(quota.quota.name)):
            yield quota.quota.name, namespace
    if name is not None:
        for namespace in live.of_quota(name) if namespaces is None else namespaces:
            yield name, namespace
        return
    for namespace in namespaces or ():
        found = {quota_name_of(obj) for obj in live.in_namespace(namespace)} - {None}
        for quota_name in sorted(found, key=str) or [None]:
            yield quota_name, namespace


def _claimed_by_others(quota: str, namespace: str, declared: Mapping[str, Quota], live: Live) -> Iterator[str]:
    """Another quota of ours that holds the namespace, unless this very task takes it away from that one."""
    found = {quota_name_of(obj) for obj in live.in_namespace(namespace)} - {None, quota}
    for other in sorted(str(name) for name in found):
        if other not in declared:
            yield (
                f"quota {quota}: the namespace {namespace} is limited by the quota {other} already. Give the manifest "
                f"of {other} without it in the same task, or remove it there first: state absent, name {other}, "
                f"namespaces [{namespace}]."
            )


def _same_name_of_others(quota: str, namespace: str, live: Live, verb: str) -> Iterator[str]:
    wanted = quota_object_name(quota, namespace)
    for obj in live.in_namespace(namespace):
        if obj["metadata"]["name"] == wanted and not is_ours(obj):
            yield (
                f"quota {quota} in namespace {namespace}: {obj['kind']} {wanted} exists there and does not belong to "
                f"gpuctl, so it was not {verb}. Delete it with: kubectl delete {obj['kind'].lower()} {wanted} "
                f"-n {namespace}"
            )


def _report_others(namespace: str, live: Live, planned: Planned) -> None:
    found = [o for o in live.in_namespace(namespace) if o["kind"] == "ResourceQuota" and not is_ours(o)]
    if found:
        names = sorted(obj["metadata"]["name"] for obj in found)
        planned.others[namespace] = names
        planned.warnings.append(
            f"the namespace {namespace} has other quotas that do not belong to gpuctl and limit it as well: "
            f"{', '.join(names)}."
        )


def _why_kept(namespace: Object, ending: Collection[str | None], live: Live) -> str | None:
    """Why a namespace is not deleted though it was asked for; None when it may go."""
    name = namespace["metadata"]["name"]
    if is_protected(name):
        return "it is never deleted"
    if not is_ours(namespace):
        return "gpuctl did not make it"
    others = {str(other) for obj in live.in_namespace(name) if (other := quota_name_of(obj)) and other not in ending}
    return f"the quota {', '.join(sorted(others))} is for it, too" if others else None
