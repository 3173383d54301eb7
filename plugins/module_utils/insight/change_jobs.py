# SPDX-License-Identifier: BSD-2-Clause
"""Change jobs that a task has found itself, as gpuctl_job would: one that cannot be changed keeps no other from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..cluster.read_jobs import JobId
from ..jobs.job import State
from ..jobs.job import run as run_jobs
from ..jobs.job_options import JobOptions
from ..jobs.select import SelectedJob
from ..task import Task, TaskFailed

_NOT_ATTEMPTED = {"action": "unchanged", "error": "not attempted"}


def change_jobs(
    task: Task[Any], state: State, jobs: Iterable[tuple[JobId, str]]
) -> tuple[dict[JobId, dict[str, Any]], list[Any]]:
    """The row of each job, which has its ``error``, and the entries of the diff. ``jobs`` are ids with their kinds."""
    # The jobs are those of others. What decides is how they are used, or for how long, not who submitted them.
    allowed = task.options.allowed_namespaces
    options = JobOptions(state="paused", continue_on_error=True, takeover=True, allowed_namespaces=allowed)
    selected = [SelectedJob(*job_id, kind) for job_id, kind in jobs]
    try:
        done = run_jobs(task.with_options(options), state, selected)
    except TaskFailed as problem:
        done = problem.result
    rows = {(row["namespace"], row["name"]): row for row in done.get("results", [])}
    return {
        (job.namespace, job.name): rows.get((job.namespace, job.name), _NOT_ATTEMPTED) for job in selected
    }, done.get("diff", [])
