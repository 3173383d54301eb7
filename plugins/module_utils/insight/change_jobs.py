# SPDX-License-Identifier: BSD-2-Clause
"""Change jobs that a task has found itself, as gpuctl_job would: one that cannot be changed keeps no other from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..cluster.read_jobs import JobId
from ..engine.plan import Action
from ..jobs.job import State
from ..jobs.job import run as run_jobs
from ..jobs.job_options import JobOptions
from ..jobs.select import SelectedJob
from ..labels import JOB_TYPE
from ..task import Task, TaskFailed

_NOT_ATTEMPTED = {"action": "unchanged", "error": "not attempted"}


@dataclass
class ChangingJob:
    """A job that a task has found; ``error`` is why it could not be changed."""

    workload: dict[str, Any]
    error: str | None = field(default=None, kw_only=True)

    @property
    def id(self) -> JobId:
        return self.workload["metadata"]["namespace"], self.workload["metadata"]["name"]

    @property
    def kind(self) -> str:
        return job_kind(self.workload)


def job_kind(workload: Mapping[str, Any]) -> str:
    """By its label; "" without it."""
    return str((workload["metadata"].get("labels") or {}).get(JOB_TYPE, ""))


J = TypeVar("J", bound=ChangingJob)


def change_jobs(task: Task[Any], state: State, jobs: Sequence[J]) -> tuple[list[J], list[Any]]:
    """Sets the ``error`` of each. The jobs that stay as they are, since others have changed them meanwhile, and the
    entries of the diff."""
    if not jobs:
        return [], []
    # The jobs are those of others. What decides is how they are used, or for how long, not who submitted them.
    allowed = task.options.allowed_namespaces
    options = JobOptions(state="paused", continue_on_error=True, takeover=True, allowed_namespaces=allowed)
    selected = [SelectedJob(*job.id, job.kind) for job in jobs]
    try:
        done = run_jobs(task.with_options(options), state, selected)
    except TaskFailed as problem:
        done = problem.result
    rows = {(row["namespace"], row["name"]): row for row in done.get("results", [])}
    unchanged = []
    for job in jobs:
        row = rows.get(job.id, _NOT_ATTEMPTED)
        job.error = row["error"]
        if job.error is None and row["action"] == str(Action.UNCHANGED):
            unchanged.append(job)
    return unchanged, done.get("diff", [])
