# SPDX-License-Identifier: BSD-2-Clause
"""The record of runs, and its only writer in a task of jobs: the ledger, which decides what runs, and the history.

What a task is about to end is recorded before it ends. What has begun is recorded afterwards, in the history first: a
training that the ledger knows is in the history, so unchanged ones cost it no request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ...accelerators.catalog import catalog
from ...cluster.nodes import devices_of
from ...engine.apply import ApplyResult
from ...engine.plan import WORKLOAD_KINDS, Action, Plan, Step
from ...task import Task
from ..advisers import without_failing
from .ledger_store import LedgerStore

if TYPE_CHECKING:
    from ..job_options import JobOptions
    from ..select import SelectedJob
    from .history_writer import HistoryWriter, Logs

_STOPS_PODS = (Action.DELETE, Action.RECREATE, Action.RESTART, Action.PAUSE)


class RunRecord:
    """The runs of one task, in all namespaces. What cannot be recorded is a warning: the jobs matter more."""

    def __init__(self, task: Task[JobOptions], jobs: Sequence[SelectedJob]) -> None:
        self._task, self._jobs = task, jobs
        self.ledger = LedgerStore(task)
        self._is_announced = False

    def before(self, plans: Sequence[Plan]) -> None:
        """Record the ends of runs, and what their pods have held, before the plans end them."""
        stopping = [plan for plan in plans if _stops_pods(plan)]
        if stopping and not self._task.check_mode:
            self._is_announced = True  # What then is not done has to be corrected.
            self._write_history(lambda history: history.before(stopping))

    def after(self, results: Sequence[ApplyResult], *, removed: bool, logs: Logs | None = None) -> None:
        """Record what was applied. ``removed``: the jobs were deleted, and may run again. ``logs`` are the last lines
        of what has failed by the end of a wait, None before it."""

        def write_history() -> None:
            if self._task.check_mode:
                return
            begun, ended = self.ledger.new_runs, self.ledger.new_ends
            if begun or ended or self._is_announced or any(result.plan.changed for result in results):
                self._write_history(lambda history: history.after(results, begun, ended, logs))

        if removed:
            write_history()
            self.ledger.remove(results)
        else:
            self.ledger.record(results, write_history)

    def _write_history(self, write: Callable[[HistoryWriter], None]) -> None:
        without_failing(
            self._task, "the history of the jobs is not up to date", lambda: write(self._history), otherwise=None
        )

    @cached_property
    def _history(self) -> HistoryWriter:
        """Imported once there is something to write: not for unchanged jobs."""
        from .history_writer import HistoryWriter

        return HistoryWriter(self._task, {job.id: job.model for job in self._jobs if job.model})


def _stops_pods(plan: Plan) -> bool:
    """Whether pods end: those of what is stopped, or those with accelerators of a service that changes in place."""
    workloads = [step for step in plan.steps if step.live and step.kind in WORKLOAD_KINDS]
    return any(plan.action in _STOPS_PODS or _replaces_pods(step) for step in workloads)


def _replaces_pods(step: Step) -> bool:
    replicas = [(change.before, change.after) for change in step.changes if change.path == ("spec", "replicas")]
    fewer = any(isinstance(one, int) and isinstance(other, int) and other < one for one, other in replicas)
    if not (fewer or step.changes_pods):
        return False
    requested = devices_of(step.live["spec"]["template"])
    return any(amount and catalog().row(resource) for resource, amount in requested.items())
