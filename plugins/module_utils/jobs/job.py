# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind the module gpuctl_job: load, validate, build, read live, plan, prove, execute, wait, report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..options import ConcurrencyOptions, option
from ..task import ModuleSpec, Task
from .ledger import RERUN
from .select import JOB_KINDS, select_jobs

STATES = ("present", "absent", "paused", "resumed", "restarted")
WAIT_STATES = ("scheduled", "ready", "complete")


@dataclass(frozen=True, kw_only=True)
class JobOptions(ConcurrencyOptions):
    state: str = option("str", choices=list(STATES), default="present")
    src: list[str] | None = option("list", elements="path")
    definition: Any = option("raw")
    allow_empty: bool = option("bool", default=False)
    name: str | None = option("str")
    kind: str | None = option("str", choices=list(JOB_KINDS))
    namespace: str | None = option("str")
    replicas: int | None = option("int")
    rerun: str = option("str", choices=list(RERUN), default="on_change")
    on_immutable: str = option("str", choices=["recreate", "fail"], default="recreate")
    force: bool = option("bool", default=False)
    force_conflicts: bool = option("bool", default=False)
    wait: bool = option("bool", default=False)
    wait_for: str = option("str", choices=list(WAIT_STATES), default="ready")
    wait_timeout: int = option("int", default=600)
    wait_for_nodes: bool = option("bool", default=False)
    continue_on_error: bool = option("bool", default=False)


JOB_CONSTRAINTS: dict[str, Any] = {
    "mutually_exclusive": [("src", "definition", "name")],
    "required_one_of": [("src", "definition", "name")],
    "required_if": [("state", "present", ("src", "definition", "replicas"), True)],
    "required_by": {"kind": "name"},
}


def run(task: Task[JobOptions]) -> dict[str, Any]:
    """Bring the jobs of a task to the state that it asks for.

    Returns ``changed``, ``results``, ``diff`` and ``msg``. Raises TaskFailed with what was done until then.
    """
    # Imported here: a task with wrong arguments or manifests shall not pay for what talks to a cluster, and the module
    # process starts anew each time.
    jobs = select_jobs(task)
    if not jobs:
        return {"changed": False, "results": [], "diff": [], "msg": "0 jobs: nothing to do"}
    from .apply_jobs import apply_jobs
    from .job_plans import plans_for_absent, plans_for_present
    from .ledger_store import LedgerStore

    ledger = LedgerStore(task)
    if task.options.state == "absent":
        plans = plans_for_absent(task, jobs)
    elif task.options.state == "present" and not task.options.name:
        plans = plans_for_present(task, jobs, ledger)
    else:
        from .transition_plans import plans_for_transition

        plans = plans_for_transition(task, jobs)
    return apply_jobs(task, plans, ledger)


MODULE = ModuleSpec(JobOptions, run, JOB_CONSTRAINTS)
