# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_fit_info: whether the jobs of manifests would run now, and if not, what they wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...cluster.declared import read_declared
from ...jobs.job_options import JOB_KINDS, JobOptions
from ...jobs.job_policies import forbidden
from ...jobs.select import build_jobs, select_jobs
from ...namespaces import NamespaceOptions
from ...options import option
from ...task import ModuleSpec, Task, TaskFailed
from .delayed_jobs import with_delays
from .fit_rows import with_refusals
from .job_fit import judge_jobs
from .unjudged_admission import read_admitting, unjudged
from .verdicts import VERDICTS, fit_summary


@dataclass(frozen=True, kw_only=True)
class FitOptions(NamespaceOptions):
    src: list[str] | None = option("list", elements="path")
    definition: Any = option("raw")
    namespace: str | None = option("str")
    policy: str | None = option("path")
    fail_on: list[str] | None = option("list", elements="str", choices=list(VERDICTS), default=None)
    show: bool = option("bool", default=True)


def run(task: Task[FitOptions]) -> dict[str, Any]:
    """Only reads, and the number of requests does not depend on that of jobs. Fails for the verdicts of ``fail_on``."""
    options = task.options
    selecting = task.with_options(
        JobOptions(
            src=options.src,
            definition=options.definition,
            namespace=options.namespace,
            policy=options.policy,
            allowed_namespaces=options.allowed_namespaces,
            allow_empty=True,
            cluster_names=[],
        )
    )
    jobs = select_jobs(selecting, builds_objects=True)
    declared = read_declared(task.client(), task.warn)
    jobs = build_jobs(jobs, declared)
    refused = forbidden(task, jobs, declared)
    judged = judge_jobs(task.client(), jobs, declared, with_delays=with_delays)
    rows = [with_refusals(row, refused[row["namespace"], row["name"]]) for row in judged]
    others = unjudged(read_admitting(task.client()), [job.objects for job in jobs]) if rows else []
    result = {"changed": False, "results": rows, "not_judged": others, "msg": fit_summary(rows)}
    failing = [row for row in rows if row["verdict"] in (options.fail_on or ())]
    if failing:
        lines = [f"job {row['name']} in namespace {row['namespace']}: {row['reason']}" for row in failing]
        raise TaskFailed("\n".join([*lines, f"{result.pop('msg')}."]), **result)
    return result


MODULE = ModuleSpec(
    FitOptions,
    run,
    {"mutually_exclusive": [("src", "definition")], "required_one_of": [("src", "definition")]},
    manifests=JOB_KINDS,
    report="fit",
)
