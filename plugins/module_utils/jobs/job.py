# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job: load and validate manifests, build objects, read what is live, plan, dry-run, apply, wait, report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..cluster.lookup import sweep_text
from ..cluster.read import JobId
from ..namespaces import NamespaceOptions
from ..options import ConcurrencyOptions, option
from ..task import ModuleSpec, Task, TaskFailed
from .apply_jobs import apply_jobs
from .job_plans import NamedByPod, NamedBySweep
from .ledger import RERUN
from .ledger_store import LedgerStore
from .select import JOB_KINDS, select_jobs
from .states import state_of


@dataclass(frozen=True, kw_only=True)
class JobOptions(ConcurrencyOptions, NamespaceOptions):
    state: str = option("str", choices=["present", "absent", "paused", "resumed", "restarted"], default="present")
    src: list[str] | None = option("list", elements="path")
    definition: Any = option("raw")
    allow_empty: bool = option("bool", default=False)
    policy: str | None = option("path")
    name: str | None = option("str")
    kind: str | None = option("str", choices=list(JOB_KINDS))
    namespace: str | None = option("str")
    confirm: str | None = option("str")
    missing_ok: bool = option("bool", default=True)
    replicas: int | None = option("int")
    rerun: str = option("str", choices=list(RERUN), default="on_change")
    upgrade: bool = option("bool", default=False)
    on_immutable: str = option("str", choices=["recreate", "fail"], default="recreate")
    recreate: bool = option("bool", default=True)
    strict: bool = option("bool", default=False)
    force: bool = option("bool", default=False)
    takeover: bool = option("bool", default=False)
    force_conflicts: bool = option("bool", default=False)
    wait: bool = option("bool", default=False)
    wait_for: str = option("str", choices=["scheduled", "ready", "complete"], default="ready")
    wait_timeout: int = option("int", default=600)
    wait_for_nodes: bool = option("bool", default=False)
    continue_on_error: bool = option("bool", default=False)


JOB_CONSTRAINTS: dict[str, Any] = {
    "mutually_exclusive": [("src", "definition", "name")],
    "required_one_of": [("src", "definition", "name")],
    "required_by": {"kind": "name"},
}


# What stops the work of a sweep; it is asked for, because its name looks like that of a job.
_STOPS = {"absent": "delete", "paused": "pause", "restarted": "restart"}


def run(task: Task[JobOptions]) -> dict[str, Any]:
    """Bring the jobs of a task to the desired state.

    Returns ``changed``, ``results``, ``diff`` and ``msg``. Raises TaskFailed with the result up to then.
    """
    state = state_of(task.options)
    jobs = select_jobs(task, builds_objects=state.builds_objects)
    if not jobs:
        return {"changed": False, "results": [], "diff": [], "msg": "0 jobs: nothing to do"}
    try:
        return apply_jobs(task, state, jobs, LedgerStore(task))
    except NamedByPod as found:
        namespace, name = found.job
        task.warn(f"{jobs[0].name} is a pod of job {name} in namespace {namespace}. The task is for the whole job.")
        return apply_jobs(task, state, [replace(jobs[0], name=name)], LedgerStore(task))
    except NamedBySweep as found:
        _require_confirmation(task, found.jobs)
        return apply_jobs(
            task, state, [replace(jobs[0], name=name) for _namespace, name in found.jobs], LedgerStore(task)
        )


def _require_confirmation(task: Task[JobOptions], jobs: list[JobId]) -> None:
    """Raises TaskFailed if the work of a whole sweep would be stopped, and nobody has said so."""
    options, name = task.options, str(task.options.name)
    if options.state in _STOPS and options.confirm != name and not task.check_mode:
        raise TaskFailed(
            f"{sweep_text(name, jobs)} Set O(confirm={name}) to {_STOPS[options.state]} all of them. "
            f"Nothing was changed."
        )


MODULE = ModuleSpec(JobOptions, run, JOB_CONSTRAINTS)
