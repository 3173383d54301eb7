# SPDX-License-Identifier: BSD-2-Clause
"""Plan jobs and apply the plans; plan again where another run has changed the same job meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ..engine.apply import ApplyResult, Executor
from ..engine.dry_run import PlansRejected
from ..engine.plan import Plan
from ..kube.errors import ConcurrentChange, KubeError
from ..task import Task
from ..wait.polling import backoff
from .ledger_store import LedgerStore
from .select import SelectedJob
from .states import State

if TYPE_CHECKING:
    from .job import JobOptions

_TRIES = 5


def plan_and_apply(
    task: Task[JobOptions],
    state: State,
    jobs: list[SelectedJob],
    ledger: LedgerStore,
    executor: Executor,
    look: Callable[[Sequence[Plan]], None] = lambda plans: None,
    sleep: Callable[[float], None] = time.sleep,
) -> list[ApplyResult | None]:
    """The result of each job, None for those not begun. Raises ConcurrentChange if nothing was written.

    ``look`` is called with plans before they are applied.

    Only the jobs in conflict are planned again, with what they are by then: another manifest of the same job that was
    applied meanwhile is replaced as a whole.
    """

    def apply(plans: list[Plan], *, keep_going: bool) -> list[ApplyResult | None]:
        look(plans)
        announcing = replace(executor, before_replacing=lambda plan: ledger.before_replacing(plan, plans))
        return announcing.apply_plans(plans, keep_going=keep_going)

    delays = _random_delays()
    plans = _plans(task, state, jobs, ledger, delays, sleep)
    results = apply(plans, keep_going=task.options.continue_on_error)
    for _try in range(_TRIES - 1):
        again = [number for number, result in enumerate(results) if result and result.conflict]
        if not again:
            break
        sleep(next(delays))
        ledger.forget()
        wanted = [jobs[number] for number in again]
        try:
            plans = state.plan(task, wanted, ledger)
        except ConcurrentChange:
            continue
        except KubeError as problem:
            for number in again:
                _add_problem(results[number], problem, jobs[number])
            break
        for number, result in zip(again, apply(plans, keep_going=True), strict=True):
            results[number] = _joined(results[number], result)
    return results


def _plans(
    task: Task[JobOptions],
    state: State,
    jobs: list[SelectedJob],
    ledger: LedgerStore,
    delays: Iterator[float],
    sleep: Callable[[float], None],
) -> list[Plan]:
    """The first plans; validating them by dry runs may find that another run is at work."""
    for _try in range(_TRIES - 1):
        with suppress(ConcurrentChange):
            return state.plan(task, jobs, ledger)
        sleep(next(delays))
        ledger.forget()
    return state.plan(task, jobs, ledger)


def _random_delays() -> Iterator[float]:
    """Seconds; random, so that two runs that keep getting in each other's way do not stay in step."""
    return (delay * random.random() for delay in backoff(0.2, 2.0))


def _add_problem(result: ApplyResult | None, problem: KubeError, job: SelectedJob) -> None:
    if result is None:
        return
    texts = problem.texts.get(job.id) if isinstance(problem, PlansRejected) else [str(problem)]
    if texts:
        result.error = " ".join([f"{result.error} It was planned again:", *texts])
    result.conflict = False


def _joined(earlier: ApplyResult | None, result: ApplyResult | None) -> ApplyResult | None:
    """The result of a job that was planned again, with what was done before."""
    if earlier is None or result is None:
        return earlier
    result.plan = result.plan.after(earlier.plan)
    result.seconds += earlier.seconds
    return result
