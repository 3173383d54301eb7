# SPDX-License-Identifier: BSD-2-Clause
"""The steps from the live objects to the desired ones. Pure: data in, data out.

Changes that Kubernetes always makes in place are in a table here. Others are ``uncertain``: whether they work depends
on the server's version and the object's state, so a dry run decides (see dry_run.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from ..cluster.status import is_terminating, stay_paused
from ..kube.errors import ApiError
from ..labels import FIELD_MANAGER
from ..manifest.problems import abridged
from .fields import Change, changes
from .later_defaults import LaterDefaults, as_formerly_built, marked

_NAMED = 3  # jobs with the same problem


class Action(str, Enum):
    """What happens to an object or to a job; the words of ``results[].action``."""

    CREATE = "create"
    UPDATE = "update"
    RECREATE = "recreate"
    UNCHANGED = "unchanged"
    DELETE = "delete"
    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"
    SCALE = "scale"
    ANNOTATE = "annotate"

    def __str__(self) -> str:
        return self.value


WORKLOAD_KINDS = ("Job", "Deployment", "StatefulSet")

# The fields of ``spec`` that may always change in place (Kubernetes validation: ValidateJobSpecUpdate,
# ValidateStatefulSetUpdate, ValidateDeploymentUpdate, ValidateServiceUpdate). Other kinds may change freely.
_MUTABLE_SPEC = {
    "Job": "parallelism suspend activeDeadlineSeconds backoffLimit ttlSecondsAfterFinished maxFailedIndexes "
    "podReplacementPolicy",
    "StatefulSet": "replicas ordinals template updateStrategy revisionHistoryLimit minReadySeconds "
    "persistentVolumeClaimRetentionPolicy",
    "Deployment": "replicas template strategy minReadySeconds revisionHistoryLimit paused progressDeadlineSeconds",
    "ResourceClaimTemplate": "",
    "Service": "ports selector type sessionAffinity publishNotReadyAddresses externalTrafficPolicy",
}


@dataclass(frozen=True)
class Step:
    """The action on one object.

    ``desired`` is empty for a deletion and for a patch of the ``changes`` alone (see ``patches``), ``live`` for a
    creation (unless the former object is still terminating). ``owned`` asks for an owner reference to the job's
    workload, whose uid is only known once that exists. ``anew`` is what to create if the live object is replaced, where
    that is more than ``desired`` (see later_defaults.py). A creation waits until ``former_pods`` are gone.
    """

    action: Action
    desired: dict[str, Any]
    live: dict[str, Any]
    changes: tuple[Change, ...] = ()
    owned: bool = False
    anew: dict[str, Any] = field(default_factory=dict)
    former_pods: tuple[dict[str, Any], ...] = ()

    @property
    def identity(self) -> Mapping[str, Any]:
        """The desired or else the live object, for its kind, name and namespace."""
        return self.desired or self.live

    @property
    def kind(self) -> str:
        return str(self.identity["kind"])

    @property
    def name(self) -> str:
        return str(self.identity["metadata"]["name"])

    @property
    def immutable(self) -> tuple[str, ...]:
        """The changed paths that Kubernetes may not allow to change in place."""
        if self.live.get("kind", self.kind) != self.kind:
            return ("kind",)
        if self.kind not in _MUTABLE_SPEC:
            return ()
        allowed = _MUTABLE_SPEC[self.kind].split()
        return tuple(
            str(change)
            for change in self.changes
            if change.path[0] == "spec" and (len(change.path) < 2 or change.path[1] not in allowed)
        )

    @property
    def changes_pods(self) -> bool:
        """Whether the update replaces the pods, or may."""
        return bool(self.immutable) or any(change.path[:2] == ("spec", "template") for change in self.changes)

    @property
    def replaces(self) -> bool:
        """Whether the live object is deleted and created again."""
        return self.action is Action.RECREATE or (self.action is Action.RESTART and bool(self.desired))

    @property
    def patches(self) -> bool:
        """Whether only the changes are patched into the live object.

        Our field manager then holds them by an Update, not an Apply, so the next apply of the manifest keeps them.
        """
        return bool(self.changes) and not self.desired

    @property
    def uncertain(self) -> bool:
        """Whether the update works in place depends on the server."""
        return self.action is Action.UPDATE and bool(self.immutable)

    def __str__(self) -> str:
        detail = f": {', '.join(str(change) for change in self.changes)}" if self.changes else ""
        return f"{self.action} {self.kind} {self.name}{detail}"


@dataclass(frozen=True)
class Completion:
    """A training that has ended and is not run again: its last status (None if unknown), and why."""

    status: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class Plan:
    """All steps for one manifest, in order; for a job, the workload comes first.

    ``prerequisites`` come before the steps and are shared with other plans (PriorityClasses). ``kind`` is the
    manifest's; None if a job is deleted by name and does not exist. ``blocker`` says why the plan cannot be applied; it
    then has no steps. ``held_gpus`` is the number of GPUs that the job's pods hold (for a pause). ``manifest`` is the
    digest by which the ledger knows a training. ``kept`` says why a running training keeps an outdated spec, ``stops``
    what a recreation stops (see jobs/interruption.py), and ``missing`` that there is no job of that name. ``pods`` are
    the job's, where planning has read them.
    """

    name: str
    namespace: str
    kind: str | None
    steps: tuple[Step, ...] = ()
    prerequisites: tuple[Step, ...] = ()
    blocker: str | None = None
    held_gpus: int = 0
    manifest: str | None = None
    ended: Completion | None = None
    kept: str = ""
    stops: str = ""
    missing: str = ""
    pods: tuple[Mapping[str, Any], ...] | None = None

    @property
    def action(self) -> Action:
        """The action of the first step; UPDATE if that is unchanged and another is not."""
        first = self.steps[0].action if self.steps else Action.UNCHANGED
        everything = (*self.prerequisites, *self.steps)
        if first is Action.UNCHANGED and any(step.action is not Action.UNCHANGED for step in everything):
            return Action.UPDATE
        return first

    @property
    def released_gpus(self) -> int:
        """The number of GPUs that a pause releases."""
        return self.held_gpus if self.action is Action.PAUSE else 0

    @property
    def changed(self) -> bool:
        return self.action is not Action.UNCHANGED

    def with_steps(self, steps: Iterable[Step]) -> Plan:
        return replace(self, steps=tuple(steps))

    def blocked_by(self, blocker: str) -> Plan:
        return replace(self, steps=(), prerequisites=(), blocker=blocker, stops="")

    def after(self, earlier: Plan) -> Plan:
        """The plan with what an earlier one for the same job has done to objects that this one leaves as they are."""
        done = {(step.kind, step.name): step for step in earlier.steps if step.action is not Action.UNCHANGED}
        again = [
            done.pop((step.kind, step.name), step) if step.action is Action.UNCHANGED else step for step in self.steps
        ]
        for step in again:
            done.pop((step.kind, step.name), None)
        return replace(
            self, steps=(*again, *done.values()), prerequisites=(*earlier.prerequisites, *self.prerequisites)
        )

    def __str__(self) -> str:
        lines = [f"{self.action} {self.kind} {self.namespace}/{self.name}"]
        lines += [f"  {step}" for step in (*self.prerequisites, *self.steps) if step.action is not Action.UNCHANGED]
        return "\n".join(lines)


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
    if former is not None and not is_terminating(former):
        workload = stay_paused(workload, former)
    steps = [_workload_step(workload, former, later_defaults)]
    # When the TTL of a Job ends, the garbage collector deletes the training's Services and ConfigMaps too.
    # What pods claim devices by is of no use to any other workload.
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
    anew = replace(workload, action=Action.RECREATE, desired=workload.anew or workload.desired)
    return plan.with_steps([anew, *dependents])


def unchanged(plan: Plan, live: Iterable[dict[str, Any]]) -> Plan:
    """The plan that leaves what is live as it is."""
    return plan.with_steps(Step(Action.UNCHANGED, {}, obj) for obj in active_objects(live))


def active_objects(live: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects of a job that are not terminating, the workload first."""
    return sorted((obj for obj in live if not is_terminating(obj)), key=lambda obj: obj["kind"] not in WORKLOAD_KINDS)


def upgraded(plan: Plan) -> Plan:
    """The plan that also applies what only this version of the collection builds otherwise."""
    return plan.with_steps(step_for(step.anew, step.live) if step.anew else step for step in plan.steps)


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
    return replace(step, anew=desired)


def step_for(desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> Step:
    """The step for one object; a live object of another kind is recreated."""
    desired, live = dict(desired), dict(live or {})
    if not live or (is_terminating(live) and live["kind"] == desired["kind"]):
        return Step(Action.CREATE, desired, live)
    if live["kind"] != desired["kind"]:
        return Step(Action.RECREATE, desired, live)
    found = changes(desired, live, FIELD_MANAGER)
    return Step(Action.UPDATE if found else Action.UNCHANGED, desired, live, found)


def with_owner(obj: Mapping[str, Any], workload: Mapping[str, Any], uid: str) -> dict[str, Any]:
    """The object with an owner reference to the job's workload."""
    reference = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": uid,
    }
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}


def describe(plan: Plan) -> str:
    """How messages name the subject of a plan."""
    where = f" in namespace {plan.namespace}" if plan.namespace else ""
    return f"{plan.kind or 'job'} {plan.name}{where}"


def object_id(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    """Kind, namespace ("" for cluster-scoped kinds) and name."""
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace") or "", metadata["name"]


def describe_alike(plans: Sequence[Plan]) -> list[str]:
    """How messages name jobs of one namespace that have the same problem: each, or many of them together."""
    if len(plans) <= _NAMED:
        return [describe(plan) for plan in plans]
    return [several_jobs(plans[0].namespace, [plan.name for plan in plans])]


def several_jobs(namespace: str, names: Sequence[str]) -> str:
    return f"{len(names)} jobs, {abridged(names, _NAMED)} in namespace {namespace}"


Suggest = Callable[[str], "str | None"]  # the name of a namespace that does not exist -> the one that was meant


def with_hint(error: ApiError, plan: Plan, namespace_meant: Suggest = lambda name: None) -> str:
    """The error of a request for the plan, with a hint where there is one."""
    if error.is_field_conflict:
        held = "; ".join(f"{cause.field.lstrip('.')} ({cause.message})" for cause in error.causes)
        return (
            f"fields of the manifest were changed by others to different values: {held}. "
            f"Use O(force_conflicts=true) to overwrite them, or copy their values into the manifest."
        )
    if error.is_missing_namespace:
        meant = namespace_meant(plan.namespace)
        create = f"Did you mean {meant}? If not, create" if meant else "Create"
        return (
            f"namespace {plan.namespace} not found. {create} it (kubectl create namespace {plan.namespace}), or set "
            f"job.namespace or O(namespace) to another one."
        )
    if error.status == 403 and "priorityclasses" in error.message:
        name = error.path.rpartition("/")[2]
        return (
            f"PriorityClass {name} not found, and this account may not create it. Ask an administrator to run "
            f"gpuctl_rbac with level submit, which creates it."
        )
    if error.status == 403 and "/clusterroles/" in error.path:
        return (
            f"{error}. The role is missing or of another version. Ask a cluster administrator to run gpuctl_rbac once "
            f"with level administer, which writes the roles of all levels."
        )
    return str(error)
