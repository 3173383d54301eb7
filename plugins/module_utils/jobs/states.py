# SPDX-License-Identifier: BSD-2-Clause
"""The states that gpuctl_job brings jobs to: one row each, with everything that distinguishes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..cluster.read import read_lost_nodes
from ..engine.apply import ApplyResult
from ..engine.plan import Plan
from ..kube.times import now_as_text
from ..task import Task
from ..wait.goals import COMPLETE, DELETED, PAUSED, READY, SCHEDULED, Goal, after_restart
from .job_plans import Transition, plan_absent, plan_present, plan_transition
from .ledger_store import LedgerStore
from .select import SelectedJob
from .transitions import keep, pause, restart, resume, scale

if TYPE_CHECKING:
    from .job import JobOptions

Planner = Callable[[Task["JobOptions"], list[SelectedJob], LedgerStore], list[Plan]]
GOALS = {goal.word: goal for goal in (SCHEDULED, READY, COMPLETE)}  # by the values of the option wait_for


@dataclass(frozen=True)
class State:
    """``plan`` makes a plan for each job; it may read the cluster, but writes nothing.

    ``goal`` turns the goal that ``wait_for`` names into the one to wait for. ``builds_objects``: manifests count as a
    whole, not only for the names of their jobs. ``update_ledger`` records what was applied.
    """

    plan: Planner
    goal: Callable[[Goal], Goal] = lambda wait_for: wait_for
    builds_objects: bool = False
    update_ledger: Callable[[LedgerStore, list[ApplyResult]], None] = LedgerStore.record


def _transition(plan_job: Transition, *, reads_pods: bool = False, skips_ended: bool = False) -> Planner:
    """A planner for live jobs.

    ``reads_pods``: the plan needs the pods of the jobs. ``skips_ended``: jobs that have ended stay as they are, with a
    warning.
    """
    return lambda task, jobs, ledger: plan_transition(
        task, jobs, plan_job, reads_pods=reads_pods, skips_ended=skips_ended
    )


def _plan_restart(task: Task[JobOptions], jobs: list[SelectedJob], ledger: LedgerStore) -> list[Plan]:
    lost_nodes = read_lost_nodes(task.client()) if task.options.force else None
    return plan_transition(
        task,
        jobs,
        lambda job, options: restart(job, now_as_text(), lost_nodes),
        reads_pods=True,
        skips_ended=False,
        find_copies=ledger.copies,
    )


STATES: Mapping[str, State] = {
    "present": State(plan_present, builds_objects=True),
    "kept": State(_transition(lambda job, options: keep(job))),
    "scaled": State(_transition(lambda job, options: scale(job, options.replicas or 0))),
    "absent": State(plan_absent, goal=lambda wait_for: DELETED, update_ledger=LedgerStore.remove),
    "paused": State(
        _transition(lambda job, options: pause(job), reads_pods=True, skips_ended=True), goal=lambda wait_for: PAUSED
    ),
    "resumed": State(_transition(lambda job, options: resume(job), skips_ended=True)),
    "restarted": State(_plan_restart, goal=after_restart),
}


def state_of(options: JobOptions) -> State:
    """The row for the options: state=present with a name instead of a manifest scales, or only waits."""
    if options.state == "present" and options.name:
        return STATES["kept" if options.replicas is None else "scaled"]
    return STATES[options.state]
