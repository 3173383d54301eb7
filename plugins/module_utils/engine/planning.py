# SPDX-License-Identifier: BSD-2-Clause
"""The steps from the live objects to the desired ones. Pure: data in, data out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..cluster.status import is_terminating, stay_paused
from ..labels import FIELD_MANAGER
from .fields import changes
from .later_defaults import LaterDefaults, as_formerly_built, marked
from .plan import WORKLOAD_KINDS, Action, Plan, Step


def plan_job(
    name: str,
    namespace: str,
    kind: str,
    desired: Iterable[Mapping[str, Any]],
    live: Iterable[dict[str, Any]],
    later_defaults: LaterDefaults | None = None,
) -> Plan:
    """The steps from the job's ``live`` objects to the ``desired`` ones (the workload first).

    A live workload of another kind is replaced, and a paused one stays paused. Objects that are no longer desired are
    deleted last, so that nothing is missing in between. ``later_defaults`` alone change no workload (see upgraded).
    """
    workload, *dependents = desired
    workload = marked(workload, later_defaults) if later_defaults else dict(workload)
    live = list(live)
    by_identity = {(obj["kind"], obj["metadata"]["name"]): obj for obj in live}
    former = by_identity.pop((workload["kind"], name), None)
    if former is None:
        former = next((obj for obj in live if obj["kind"] in WORKLOAD_KINDS and not is_terminating(obj)), None)
    # A pause is a decision about the live job that no manifest holds, so an apply must not undo it.
    if former is not None and not is_terminating(former):
        workload = stay_paused(workload, former)
    steps = [_workload_step(workload, former, later_defaults)]
    # When the TTL of a Job ends, the garbage collector deletes the training's Services and ConfigMaps too.
    # ResourceClaimTemplates of one workload are of no use to another.
    # An owner is known by its uid alone: that of an object which is deleted would let the garbage collector delete its
    # dependents (docs, "Owners and Dependents").
    owner_uid = former["metadata"]["uid"] if former and steps[0].action is not Action.RECREATE else None
    for obj in dependents:
        owned = workload["kind"] == "Job" or obj["kind"] == "ResourceClaimTemplate"
        present = by_identity.pop((obj["kind"], obj["metadata"]["name"]), None)
        wanted = with_owner(obj, workload, owner_uid) if owned and owner_uid else obj
        step = replace(step_for(wanted, present), owned=owned)
        if owned and not owner_uid and step.action is Action.UNCHANGED:
            step = replace(step, action=Action.UPDATE)  # The owner does not exist yet.
        steps.append(step)
    steps += [
        Step(Action.DELETE, {}, obj) for obj in by_identity.values() if obj is not former and not is_terminating(obj)
    ]
    return Plan(name, namespace, kind, tuple(steps))


def plan_deletion(name: str, namespace: str, kind: str | None, live: Iterable[dict[str, Any]]) -> Plan:
    """The steps that remove all live objects of a job, the workload first."""
    return Plan(name, namespace, kind, tuple(Step(Action.DELETE, {}, obj) for obj in active_objects(live)))


def starts_pods(plan: Plan) -> bool:
    """Whether the plan starts pods from a template that it applies."""
    if not plan.steps or plan.steps[0].kind not in WORKLOAD_KINDS:
        return False
    workload = plan.steps[0]
    changes_template = any(change.path[:2] == ("spec", "template") for change in workload.changes)
    return (
        workload.action is Action.CREATE
        or workload.replaces
        or (workload.action is Action.UPDATE and (changes_template or workload.uncertain))
    )


def adds_replicas(plan: Plan) -> bool:
    """Whether the plan adds pods to those of a live service."""
    if not plan.steps or plan.steps[0].action is not Action.UPDATE:
        return False
    values = ((change.before, change.after) for change in plan.steps[0].changes if change.path == ("spec", "replicas"))
    return any(isinstance(after, int) and isinstance(before, int) and after > before for before, after in values)


def recreated(plan: Plan) -> Plan:
    """The plan with the live workload recreated, whatever differs."""
    workload, *dependents = plan.steps
    if workload.action is Action.CREATE:
        return plan
    # What the former workload owns is deleted with it.
    dependents = [
        replace(step, action=Action.UPDATE) if step.owned and step.action is Action.UNCHANGED else step
        for step in dependents
    ]
    desired = workload.replacement or workload.desired
    return plan.with_steps([replace(workload, action=Action.RECREATE, desired=desired), *dependents])


def unchanged(plan: Plan, live: Iterable[dict[str, Any]]) -> Plan:
    """The plan that leaves what is live as it is."""
    return plan.with_steps(Step(Action.UNCHANGED, {}, obj) for obj in active_objects(live))


def active_objects(live: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects of a job that are not terminating, the workload first."""
    return sorted((obj for obj in live if not is_terminating(obj)), key=lambda obj: obj["kind"] not in WORKLOAD_KINDS)


def upgraded(plan: Plan) -> Plan:
    """The plan that also applies what only this version of the collection builds otherwise."""
    # The new template is another revision, so the pods of a service are replaced: only on request.
    return plan.with_steps(step_for(step.replacement, step.live) if step.replacement else step for step in plan.steps)


def _workload_step(
    desired: dict[str, Any], live: Mapping[str, Any] | None, later_defaults: LaterDefaults | None
) -> Step:
    if not later_defaults or live is None or live["kind"] != desired["kind"]:
        return step_for(desired, live)
    former = as_formerly_built(desired, live, later_defaults)
    step = step_for(former, live)
    if former is desired:
        return step
    if step.action is Action.CREATE or step.changes_pods:
        return step_for(desired, live)
    if step.action is Action.UPDATE:  # With a change in place come the defaults that are in place too.
        step = step_for(as_formerly_built(desired, live, later_defaults, only_pods=True), live)
    return replace(step, replacement=desired)


def step_for(desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> Step:
    """The step for one object; a live object of another kind is recreated."""
    desired, live = dict(desired), dict(live or {})
    # A deletion cannot be undone: what is applied to a terminating object goes with it.
    if not live or (is_terminating(live) and live["kind"] == desired["kind"]):
        return Step(Action.CREATE, desired, live)
    if live["kind"] != desired["kind"]:
        return Step(Action.RECREATE, desired, live)
    found = changes(desired, live, FIELD_MANAGER)
    return Step(Action.UPDATE if found else Action.UNCHANGED, desired, live, found)


def with_owner(obj: Mapping[str, Any], workload: Mapping[str, Any], uid: str) -> dict[str, Any]:
    """The object with an owner reference to the job's workload."""
    # Without blockOwnerDeletion, for which the account would have to be allowed to update finalizers of the owner
    # (admission plugin OwnerReferencesPermissionEnforcement), and without controller: a Service has none.
    reference = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": uid,
    }
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}
