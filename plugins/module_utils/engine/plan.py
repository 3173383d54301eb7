# SPDX-License-Identifier: BSD-2-Clause
"""What a task does, as data: the steps of a plan, each the action on one object. Pure.

Changes that Kubernetes always makes in place are in a table here. Others are ``uncertain``: whether they work depends
on the server's version and the object's state, so a dry run decides (see dry_run.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from ..kube.errors import ApiError
from .paths import Change


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
    # Immutable as a whole (pkg/apis/resource/validation, ValidateResourceClaimTemplateUpdate).
    "ResourceClaimTemplate": "",
    "Service": "ports selector type sessionAffinity publishNotReadyAddresses externalTrafficPolicy",
}


@dataclass(frozen=True)
class Step:
    """The action on one object.

    ``desired`` is empty for a deletion and for a patch of the ``changes`` alone (see ``patches``), ``live`` for a
    creation (unless the former object is still terminating). ``owned`` asks for an owner reference to the job's
    workload, whose uid is only known once that exists. ``replacement`` is what to create if the live object is
    replaced, where that is more than ``desired`` (see later_defaults.py). A creation waits until ``former_pods`` are
    gone.
    """

    action: Action
    desired: dict[str, Any]
    live: dict[str, Any]
    changes: tuple[Change, ...] = ()
    owned: bool = False
    replacement: dict[str, Any] = field(default_factory=dict)
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
        # Of another kind, so another object: nothing of the live one can be kept.
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


def describe(plan: Plan) -> str:
    """How messages name the subject of a plan."""
    where = f" in namespace {plan.namespace}" if plan.namespace else ""
    return f"{plan.kind or 'job'} {plan.name}{where}"


def object_id(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    """Kind, namespace ("" for cluster-scoped kinds) and name."""
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace") or "", metadata["name"]


Suggest = Callable[[str], "str | None"]  # the name of a namespace that does not exist -> the one that was meant


def with_hint(error: ApiError, plan: Plan, namespace_meant: Suggest = lambda name: None) -> str:
    """The error of a request for the plan, with a hint where there is one."""
    # The server names each field and its manager (docs, "Server-Side Apply", conflicts); both are needed to decide.
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
            f"namespace {plan.namespace} not found. {create} it with M(gpuctl_workspace "
            f"namespace={plan.namespace}), or set job.namespace or O(namespace) to another one."
        )
    if error.status == 403 and "priorityclasses" in error.message:
        name = error.path.rpartition("/")[2]
        return (
            f"PriorityClass {name} not found, and this account may not create it. Ask an administrator to run "
            f"gpuctl_rbac with level submit and append=true, which creates it."
        )
    if error.status == 403 and "/clusterroles/" in error.path:
        return (
            f"{error}. The role is missing or of another version. Ask a cluster administrator to run gpuctl_rbac once "
            f"for an administrator's account (level administer), which writes the roles of all levels."
        )
    return str(error)
