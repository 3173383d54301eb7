# SPDX-License-Identifier: BSD-2-Clause
"""Whether the jobs that plans start would run, for gpuctl_job and for plans of a directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...cluster.declared import read_declared
from ...cluster.read_jobs import JobId
from ...cluster.status import pods_wanted
from ...engine.dry_run import Blocker
from ...engine.plan import WORKLOAD_KINDS, Action, Plan
from ...engine.planning import adds_replicas, starts_pods
from ...jobs.advisers import Advised, Adviser, Fits
from ...jobs.select import SelectedJob
from ...task import Task
from .fit_rows import preempts_in_vain
from .job_fit import WithDelays, judge_jobs

if TYPE_CHECKING:
    from ...jobs.job_options import JobOptions


class FitAdviser(Adviser):
    """Whether the jobs would run, from before they are applied: afterwards, what they have preempted is gone. Without
    ``preempt``, those that preempt others in vain are blocked."""

    unknown = "whether the jobs would run is not known"

    def __init__(self, advised: Advised, with_delays: WithDelays | None = None) -> None:
        self._advised = advised
        self._with_delays = with_delays
        self._fits: dict[JobId, dict[str, Any]] = {}

    def before(self, plans: Sequence[Plan]) -> list[Blocker]:
        self._fits |= self._fits_of_plans(plans)
        if self._advised.task.options.preempt:
            return []
        fits = ((plan, self._fits.get((plan.namespace, plan.name))) for plan in plans)
        return [(plan, _in_vain_problem(fit)) for plan, fit in fits if fit and preempts_in_vain(fit)]

    def fits(self) -> Fits:
        return self._fits

    def _fits_of_plans(self, plans: Sequence[Plan]) -> dict[JobId, dict[str, Any]]:
        advised = self._advised
        return fits_of(advised.task, advised.jobs, plans, self._with_delays) if advised.builds_objects else {}


def _in_vain_problem(fit: Mapping[str, Any]) -> str:
    return f"{fit['reason']} Use O(preempt=true) to submit it all the same."


def fits_of(
    task: Task[JobOptions],
    jobs: Sequence[SelectedJob],
    plans: Iterable[Plan],
    with_delays: WithDelays | None = None,
) -> dict[JobId, dict[str, Any]]:
    """Whether the jobs that would start pods would run, what they would wait for, and which jobs they would preempt."""
    models = {job.id: job for job in jobs}
    starting, rolling, growing, left = [], set(), set(), {}
    for plan in plans:
        objects = tuple(step.desired for step in plan.steps if step.desired)
        if (starts_pods(plan) or adds_replicas(plan)) and objects:
            needed = next((step.desired for step in plan.prerequisites if step.kind == "PriorityClass"), None)
            starting.append(replace(models[plan.namespace, plan.name], objects=objects, priority_class=needed))
            if _rolls_pods(plan):
                rolling.add((plan.namespace, plan.name))
            elif not starts_pods(plan):
                growing.add((plan.namespace, plan.name))
        elif (number := _pods_kept(plan)) is not None:
            left[plan.namespace, plan.name] = number
    if not starting:
        return {}
    declared = read_declared(task.client(), task.warn)
    if task.options.wait_for_nodes:  # What is added to other pools is not known.
        starting = [job for job in starting if job.pool in declared.growing]
    rows = judge_jobs(task.client(), starting, declared, rolling, growing, left, with_delays)
    return {(row["namespace"], row["name"]): row for row in rows}


def _rolls_pods(plan: Plan) -> bool:
    """Whether a rolling update replaces the pods: new ones come while old ones still end, as in no StatefulSet."""
    step = plan.steps[0]
    updates = starts_pods(plan) and step.kind == "Deployment" and step.action is Action.UPDATE
    return updates and pods_wanted(step.live) > 0


def _pods_kept(plan: Plan) -> int | None:
    """How many pods a plan leaves of those that run; None if it ends none for good."""
    if not plan.steps or plan.steps[0].kind not in WORKLOAD_KINDS:
        return None
    workload = plan.steps[0]
    if workload.action is Action.DELETE:
        return 0
    if workload.action is not Action.UPDATE or not workload.desired:
        return None
    before, spec = pods_wanted(workload.live), workload.desired["spec"]
    number = 0 if spec.get("suspend") else spec.get("replicas", before)
    return int(number) if number < before else None
