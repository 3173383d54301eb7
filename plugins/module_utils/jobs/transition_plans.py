# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The same as ``planned`` for jobs that are to be paused, resumed, restarted or scaled: from what lives to plans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..cluster.live_jobs import JobId, read_jobs, read_pods
from ..engine.dry_run import block_plans, unmanaged_workloads
from ..engine.pause import is_admitted_by_kueue
from ..engine.plan import WORKLOAD_KINDS, Plan, active_objects
from ..kube.times import now_as_text
from ..manifest.secrets import live_secret_values
from ..task import Task
from .job_plans import of_another_kind, validated
from .kueue import read_admissions
from .select import SelectedJob
from .transitions import LiveJob, TransitionRefused, pause, restart, resume, scale

if TYPE_CHECKING:
    from .job import JobOptions


def plans_for_transition(task: Task[JobOptions], jobs: list[SelectedJob]) -> list[Plan]:
    """What pausing, resuming, restarting or scaling needs.

    Raises Refused with all that stands in the way (or blocks those plans, told to continue on errors), and KubeError
    for jobs in a Kueue queue where there is no Kueue.
    """
    living = _living(task, jobs)
    task.mask(value for found in living.values() for obj in found.objects for value in live_secret_values(obj))
    plans: list[Plan] = []
    blockers: list[tuple[Plan, str]] = []
    for job in jobs:
        plan, found = Plan(job.name, job.namespace, job.kind), living.get(job.id)
        if found is not None:
            try:
                plan = _transition(task, job, found)
            except TransitionRefused as problem:
                blockers.append((plan, str(problem)))
        plans.append(plan)
    missing = [plan for job, plan in zip(jobs, plans, strict=True) if job.id not in living]
    foreign = unmanaged_workloads(missing, task.client())
    taken = {(plan.namespace, plan.name) for plan, _text in foreign}
    nowhere = [plan for plan in missing if (plan.namespace, plan.name) not in taken]
    plans = block_plans(
        plans,
        [*blockers, *foreign, *((plan, _NOWHERE) for plan in nowhere)],
        task.options.continue_on_error,
    )
    return validated(task, plans)


_NOWHERE = "there is no such job. gpuctl_job_info shows which there are, and state=present with a manifest makes one."


def _living(task: Task[JobOptions], jobs: Iterable[SelectedJob]) -> dict[JobId, LiveJob]:
    """Those of the jobs that are there and not about to go."""
    client = task.client()
    objects = {job: active_objects(found) for job, found in read_jobs(client, (job.id for job in jobs)).items()}
    living = {
        job: LiveJob(*job, workload=found[0], around=tuple(found[1:]))
        for job, found in objects.items()
        if found and found[0]["kind"] in WORKLOAD_KINDS
    }
    queued = {
        job: one.workload for job, one in living.items() if is_admitted_by_kueue(one.workload) and not one.has_ended
    }
    admissions = read_admissions(client, queued)
    pods = read_pods(client, living) if task.options.state in ("paused", "restarted") else {}
    return {
        job: replace(one, pods=tuple(pods.get(job, ())), admission=admissions.get(job)) for job, one in living.items()
    }


def _transition(task: Task[JobOptions], wanted: SelectedJob, job: LiveJob) -> Plan:
    if wanted.kind not in (None, job.kind):
        raise TransitionRefused(of_another_kind(job.kind))
    state, replicas = task.options.state, task.options.replicas
    if state == "restarted":
        return restart(job, now_as_text())
    if state == "present":
        return scale(job, replicas or 0)
    if job.has_ended:
        task.warn(f"{job.kind} {job.name} in namespace {job.namespace} has ended, so it can not be {state}")
    return pause(job) if state == "paused" else resume(job)
