# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What has to be done to get from what is live to what is wanted. Pure: data in, data out.

A plan is printed, compared and tested as data; nothing is sent while it is made. Whether Kubernetes can make a change
in place is decided here by a table of what it allows everywhere; the rest is marked ``uncertain`` and put to the server
(see ``prove``), because the answer depends on the version of the server and on the state of the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from ..labels import FIELD_MANAGER
from .fields import Change, changes, path_text
from .pause import stay_paused


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

    def __str__(self) -> str:
        return self.value


_PATCHING = (Action.PAUSE, Action.RESUME, Action.RESTART, Action.SCALE)

WORKLOAD_KINDS = ("Job", "Deployment", "StatefulSet")

# Everything of ``metadata`` that we set may change in place. Of the rest, these fields always may (KUBERNETES
# validation: ValidateJobSpecUpdate, ValidateStatefulSetUpdate, ValidateDeploymentUpdate, ValidateServiceUpdate);
# a kind that is not listed may change freely.
_MUTABLE_SPEC = {
    "Job": {
        "parallelism",
        "suspend",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "maxFailedIndexes",
        "podReplacementPolicy",
    },
    "StatefulSet": {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    },
    "Deployment": {
        "replicas",
        "template",
        "strategy",
        "minReadySeconds",
        "revisionHistoryLimit",
        "paused",
        "progressDeadlineSeconds",
    },
    "Service": {"ports", "selector", "type", "sessionAffinity", "publishNotReadyAddresses", "externalTrafficPolicy"},
}


@dataclass(frozen=True)
class Step:
    """One object: what is done to it, and what it is made from.

    ``desired`` is empty for a deletion and where the ``changes`` alone are written (see ``patches``), ``live`` for a
    creation (unless the former object is still on its way out). ``owned`` asks for an owner reference to the job's
    workload, whose uid is only known once that exists.
    """

    action: Action
    desired: dict[str, Any]
    live: dict[str, Any]
    changes: tuple[Change, ...] = ()
    owned: bool = False

    @property
    def identity(self) -> Mapping[str, Any]:
        """The object that the step is about, wanted or live: for its kind, name and namespace."""
        return self.desired or self.live

    @property
    def kind(self) -> str:
        return str(self.identity["kind"])

    @property
    def name(self) -> str:
        return str(self.identity["metadata"]["name"])

    @property
    def immutable(self) -> tuple[str, ...]:
        """The paths whose change Kubernetes does not allow in place on every version and in every state."""
        if self.live.get("kind", self.kind) != self.kind:
            return ("kind",)
        allowed = _MUTABLE_SPEC.get(self.kind)
        if allowed is None:
            return ()
        return tuple(
            path_text(change.path)
            for change in self.changes
            if change.path[0] == "spec" and (len(change.path) < 2 or change.path[1] not in allowed)
        )

    @property
    def replaces(self) -> bool:
        """The live object is deleted, and a new one is made in its place."""
        return self.action is Action.RECREATE or (self.action is Action.RESTART and bool(self.desired))

    @property
    def patches(self) -> bool:
        """Just the changes are written into the live object, and no manifest is applied.

        What is written so is held as an update, not as something that we apply: the next apply of the manifest, which
        does not name it, leaves it alone.
        """
        return self.action in _PATCHING and not self.desired

    @property
    def uncertain(self) -> bool:
        """An update of which only the server can say whether it works in place."""
        return self.action is Action.UPDATE and bool(self.immutable)

    def __str__(self) -> str:
        detail = f": {', '.join(str(change) for change in self.changes)}" if self.changes else ""
        return f"{self.action} {self.kind} {self.name}{detail}"


class Completion(NamedTuple):
    """A job that has ended and is left so: its last status, None where nobody saw it, and why it is left."""

    status: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class Plan:
    """All steps of one thing that a manifest declares, in the order in which they are carried out.

    Of a job the first step is the workload's. ``prerequisites`` come before the steps and are shared with other plans
    (PriorityClasses). ``kind`` is the manifest's; unknown when a job is deleted by name and was not there. With an
    ``obstacle``, a sentence that says why it cannot be carried out, there are no steps. ``held_gpus`` is the number of
    GPUs that the job's pods hold, where that is of interest. ``manifest`` is the digest by which a training is
    remembered. ``kept`` is why a run that would be built otherwise now goes on as it is.
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

    @property
    def action(self) -> Action:
        """The fate of the first object; when that stays, whether anything around it changes."""
        fate = self.steps[0].action if self.steps else Action.UNCHANGED
        around = (*self.prerequisites, *self.steps)
        if fate is Action.UNCHANGED and any(step.action is not Action.UNCHANGED for step in around):
            return Action.UPDATE
        return fate

    @property
    def released_gpus(self) -> int:
        """GPUs that the job's pods give back, or have given back."""
        return self.held_gpus if self.action is Action.PAUSE else 0

    @property
    def changed(self) -> bool:
        return self.action is not Action.UNCHANGED

    def with_steps(self, steps: Iterable[Step]) -> Plan:
        return replace(self, steps=tuple(steps))

    def blocked_by(self, blocker: str) -> Plan:
        """The plan that does nothing, because of the obstacle."""
        return replace(self, steps=(), prerequisites=(), blocker=blocker)

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
) -> Plan:
    """The steps that make ``desired`` (the workload first) out of the job's ``live`` objects.

    A live workload of another kind is replaced by the new one, and a paused one stays paused. Live objects that are not
    wanted any more go last, so that nothing is missing in between.
    """
    workload, *dependents = desired
    live = list(live)
    by_identity = {(obj["kind"], obj["metadata"]["name"]): obj for obj in live}
    former = by_identity.pop((workload["kind"], name), None)
    if former is None:
        former = next((obj for obj in live if obj["kind"] in WORKLOAD_KINDS and not _is_terminating(obj)), None)
    if former is not None and not _is_terminating(former):
        workload = stay_paused(workload, former)
    steps = [step_for(workload, former)]
    # The garbage collector takes a training's services and files along when its TTL removes the Job.
    owned = workload["kind"] == "Job"
    owner_uid = former["metadata"]["uid"] if former and steps[0].action is not Action.RECREATE else None
    for obj in dependents:
        present = by_identity.pop((obj["kind"], obj["metadata"]["name"]), None)
        wanted = with_owner(obj, workload, owner_uid) if owned and owner_uid else obj
        step = replace(step_for(wanted, present), owned=owned)
        if owned and not owner_uid and step.action is Action.UNCHANGED:
            step = replace(step, action=Action.UPDATE)  # Its owner is yet to come.
        steps.append(step)
    steps += [
        Step(Action.DELETE, {}, obj) for obj in by_identity.values() if obj is not former and not _is_terminating(obj)
    ]
    return Plan(name, namespace, kind, tuple(steps))


def plan_deletion(name: str, namespace: str, kind: str | None, live: Iterable[dict[str, Any]]) -> Plan:
    """The steps that remove all live objects of a job, the workload first."""
    return Plan(name, namespace, kind, tuple(Step(Action.DELETE, {}, obj) for obj in active_objects(live)))


def recreated(plan: Plan) -> Plan:
    """The plan, with a live workload deleted and made anew whatever differs."""
    workload, *dependents = plan.steps
    if workload.action is Action.CREATE:
        return plan
    # What the former workload owned goes with it.
    around = [
        replace(step, action=Action.UPDATE) if step.owned and step.action is Action.UNCHANGED else step
        for step in dependents
    ]
    return plan.with_steps([replace(workload, action=Action.RECREATE), *around])


def unchanged(plan: Plan, live: Iterable[dict[str, Any]]) -> Plan:
    """The plan that leaves what is live as it is."""
    return plan.with_steps(Step(Action.UNCHANGED, {}, obj) for obj in active_objects(live))


def active_objects(live: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects of a job that are not about to go, the workload first."""
    return sorted((obj for obj in live if not _is_terminating(obj)), key=lambda obj: obj["kind"] not in WORKLOAD_KINDS)


def step_for(desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> Step:
    """What one object needs: nothing, an update, a creation, or a recreation where the live one is of another kind."""
    desired, live = dict(desired), dict(live or {})
    if not live or (_is_terminating(live) and live["kind"] == desired["kind"]):
        return Step(Action.CREATE, desired, live)
    if live["kind"] != desired["kind"]:
        return Step(Action.RECREATE, desired, live)
    found = changes(desired, live, FIELD_MANAGER)
    return Step(Action.UPDATE if found else Action.UNCHANGED, desired, live, found)


def plan_priority_class(desired: Mapping[str, Any]) -> Step:
    """A PriorityClass is made when it is missing and never touched after: its value cannot change, others use it."""
    return Step(Action.CREATE, dict(desired), {})


def with_owner(obj: Mapping[str, Any], workload: Mapping[str, Any], uid: str) -> dict[str, Any]:
    """The object with an owner reference to the job's workload."""
    reference = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": uid,
    }
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}


def _is_terminating(obj: Mapping[str, Any]) -> bool:
    """Deleted, but still there until its finalizers or dependents are done."""
    return "deletionTimestamp" in obj["metadata"]
