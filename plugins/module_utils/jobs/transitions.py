# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""From jobs that live to paused, resumed, restarted and scaled ones. Pure: no manifest, no request.

What a transition does depends on the workload:

=================  =========================  ===========================  ==============================
                   pause, resume              restart                      scale
=================  =========================  ===========================  ==============================
training           Job ``suspend``            deleted and made anew        never: its pods are its nodes
training in Kueue  Workload ``spec.active``   deleted and made anew        never
notebook           ``replicas`` 0, 1          annotation of the template   never: it is one pod
other services     ``replicas`` 0, as before  annotation of the template   ``replicas``, unless autoscaled
=================  =========================  ===========================  ==============================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..cluster.pause import is_admitted_by_kueue, is_held, is_paused, kept_replicas
from ..cluster.pod_requests import pod_requests
from ..cluster.status import status_of
from ..engine.fields import ABSENT, Change, applied_by, value_at
from ..engine.plan import Action, Plan, Step, plan_job, recreated
from ..labels import FIELD_MANAGER, GPU, JOB_TYPE, PAUSED_REPLICAS, RESTARTED_AT

_SUSPEND = ("spec", "suspend")
_ACTIVE = ("spec", "active")
_REPLICAS = ("spec", "replicas")
_KEPT = ("metadata", "annotations", PAUSED_REPLICAS)
_RESTARTED = ("spec", "template", "metadata", "annotations", RESTARTED_AT)


class TransitionRefused(Exception):
    """The job cannot go there; the text says why and what to do instead."""


@dataclass(frozen=True)
class LiveJob:
    """A job as it lives. ``around`` are its other objects, ``admission`` is Kueue's Workload for it."""

    namespace: str
    name: str
    workload: dict[str, Any]
    around: tuple[dict[str, Any], ...] = ()
    pods: tuple[dict[str, Any], ...] = ()
    admission: dict[str, Any] | None = None

    @property
    def objects(self) -> tuple[dict[str, Any], ...]:
        return (self.workload, *self.around)

    @property
    def kind(self) -> str:
        return str(self.workload["metadata"]["labels"][JOB_TYPE])

    @property
    def has_ended(self) -> bool:
        return status_of(self.workload) in ("Succeeded", "Failed")

    @property
    def autoscaler(self) -> dict[str, Any] | None:
        return next((obj for obj in self.around if obj["kind"] == "HorizontalPodAutoscaler"), None)


def pause(job: LiveJob) -> Plan:
    """Let the job have no pods. What has ended has none, and stays as it is."""
    if job.has_ended:
        return _changed(job, Action.PAUSE, ())
    if is_admitted_by_kueue(job.workload):
        plan = _admitted(job, Action.PAUSE, active=False)
    elif job.workload["kind"] == "Job":
        plan = _changed(job, Action.PAUSE, [(_SUSPEND, True)])
    elif is_held(job.workload):
        plan = _changed(job, Action.PAUSE, ())
    else:
        kept = job.workload["spec"].get("replicas") or _fewest(job)
        plan = _changed(job, Action.PAUSE, [(_KEPT, str(kept)), (_REPLICAS, 0)])
    return replace(plan, held_gpus=_held_gpus(job.pods))


def resume(job: LiveJob) -> Plan:
    """Give the job its pods back. What is not paused stays as it is."""
    if job.has_ended:
        return _changed(job, Action.RESUME, ())
    if is_admitted_by_kueue(job.workload):
        return _admitted(job, Action.RESUME, active=True)
    if not is_paused(job.workload):
        return _changed(job, Action.RESUME, ())
    if job.workload["kind"] == "Job":
        return _changed(job, Action.RESUME, [(_SUSPEND, False)])
    # A kept 0 is of no use: what has no copies counts as paused, and the next resumption would give it some.
    copies = kept_replicas(job.workload) or _fewest(job)
    return _changed(job, Action.RESUME, [(_KEPT, ABSENT), (_REPLICAS, copies)])


def restart(job: LiveJob, now: str) -> Plan:
    """Let new pods take the place of the job's; ``now`` is the time of it, in RFC 3339.

    Raises Impossible for what is paused.
    """
    if is_paused(job.workload) or (job.admission is not None and _is_inactive(job.admission)):
        raise TransitionRefused("it is paused, and restarting would not let it run. Resume it with state=resumed.")
    if job.workload["kind"] == "Job":
        return _recreation(job)
    plan = _changed(job, Action.RESTART, [(_RESTARTED, now)])
    if job.workload["spec"].get("updateStrategy", {}).get("type") != "OnDelete":
        return plan
    return plan.with_steps((*plan.steps, *(Step(Action.DELETE, {}, pod) for pod in job.pods)))


def scale(job: LiveJob, replicas: int) -> Plan:
    """Let the job have so many copies; a paused one when it is resumed. Raises Impossible for what has no copies."""
    why_not = why_not_scalable(job.kind, autoscaled=job.autoscaler is not None)
    if why_not is not None:
        raise TransitionRefused(why_not)
    if is_held(job.workload):
        return _changed(job, Action.SCALE, [(_KEPT, str(replicas))])
    return _changed(job, Action.SCALE, [(_REPLICAS, replicas)])


def why_not_scalable(kind: str, *, autoscaled: bool) -> str | None:
    """Why the number of copies of a job is not a matter of choice, and what to do instead; None where it is."""
    if kind == "training":
        return "a training has no replicas, its pods are its nodes. Change resources.node_count in its manifest."
    if kind == "notebook":
        return "a notebook is always one pod. state=paused stops it, and state=resumed starts it again."
    if autoscaled:
        return (
            "its autoscaler decides about its replicas. Change autoscaling.min_replicas and autoscaling.max_replicas "
            "in its manifest."
        )
    return None


def _is_inactive(admission: Mapping[str, Any]) -> bool:
    """Whether Kueue's Workload is told not to run; it is active when nothing is said."""
    return admission["spec"].get("active") is False


def _changed(job: LiveJob, action: Action, wanted: Iterable[tuple[tuple[str, ...], Any]]) -> Plan:
    """The plan that sets fields of the workload, as far as they are not so already."""
    return _plan_of(job, _setting(job.workload, action, wanted), *(_keeping(obj) for obj in job.around))


def _admitted(job: LiveJob, action: Action, *, active: bool) -> Plan:
    """The plan that tells Kueue whether the job may run; Kueue then sets ``suspend`` itself."""
    if job.admission is None:
        raise TransitionRefused(
            "it is in a Kueue queue, and there is no Workload of Kueue for it. Kueue makes one as soon as it sees the "
            "job; does its controller run?"
        )
    if active != _is_inactive(job.admission):
        return _changed(job, action, ())
    return _plan_of(job, _setting(job.admission, action, [(_ACTIVE, active)]), *(_keeping(obj) for obj in job.objects))


def _recreation(job: LiveJob) -> Plan:
    """The plan that deletes a Job and makes it again, with what goes with it, as we applied it the last time.

    What controllers and admission have added since belongs to the former run.
    """
    as_applied = [applied_by(FIELD_MANAGER, obj) for obj in job.objects]
    first, *around = recreated(plan_job(job.name, job.namespace, job.kind, as_applied, job.objects)).steps
    uid = Change(("metadata", "uid"), job.workload["metadata"]["uid"], "another one")
    return _plan_of(job, replace(first, action=Action.RESTART, changes=(uid,)), *around)


def _plan_of(job: LiveJob, *steps: Step) -> Plan:
    return Plan(job.name, job.namespace, job.kind, steps)


def _setting(live: dict[str, Any], action: Action, wanted: Iterable[tuple[tuple[str, ...], Any]]) -> Step:
    values = [(path, value_at(live, path), after) for path, after in wanted]
    changes = tuple(Change(path, before, after) for path, before, after in values if before != after)
    return Step(action if changes else Action.UNCHANGED, {}, live, changes)


def _keeping(live: dict[str, Any]) -> Step:
    return Step(Action.UNCHANGED, {}, live)


def _fewest(job: LiveJob) -> int:
    """The number of copies when nobody has kept another one: an autoscaler goes on from its smallest."""
    return int(job.autoscaler["spec"].get("minReplicas", 1)) if job.autoscaler else 1


def _held_gpus(pods: Iterable[Mapping[str, Any]]) -> int:
    """GPUs that pods hold: a pod without a node holds none yet, a finished one none any more."""
    return sum(
        pod_requests(pod, (GPU,))[GPU]
        for pod in pods
        if pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    )
