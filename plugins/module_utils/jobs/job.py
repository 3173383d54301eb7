# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job, from manifests to the report: select, plan, apply, wait, report. What is asked for is a row of STATES."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..cluster.endpoints import has_node_port
from ..cluster.lookup import sweep_text
from ..cluster.read_jobs import JobId
from ..cluster.read_nodes import node_address
from ..cluster.status import FAILURES, needs_reason
from ..engine.apply import ApplyResult, Executor
from ..engine.changes import action_summary, diffs_of
from ..engine.dry_run import PlansRejected, block_plans
from ..engine.plan import WORKLOAD_KINDS, Action, Plan, describe
from ..engine.results import full_reason, result_of
from ..kube.errors import ConcurrentChange, KubeError
from ..kube.times import now_as_text
from ..labels import DEFAULT_NAMESPACE
from ..namespaces import NAMESPACE
from ..task import ModuleSpec, Task, TaskFailed
from ..wait.goals import COMPLETE, DELETED, PAUSED, READY, SCHEDULED, Goal, WaitResult, WaitTarget, after_restart
from ..wait.polling import backoff
from .advisers import Advised, Advisers, Fits
from .job_options import JOB_CONSTRAINTS, JOB_KINDS, JobOptions
from .job_plans import (
    NamedByPod,
    NamedBySweep,
    plan_absent,
    plan_present,
    plan_restart,
    plan_transition,
    suggest_namespace,
)
from .job_size import size_row
from .runs.ledger_store import LedgerStore
from .runs.run_record import RunRecord
from .select import SelectedJob, select_jobs
from .transitions import keep, pause, resume, scale

Planner = Callable[[Task[JobOptions], "list[SelectedJob]", LedgerStore], "list[Plan]"]
GOALS = {goal.word: goal for goal in (SCHEDULED, READY, COMPLETE)}  # by the values of the option wait_for

# What stops the work of a sweep; it is asked for, because its name looks like that of a job.
_STOPS = {"absent": "delete", "paused": "pause", "restarted": "restart"}
_TRIES = 5  # to plan and apply, where other runs change the same jobs


@dataclass(frozen=True)
class State:
    """``plan`` makes a plan for each job; it may read the cluster, but writes nothing.

    ``goal`` turns the goal that ``wait_for`` names into the one to wait for. ``builds_objects``: manifests count as a
    whole, not only for the names of their jobs. ``removes``: the jobs are deleted, and may run again.
    """

    plan: Planner
    goal: Callable[[Goal], Goal] = lambda wait_for: wait_for
    builds_objects: bool = False
    removes: bool = False


STATES: Mapping[str, State] = {
    "present": State(plan_present, builds_objects=True),
    "kept": State(partial(plan_transition, transition=lambda job, options: keep(job))),
    "scaled": State(partial(plan_transition, transition=lambda job, options: scale(job, options.replicas or 0))),
    "absent": State(plan_absent, goal=lambda wait_for: DELETED, removes=True),
    "paused": State(
        partial(plan_transition, transition=lambda job, options: pause(job), reads_pods=True, skips_ended=True),
        goal=lambda wait_for: PAUSED,
    ),
    "resumed": State(
        partial(plan_transition, transition=lambda job, options: resume(job, now_as_text()), skips_ended=True)
    ),
    "restarted": State(plan_restart, goal=after_restart),
    "rolled_back": State(plan_present, builds_objects=True),  # with manifests that rollback.py reads
}


def state_of(options: JobOptions) -> State:
    """The row for the options: state=present with a name instead of a manifest scales, or only waits."""
    if options.state == "present" and options.name:
        return STATES["kept" if options.replicas is None else "scaled"]
    return STATES[options.state]


def run(task: Task[JobOptions], state: State | None = None, jobs: list[SelectedJob] | None = None) -> dict[str, Any]:
    """Bring the jobs of a task to the desired state; gpuctl_idle says itself which jobs, and to which state.

    Returns ``changed``, ``results``, ``diff`` and ``msg``. Raises TaskFailed with the result up to then.
    """
    if state is None and task.options.state == "rolled_back":
        from .rollback import with_recorded_manifests  # Here: few tasks go back.

        task = with_recorded_manifests(task)
    options = task.options
    state = state or state_of(options)
    jobs = select_jobs(task, builds_objects=state.builds_objects) if jobs is None else jobs
    if not jobs:
        return {"changed": False, "results": [], "diff": [], "msg": "0 jobs: nothing to do"}
    record = RunRecord(task, jobs)
    jobs, plans = _plan_what_is_named(task, state, jobs, record.ledger)
    advisers = Advisers(Advised(task, jobs, state.builds_objects))
    results = [each for each in apply_plans(task, state, jobs, plans, record, _executor(task), advisers) if each]
    applied = [result for result in results if result.error is None]
    if state.builds_objects and any(result.plan.changed for result in results):
        from .older_jobs import warn_of_dropped_fields

        warn_of_dropped_fields(task, results)
    problems = _failure_summary(results, len(jobs))
    record.after(results, removed=state.removes)  # before a long wait, which may be interrupted
    waited = WaitResult()
    if options.wait and not task.check_mode and applied and (options.continue_on_error or not problems):
        waited = _wait_for(task, state, applied)
        problems += [waited.problem] if waited.problem else []
        record.after(applied, removed=state.removes, logs=waited.logs)
    if not options.missing_ok and results and all(result.plan.missing for result in results):
        raise TaskFailed(_nothing_to_delete(results))
    problems += _failed_before(applied) if options.wait else []
    report = _task_result(task, results, waited, advisers.fits(each.plan for each in applied))
    if problems:
        raise TaskFailed("\n".join(problems), **{name: value for name, value in report.items() if name != "msg"})
    return report


MODULE = ModuleSpec(JobOptions, run, JOB_CONSTRAINTS, manifests=JOB_KINDS, level="submit")


# -- plan


def _plan_what_is_named(
    task: Task[JobOptions], state: State, jobs: list[SelectedJob], ledger: LedgerStore
) -> tuple[list[SelectedJob], list[Plan]]:
    """The plans, with their jobs: those that the option ``name`` means, if it is the name of a pod or of a sweep."""
    try:
        return jobs, plan_jobs(task, state, jobs, ledger)
    except NamedByPod as found:
        namespace, name = found.job
        task.warn(f"{jobs[0].name} is a pod of job {name} in namespace {namespace}. The task is for the whole job.")
        jobs = [replace(jobs[0], name=name)]
    except NamedBySweep as found:
        _require_confirmation(task, found.jobs)
        jobs = [replace(jobs[0], name=name) for _namespace, name in found.jobs]
    return jobs, plan_jobs(task, state, jobs, ledger)


def _require_confirmation(task: Task[JobOptions], jobs: list[JobId]) -> None:
    """Raises TaskFailed if the work of a whole sweep would be stopped, and the task does not confirm it."""
    options, name = task.options, str(task.options.name)
    if options.state in _STOPS and options.confirm != name and not task.check_mode:
        raise TaskFailed(
            f"{sweep_text(name, jobs)} Set O(confirm={name}) to {_STOPS[options.state]} all of them. "
            f"Nothing was changed."
        )


def plan_jobs(task: Task[JobOptions], state: State, jobs: list[SelectedJob], ledger: LedgerStore) -> list[Plan]:
    """A plan for each job. Its dry runs may find that another run is at work: then all are planned again."""
    delays = _random_delays()
    for _try in range(_TRIES - 1):
        with suppress(ConcurrentChange):
            return state.plan(task, jobs, ledger)
        time.sleep(next(delays))
        ledger.forget()
    return state.plan(task, jobs, ledger)


def _random_delays() -> Iterator[float]:
    """Seconds; random, so that two runs that keep getting in each other's way do not stay in step."""
    return (delay * random.random() for delay in backoff(0.2, 2.0))


# -- apply


def _executor(task: Task[JobOptions]) -> Executor:
    options = task.options
    return Executor(
        client=task.client(),
        check_mode=task.check_mode,
        gone_timeout=options.wait_timeout,
        warn=task.warn,
        force_conflicts=options.force_conflicts,
        # 0 removes a pod from the API server without the word of its kubelet (docs, "Pod Lifecycle", forced deletion).
        grace_seconds=0 if options.force else None,
        progress=task.progress,
        namespace_meant=suggest_namespace(task),
    )


def apply_plans(
    task: Task[JobOptions],
    state: State,
    jobs: list[SelectedJob],
    plans: list[Plan],
    record: RunRecord,
    executor: Executor,
    advisers: Advisers | None = None,
) -> list[ApplyResult | None]:
    """The result of each job, None for those not begun.

    Only jobs that another run has changed meanwhile are planned again, with what they are by then: another manifest of
    the same job that was applied meanwhile is replaced as a whole.
    """

    def apply(plans: list[Plan], *, keep_going: bool) -> list[ApplyResult | None]:
        if advisers:
            plans = block_plans(plans, advisers.before(plans), keep_going)
        if not executor.check_mode:
            record.before(plans)
        announcing = replace(executor, before_replacing=lambda plan: record.ledger.before_replacing(plan, plans))
        return announcing.apply_plans(plans, keep_going=keep_going)

    results = apply(plans, keep_going=task.options.continue_on_error)
    delays = _random_delays()
    for _try in range(_TRIES - 1):
        again = [number for number, result in enumerate(results) if result and result.conflict]
        if not again:
            break
        time.sleep(next(delays))
        record.ledger.forget()
        try:
            plans = state.plan(task, [jobs[number] for number in again], record.ledger)
        except ConcurrentChange:
            continue
        except KubeError as problem:
            for number in again:
                _add_problem(results[number], problem, jobs[number])
            break
        except (NamedByPod, NamedBySweep):  # The job is gone since: its conflict is what there is to say.
            break
        for number, result in zip(again, apply(plans, keep_going=True), strict=True):
            results[number] = _joined_result(results[number], result)
    return results


def _add_problem(result: ApplyResult | None, problem: KubeError, job: SelectedJob) -> None:
    if result is None:
        return
    texts = problem.texts.get(job.id) if isinstance(problem, PlansRejected) else [str(problem)]
    if texts:
        result.error = " ".join([f"{result.error} It was planned again:", *texts])
    result.conflict = False


def _joined_result(earlier: ApplyResult | None, result: ApplyResult | None) -> ApplyResult | None:
    """The result of a job that was planned again, with what was done before."""
    if earlier is None or result is None:
        return earlier
    result.plan = result.plan.after(earlier.plan)
    result.seconds += earlier.seconds
    return result


# -- wait


def _wait_for(task: Task[JobOptions], state: State, results: list[ApplyResult]) -> WaitResult:
    """Wait for the goal of the state. The results get the last workload seen, and the error."""
    from ..wait.job_wait import wait_for_jobs  # Here: most tasks do not wait.

    goal = state.goal(GOALS[task.options.wait_for])
    # Nothing is left to wait for if a training has ended and was removed.
    waiting = {
        (result.plan.namespace, result.plan.name): result for result in results if goal is DELETED or result.workload
    }
    wait_result = wait_for_jobs(
        task,
        goal,
        [_wait_target(result) for result in waiting.values()],
        timeout=float(task.options.wait_timeout),
        keep_going=task.options.continue_on_error,
        new_nodes=task.options.wait_for_nodes,
    )
    for job, workload in wait_result.workloads.items():
        waiting[job].objects[workload["kind"], workload["metadata"]["name"]] = workload
    for job, error in wait_result.errors.items():
        waiting[job].error = error
    return wait_result


def _wait_target(result: ApplyResult) -> WaitTarget:
    plan = result.plan
    steps = [step for step in plan.steps if step.kind in WORKLOAD_KINDS]
    kind = result.workload["kind"] if result.workload else next((step.kind for step in steps), None)
    fresh = any(step.action is Action.CREATE or step.replaces for step in steps)
    return WaitTarget((plan.namespace, plan.name), kind, fresh, describe(plan), full_reason(plan, None) or "")


# -- report


def _failure_summary(results: list[ApplyResult], number: int) -> list[str]:
    """The error of each failed job, one a line, and how many others were applied or not attempted; else nothing."""
    failed = [result for result in results if result.error is not None]
    if not failed:
        return []
    lines = [f"{describe(result.plan)}: {result.error}" for result in failed]
    applied = len(results) - len(failed)
    if number > 1:
        lines.append(
            f"Jobs: {applied} of {number} applied, {len(failed)} failed, {number - len(results)} not attempted."
        )
    if not applied and not any(result.plan.changed for result in failed):
        lines.append("Nothing was changed.")
    return ["\n".join(lines)]


def _nothing_to_delete(results: Iterable[ApplyResult]) -> str:
    lines = [f"{describe(result.plan)}: {result.plan.missing}" for result in results]
    return (" " if len(lines) == 1 else "\n").join(
        [*lines, "Nothing was deleted. If that is right, set O(missing_ok=true)."]
    )


def _failed_before(applied: Iterable[ApplyResult]) -> list[str]:
    """What to say of trainings that have failed, are not run again, and that Kubernetes has removed: a wait fails."""
    problems = []
    for result in applied:
        ended = result.plan.ended
        if ended and ended.status in FAILURES and result.workload is None:
            result.error = ended.reason
            problems.append(f"{describe(result.plan)}: {ended.reason}")
    return problems


def _task_result(
    task: Task[JobOptions], applied: list[ApplyResult], wait_result: WaitResult, fits: Fits
) -> dict[str, Any]:
    try:
        reasons, address = _stuck_reasons(task, applied, wait_result), _node_address(task, applied)
    except KubeError as error:  # The jobs were applied: report that.
        task.warn(f"reasons and access_urls are incomplete: {error}")
        reasons, address = dict(wait_result.reasons), None
    results = [
        result_of(
            result,
            reason=reasons.get((result.plan.namespace, result.plan.name)),
            log=wait_result.logs.get((result.plan.namespace, result.plan.name), ()),
            node_address=address,
            check_mode=task.check_mode,
            fit=fits.get((result.plan.namespace, result.plan.name)),
        )
        | _job_request(result)
        for result in applied
    ]
    message = action_summary(results, "job")
    gpus = sum(result.plan.released_gpus for result in applied)
    if gpus:
        released = "would be released" if task.check_mode else "released"
        message += f"; {gpus} {'GPU' if gpus == 1 else 'GPUs'} {released}"
    return {
        "changed": any(result.plan.changed for result in applied),
        "results": results,
        "diff": task.diff(lambda: (diff for result in applied for diff in diffs_of(result.plan))),
        "default_namespace": task.environ.get(NAMESPACE, "").strip() or task.client().namespace or DEFAULT_NAMESPACE,
        "msg": message,
    }


def _job_request(result: ApplyResult) -> dict[str, Any]:
    """What the job requests and its sweep; after a deletion, what it had requested."""
    steps = (step for step in result.plan.steps if step.kind in WORKLOAD_KINDS)
    workloads = [result.workload, *(obj for step in steps for obj in (step.desired, step.live))]
    known = next((obj for obj in workloads if obj and "template" in (obj.get("spec") or {})), None)
    return size_row(known) if known else dict.fromkeys(("pods_wanted", "gpu", "gpu_share", "accelerators", "sweep"))


def _stuck_reasons(task: Task[JobOptions], applied: list[ApplyResult], wait_result: WaitResult) -> dict[JobId, str]:
    """Why jobs are not running. Without a wait, new jobs are left out: their pods may only just have been created."""
    stuck = {}
    for result in applied:
        job = result.plan.namespace, result.plan.name
        settled = task.options.wait or result.plan.action is Action.UNCHANGED
        if result.workload and settled and job not in wait_result.jobs and needs_reason(result.workload):
            stuck[job] = result.workload
    if not stuck:
        return dict(wait_result.reasons)
    from ..cluster.read_reasons import read_reasons  # Here: most jobs run, or are not looked at.

    return {**wait_result.reasons, **read_reasons(task.client(), stuck)}


def _node_address(task: Task[JobOptions], applied: list[ApplyResult]) -> str | None:
    """The address of node ports, if a job has one."""
    services = [obj for result in applied for obj in result.objects.values() if obj["kind"] == "Service"]
    if not has_node_port(services):
        return None
    return node_address(task.client())
