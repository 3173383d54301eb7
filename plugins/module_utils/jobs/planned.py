# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""From the jobs that a task asks for and what is live to plans: what would be written, not yet written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timezone

from ..cluster.kueue import read_admissions
from ..cluster.live import JobId, existing_priority_classes, read_jobs, read_pods
from ..engine.pause import is_admitted_by_kueue
from ..engine.plan import WORKLOAD_KINDS, Plan, plan_absent, plan_present, plan_priority_class, staying
from ..engine.prove import blocked, foreign_workloads, prove
from ..labels import JOB_TYPE
from ..manifest.secrets import live_secret_values
from ..task import Task
from .remembered import Memory
from .requested import RequestedJob
from .rerun import as_remembered
from .transitions import Impossible, LiveJob, pause, restart, resume, scale


def plans_for_present(task: Task, jobs: list[RequestedJob], memory: Memory) -> list[Plan]:
    client = task.client()
    live = read_jobs(client, (job.id for job in jobs))
    task.hide(value for objects in live.values() for obj in objects for value in live_secret_values(obj))
    classes = existing_priority_classes(client)
    now = datetime.now(timezone.utc)
    plans = []
    for job in jobs:
        plan = plan_present(job.name, job.namespace, job.kind or "", job.objects, live[job.id])
        if job.manifest is not None:
            plan = as_remembered(plan, job.manifest, live[job.id], memory.entry(*job.id), task.params["rerun"], now)
        needed = None if plan.ended else job.priority_class
        if classes is not None and needed and needed["metadata"]["name"] not in classes:
            plan = replace(plan, prerequisites=(plan_priority_class(needed),))
        plans.append(plan)
    plans = _proved(task, plans)
    for job, plan in zip(jobs, plans, strict=True):
        if plan.changed:  # A warning at every run of what runs already would only be noise.
            for warning in job.warnings:
                task.warn(warning)
    return plans


def _proved(task: Task, plans: list[Plan]) -> list[Plan]:
    return prove(
        plans,
        task.client(),
        on_immutable=task.params["on_immutable"],
        check_mode=task.check_mode,
        keep_going=task.params["continue_on_error"],
        warn=task.warn,
    )


def plans_for_absent(task: Task, jobs: list[RequestedJob]) -> list[Plan]:
    client = task.client()
    live = read_jobs(client, (job.id for job in jobs))
    plans: list[Plan] = []
    obstacles: list[tuple[Plan, str]] = []
    for job in jobs:
        kinds = sorted({obj["metadata"]["labels"].get(JOB_TYPE) for obj in live[job.id]} - {None})
        plan = plan_absent(job.name, job.namespace, job.kind or "".join(kinds) or None, live[job.id])
        if job.kind and kinds and job.kind not in kinds:
            obstacles.append((plan, _of_another_kind(kinds[0])))
        plans.append(plan)
    obstacles += foreign_workloads((plan for plan in plans if not plan.steps), client)
    return blocked(plans, obstacles, task.params["continue_on_error"])


def plans_for_transition(task: Task, jobs: list[RequestedJob]) -> list[Plan]:
    """What pausing, resuming, restarting or scaling needs.

    Raises Refused with all that stands in the way (or blocks those plans, told to continue on errors), and KubeError
    for jobs in a Kueue queue where there is no Kueue.
    """
    living = _living(task, jobs)
    task.hide(value for found in living.values() for obj in found.objects for value in live_secret_values(obj))
    plans: list[Plan] = []
    obstacles: list[tuple[Plan, str]] = []
    for job in jobs:
        plan, found = Plan(job.name, job.namespace, job.kind), living.get(job.id)
        if found is not None:
            try:
                plan = _transition(task, job, found)
            except Impossible as problem:
                obstacles.append((plan, str(problem)))
        plans.append(plan)
    missing = [plan for job, plan in zip(jobs, plans, strict=True) if job.id not in living]
    foreign = foreign_workloads(missing, task.client())
    taken = {(plan.namespace, plan.name) for plan, _text in foreign}
    nowhere = [plan for plan in missing if (plan.namespace, plan.name) not in taken]
    plans = blocked(
        plans,
        [*obstacles, *foreign, *((plan, _NOWHERE) for plan in nowhere)],
        task.params["continue_on_error"],
    )
    return _proved(task, plans)


_NOWHERE = "there is no such job. gpuctl_job_info shows which there are, and state=present with a manifest makes one."


def _living(task: Task, jobs: Iterable[RequestedJob]) -> dict[JobId, LiveJob]:
    """Those of the jobs that are there and not about to go."""
    client = task.client()
    objects = {job: staying(found) for job, found in read_jobs(client, (job.id for job in jobs)).items()}
    living = {
        job: LiveJob(*job, workload=found[0], around=tuple(found[1:]))
        for job, found in objects.items()
        if found and found[0]["kind"] in WORKLOAD_KINDS
    }
    queued = {
        job: one.workload for job, one in living.items() if is_admitted_by_kueue(one.workload) and not one.has_ended
    }
    admissions = read_admissions(client, queued)
    pods = read_pods(client, living) if task.params["state"] in ("paused", "restarted") else {}
    return {
        job: replace(one, pods=tuple(pods.get(job, ())), admission=admissions.get(job)) for job, one in living.items()
    }


def _transition(task: Task, wanted: RequestedJob, job: LiveJob) -> Plan:
    if wanted.kind not in (None, job.kind):
        raise Impossible(_of_another_kind(job.kind))
    state, replicas = task.params["state"], task.params["replicas"]
    if state == "restarted":
        return restart(job, datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    if state == "present":
        return scale(job, replicas)
    if job.has_ended:
        task.warn(f"{job.kind} {job.name} in namespace {job.namespace} has ended, so it can not be {state}")
    return pause(job) if state == "paused" else resume(job)


def _of_another_kind(kind: str) -> str:
    return f"the job of that name is of kind {kind}. Correct the kind, or the name."
