# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""From the jobs that a task asks for and what is live to plans: what would be written, not yet written."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ..cluster.live_jobs import existing_priority_classes, read_jobs
from ..engine.dry_run import block_plans, unmanaged_workloads, validate_by_dry_run
from ..engine.plan import Plan, plan_deletion, plan_job, plan_priority_class
from ..labels import JOB_TYPE
from ..manifest.secrets import live_secret_values
from ..task import Task
from .ledger_store import LedgerStore
from .rerun import plan_rerun
from .select import SelectedJob

if TYPE_CHECKING:
    from .job import JobOptions


def plans_for_present(task: Task[JobOptions], jobs: list[SelectedJob], ledger: LedgerStore) -> list[Plan]:
    client = task.client()
    live = read_jobs(client, (job.id for job in jobs))
    task.mask(value for objects in live.values() for obj in objects for value in live_secret_values(obj))
    classes = existing_priority_classes(client)
    now = datetime.now(timezone.utc)
    plans = []
    for job in jobs:
        plan = plan_job(job.name, job.namespace, job.kind or "", job.objects, live[job.id])
        if job.manifest is not None:
            plan = plan_rerun(plan, job.manifest, live[job.id], ledger.entry(*job.id), task.options.rerun, now)
        needed = None if plan.ended else job.priority_class
        if classes is not None and needed and needed["metadata"]["name"] not in classes:
            plan = replace(plan, prerequisites=(plan_priority_class(needed),))
        plans.append(plan)
    plans = validated(task, plans)
    for job, plan in zip(jobs, plans, strict=True):
        if plan.changed:  # A warning at every run of what runs already would only be noise.
            for warning in job.warnings:
                task.warn(warning)
    return plans


def validated(task: Task[JobOptions], plans: list[Plan]) -> list[Plan]:
    return validate_by_dry_run(
        plans,
        task.client(),
        on_immutable=task.options.on_immutable,
        check_mode=task.check_mode,
        keep_going=task.options.continue_on_error,
        warn=task.warn,
    )


def plans_for_absent(task: Task[JobOptions], jobs: list[SelectedJob]) -> list[Plan]:
    client = task.client()
    live = read_jobs(client, (job.id for job in jobs))
    plans: list[Plan] = []
    blockers: list[tuple[Plan, str]] = []
    for job in jobs:
        kinds = sorted({obj["metadata"]["labels"].get(JOB_TYPE) for obj in live[job.id]} - {None})
        plan = plan_deletion(job.name, job.namespace, job.kind or "".join(kinds) or None, live[job.id])
        if job.kind and kinds and job.kind not in kinds:
            blockers.append((plan, of_another_kind(kinds[0])))
        plans.append(plan)
    blockers += unmanaged_workloads((plan for plan in plans if not plan.steps), client)
    return block_plans(plans, blockers, task.options.continue_on_error)


def of_another_kind(kind: str) -> str:
    return f"the job of that name is of kind {kind}. Correct the kind, or the name."
