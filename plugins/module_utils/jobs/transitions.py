# SPDX-License-Identifier: BSD-2-Clause
"""Plan how live jobs are paused, resumed, restarted and scaled. Pure: no manifest, no request.

What a transition changes depends on the workload:

=================  =========================  ===========================  ==============================
                   pause, resume              restart                      scale
=================  =========================  ===========================  ==============================
training           Job ``suspend``            deleted and recreated        never: its pods are its nodes
training in Kueue  Workload ``spec.active``   deleted and recreated        never
                   and an annotation
notebook           ``replicas`` 0, 1          annotation of the template   never: it is one pod
other services     ``replicas`` 0, as before  annotation of the template   ``replicas``, unless autoscaled
=================  =========================  ===========================  ==============================
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..accelerators.catalog import whole_devices
from ..cluster.nodes import devices_of
from ..cluster.read_jobs import claim_templates_of
from ..cluster.related import is_unfinished
from ..cluster.status import ENDED, is_admitted_by_kueue, is_held, is_paused, is_terminating, kept_replicas, status_of
from ..engine.fields import applied_by
from ..engine.paths import ABSENT, Change, value_at
from ..engine.plan import Action, Plan, Step
from ..engine.planning import plan_job, recreated
from ..labels import (
    END_WARNED_AT,
    EXPIRED_AT,
    EXTENDED_LIMIT,
    FIELD_MANAGER,
    JOB_TYPE,
    PAUSED_REPLICAS,
    RESTARTED_AT,
    RESUMED_AT,
)
from .job_options import not_scalable_reason

_SUSPEND = ("spec", "suspend")
_ACTIVE = ("spec", "active")
_REPLICAS = ("spec", "replicas")
_KEPT = ("metadata", "annotations", PAUSED_REPLICAS)
_RESUMED = ("metadata", "annotations", RESUMED_AT)
_RESTARTED = ("spec", "template", "metadata", "annotations", RESTARTED_AT)


class TransitionRefused(Exception):
    """The transition is impossible; the text says why and what to do instead."""


@dataclass(frozen=True)
class LiveJob:
    """A job as it is live, with its other objects. ``admission`` is Kueue's Workload for it, or Volcano's PodGroup.

    ``restarted_from`` is what a restart that was interrupted had to create (see restart_copies.py).
    """

    namespace: str
    name: str
    workload: dict[str, Any]
    dependents: tuple[dict[str, Any], ...] = ()
    pods: tuple[dict[str, Any], ...] = ()
    admission: dict[str, Any] | None = None
    restarted_from: tuple[dict[str, Any], ...] = ()

    @property
    def objects(self) -> tuple[dict[str, Any], ...]:
        return (self.workload, *self.dependents)

    @property
    def kind(self) -> str:
        return str((self.workload["metadata"].get("labels") or {}).get(JOB_TYPE, self.workload["kind"]))

    @property
    def has_ended(self) -> bool:
        return status_of(self.workload) in ENDED

    @property
    def is_inactive_in_kueue(self) -> bool:
        """``spec.active`` of Kueue's Workload defaults to true."""
        found = self.admission or {}
        return found.get("kind") == "Workload" and (found.get("spec") or {}).get("active") is False

    @property
    def autoscaler(self) -> dict[str, Any] | None:
        return next((obj for obj in self.dependents if obj["kind"] == "HorizontalPodAutoscaler"), None)

    @property
    def missing(self) -> tuple[str, ...]:
        """The objects that the pods of a training need and that do not exist: an interrupted task has not created them.

        All ConfigMaps in the volumes of our workloads are the job's own.
        """
        pod = self.workload["spec"].get("template", {}).get("spec", {})
        volumes = (volume.get("configMap") for volume in pod.get("volumes") or ())
        needed = [("ConfigMap", config_map["name"]) for config_map in volumes if config_map]
        if pod.get("subdomain"):
            needed.insert(0, ("Service", pod["subdomain"]))
        needed += [("ResourceClaimTemplate", name) for name in claim_templates_of(self.workload)]
        found = {(obj["kind"], obj["metadata"]["name"]) for obj in self.dependents}
        return tuple(f"{kind} {name}" for kind, name in needed if (kind, name) not in found)


def pause(job: LiveJob) -> Plan:
    """Remove the job's pods. A job that has ended stays as it is."""
    if job.has_ended:
        return patch_plan(job, Action.PAUSE)
    if is_admitted_by_kueue(job.workload):
        plan = _patch_admission(job, Action.PAUSE, active=False)
    elif job.workload["kind"] == "Job":
        plan = patch_plan(job, Action.PAUSE, [(_SUSPEND, True)])
        if job.admission:  # Volcano would keep room for it; it makes another one when the job is resumed.
            plan = plan.with_steps((*plan.steps, Step(Action.DELETE, {}, job.admission)))
    elif is_held(job.workload):
        plan = patch_plan(job, Action.PAUSE)
    else:
        kept = job.workload["spec"].get("replicas") or _default_replicas(job)
        plan = patch_plan(job, Action.PAUSE, [(_KEPT, str(kept)), (_REPLICAS, 0)])
    return replace(plan, held_gpus=held_gpus(job.pods))


def resume(job: LiveJob, now: str) -> Plan:
    """Bring the job's pods back, with all of their time again from ``now`` (RFC 3339). A job that is not paused stays
    as it is."""
    if job.has_ended:
        return patch_plan(job, Action.RESUME)
    if is_admitted_by_kueue(job.workload):
        return _patch_admission(job, Action.RESUME, active=True)
    if not is_paused(job.workload):
        return patch_plan(job, Action.RESUME)
    if job.workload["kind"] == "Job":
        return patch_plan(job, Action.RESUME, [(_SUSPEND, False)])
    # Not the kept number where that is 0: a service without replicas counts as paused.
    replicas = kept_replicas(job.workload) or _default_replicas(job)
    past = [(("metadata", "annotations", name), ABSENT) for name in (EXTENDED_LIMIT, END_WARNED_AT, EXPIRED_AT)]
    return patch_plan(job, Action.RESUME, [(_KEPT, ABSENT), (_REPLICAS, replicas), (_RESUMED, now), *past])


def restart(job: LiveJob, now: str, lost_nodes: Collection[str] | None = None) -> Plan:
    """Replace the job's pods; ``now`` is in RFC 3339.

    With ``lost_nodes`` (the option force), pods that do not end by themselves are deleted at once: those on such nodes,
    and those that are terminating. Raises TransitionRefused for a job that is paused or incomplete.
    """
    if is_paused(job.workload) or job.is_inactive_in_kueue:
        raise TransitionRefused("it is paused, and a restart would not make it run. Resume it with O(state=resumed).")
    if job.workload["kind"] == "Job":
        # It is created again from what was applied, and that is gone.
        if job.missing and not job.restarted_from:
            raise TransitionRefused(
                f"it is incomplete, because a task was interrupted or a part of it was deleted: "
                f"{', '.join(job.missing)} not found. Create it with O(state=present) and its manifest."
            )
        return _recreate_plan(job)
    plan = patch_plan(job, Action.RESTART, [(_RESTARTED, now)])
    # The annotation changes the template, but with OnDelete the controller leaves running pods as they are.
    on_delete = job.workload["spec"].get("updateStrategy", {}).get("type") == "OnDelete"
    deleted = [
        pod
        for pod in job.pods
        if on_delete or (lost_nodes is not None and (is_terminating(pod) or pod["spec"].get("nodeName") in lost_nodes))
    ]
    return plan.with_steps((*plan.steps, *(Step(Action.DELETE, {}, pod) for pod in deleted)))


def keep(job: LiveJob) -> Plan:
    """Leave the job as it is, to wait for it."""
    return patch_plan(job, Action.UNCHANGED)


def scale(job: LiveJob, replicas: int) -> Plan:
    """Set the replicas; those of a paused job count once it is resumed. Raises TransitionRefused (see below)."""
    reason = not_scalable_reason(job.kind, autoscaled=job.autoscaler is not None)
    if reason is not None:
        raise TransitionRefused(reason)
    # A paused service has 0 replicas: setting them would resume it.
    field = (_KEPT, str(replicas)) if is_held(job.workload) else (_REPLICAS, replicas)
    return patch_plan(job, Action.SCALE, [field])


def patch_plan(job: LiveJob, action: Action, fields: Iterable[tuple[tuple[str, ...], Any]] = ()) -> Plan:
    """The plan that sets fields of the workload where they differ."""
    others = (Step(Action.UNCHANGED, {}, obj) for obj in job.dependents)
    return Plan(job.name, job.namespace, job.kind, (_patch_step(job.workload, action, fields), *others))


def _patch_step(target: dict[str, Any], action: Action, fields: Iterable[tuple[tuple[str, ...], Any]]) -> Step:
    values = [(path, value_at(target, path), after) for path, after in fields]
    changes = tuple(Change(path, before, after) for path, before, after in values if before != after)
    return Step(action if changes else Action.UNCHANGED, {}, target, changes)


def _patch_admission(job: LiveJob, action: Action, *, active: bool) -> Plan:
    """The plan that lets Kueue run the job or not; Kueue then sets ``suspend`` itself."""
    if job.admission is None:
        raise TransitionRefused(
            "its Kueue Workload was not found. Kueue creates one as soon as it sees the job: check that its "
            "controller is running."
        )
    kept = ABSENT if active else str(job.workload["spec"].get("parallelism", 1))
    plan = patch_plan(job, action, [(_KEPT, kept)])
    if active != job.is_inactive_in_kueue:
        return plan
    step = _patch_step(job.admission, action, [(_ACTIVE, active)])
    # Where only the first is written, the job is pending, and its reason tells the pause.
    return plan.with_steps((*plan.steps, step) if active and plan.changed else (step, *plan.steps))


def _recreate_plan(job: LiveJob) -> Plan:
    """The plan that recreates a Job and its dependents as they were last applied.

    Fields that controllers and admission added belong to the former run.
    """
    as_applied = job.restarted_from or [applied_by(FIELD_MANAGER, obj) for obj in job.objects]
    plan = recreated(plan_job(job.name, job.namespace, job.kind, as_applied, job.objects))
    uid = Change(("metadata", "uid"), job.workload["metadata"]["uid"], "a new one")
    return plan.with_steps([replace(plan.steps[0], action=Action.RESTART, changes=(uid,)), *plan.steps[1:]])


def _default_replicas(job: LiveJob) -> int:
    """The replicas where no number was kept: an autoscaler starts from its minimum."""
    return int((job.autoscaler.get("spec") or {}).get("minReplicas", 1)) if job.autoscaler else 1


def held_gpus(pods: Iterable[Mapping[str, Any]]) -> int:
    """GPUs held by pods: none by a pod that has no node yet or has finished."""
    return sum(whole_devices(devices_of(pod)) for pod in pods if pod["spec"].get("nodeName") and is_unfinished(pod))
