# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind the module gpuctl_job: load, validate, build, read live, plan, prove, execute, wait, report."""

from __future__ import annotations

from typing import Any

from ..kube.concurrency import concurrency_argument_spec
from ..task import ModuleSpec, Task
from .ledger import RERUN
from .select import JOB_KINDS, select_jobs

STATES = ("present", "absent", "paused", "resumed", "restarted")
WAIT_STATES = ("scheduled", "ready", "complete")


def job_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of gpuctl_job beside those of the connection."""
    return {
        "state": {"type": "str", "choices": list(STATES), "default": "present"},
        "src": {"type": "list", "elements": "path"},
        "definition": {"type": "raw"},
        "allow_empty": {"type": "bool", "default": False},
        "name": {"type": "str"},
        "kind": {"type": "str", "choices": list(JOB_KINDS)},
        "namespace": {"type": "str"},
        "replicas": {"type": "int"},
        "rerun": {"type": "str", "choices": list(RERUN), "default": "on_change"},
        "on_immutable": {"type": "str", "choices": ["recreate", "fail"], "default": "recreate"},
        "force": {"type": "bool", "default": False},
        "force_conflicts": {"type": "bool", "default": False},
        "wait": {"type": "bool", "default": False},
        "wait_for": {"type": "str", "choices": list(WAIT_STATES), "default": "ready"},
        "wait_timeout": {"type": "int", "default": 600},
        "wait_for_nodes": {"type": "bool", "default": False},
        "continue_on_error": {"type": "bool", "default": False},
        **concurrency_argument_spec(),
    }


JOB_CONSTRAINTS: dict[str, Any] = {
    "mutually_exclusive": [("src", "definition", "name")],
    "required_one_of": [("src", "definition", "name")],
    "required_if": [("state", "present", ("src", "definition", "replicas"), True)],
    "required_by": {"kind": "name"},
}


def run(task: Task) -> dict[str, Any]:
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
    if task.params["state"] == "absent":
        plans = plans_for_absent(task, jobs)
    elif task.params["state"] == "present" and not task.params["name"]:
        plans = plans_for_present(task, jobs, ledger)
    else:
        from .transition_plans import plans_for_transition

        plans = plans_for_transition(task, jobs)
    return apply_jobs(task, plans, ledger)


MODULE = ModuleSpec(job_argument_spec(), run, JOB_CONSTRAINTS)
