# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind the module gpuctl_job: load, validate, build, read live, plan, prove, execute, wait, report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .task import Task, TaskFailed

# The heavy imports (pydantic models, urllib3, the kubernetes library) stand in the functions that need them: a task
# with wrong arguments or manifests shall not pay for a connection, and the module process starts anew each time.

STATES = ("present", "absent")
JOB_KINDS = ("training", "inference", "notebook", "compute")
WAIT_STATES = ("scheduled", "ready", "complete")


def job_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of gpuctl_job beside those of the connection."""
    return {
        "state": {"type": "str", "choices": list(STATES), "default": "present"},
        "src": {"type": "list", "elements": "path"},
        "definition": {"type": "raw"},
        "name": {"type": "str"},
        "kind": {"type": "str", "choices": list(JOB_KINDS)},
        "namespace": {"type": "str"},
        "on_immutable": {"type": "str", "choices": ["recreate", "fail"], "default": "recreate"},
        "force": {"type": "bool", "default": False},
        "force_conflicts": {"type": "bool", "default": False},
        "wait": {"type": "bool", "default": False},
        "wait_for": {"type": "str", "choices": list(WAIT_STATES), "default": "ready"},
        "wait_timeout": {"type": "int", "default": 600},
    }


JOB_CONSTRAINTS: dict[str, Any] = {
    "mutually_exclusive": [("src", "definition", "name")],
    "required_one_of": [("src", "definition", "name")],
    "required_if": [("state", "present", ("src", "definition"), True)],
    "required_by": {"kind": "name"},
}


def run(task: Task) -> dict[str, Any]:
    """Bring the jobs of a task to the state that it asks for.

    Returns ``changed``, ``results``, ``diff`` and ``msg``. Raises TaskFailed with what was done until then.
    """
    jobs = _requested(task)
    return _present(task, jobs) if task.params["state"] == "present" else _absent(task, jobs)


@dataclass(frozen=True)
class _Job:
    """One job of the task: its identity, and what it is made of (nothing for a deletion)."""

    namespace: str
    name: str
    kind: str | None
    objects: tuple[dict[str, Any], ...] = ()
    priority_class: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def id(self) -> tuple[str, str]:
        return self.namespace, self.name


def _requested(task: Task) -> list[_Job]:
    """The jobs that the options name, built; no request has been sent when this fails."""
    default_namespace = task.params["namespace"] or "default"
    if task.params["name"]:
        return [_Job(default_namespace, task.params["name"], task.params["kind"])]
    return _built(task, default_namespace)


def _built(task: Task, default_namespace: str) -> list[_Job]:
    from .build.job import build
    from .manifest.load import load
    from .manifest.models import Pool, Quota
    from .manifest.secrets import secret_values

    jobs, others = [], []
    for document in load(task.params["src"] or (), task.params["definition"], default_namespace):
        model = document.model
        if isinstance(model, (Pool, Quota)):
            others.append(f"{document.origin} ({model.kind})")
            continue
        task.hide(secret_values(model))
        namespace = model.job.namespace or default_namespace
        if task.params["state"] == "absent":
            jobs.append(_Job(namespace, model.job.name, model.kind))
            continue
        built = build(model, namespace)
        warnings = (*document.warnings, *(f"{document.origin}: {text}" for text in built.warnings))
        jobs.append(_Job(namespace, model.job.name, model.kind, tuple(built.objects), built.priority_class, warnings))
    if not jobs:
        raise TaskFailed(
            f"there is no job in what was given, only: {', '.join(others)}. Job kinds are {', '.join(JOB_KINDS)}; "
            f"pools and quotas have modules of their own."
        )
    return jobs


def _present(task: Task, jobs: list[_Job]) -> dict[str, Any]:
    from .cluster.live import existing_priority_classes, read_jobs
    from .engine.plan import plan_present, plan_priority_class
    from .engine.prove import prove
    from .manifest.secrets import live_secret_values

    client = task.client()
    live = read_jobs(client, (job.id for job in jobs))
    task.hide(value for objects in live.values() for obj in objects for value in live_secret_values(obj))
    classes = existing_priority_classes(client)
    plans = []
    for job in jobs:
        plan = plan_present(job.name, job.namespace, job.kind or "", job.objects, live[job.id])
        if classes is not None and job.priority_class and job.priority_class["metadata"]["name"] not in classes:
            plan = replace(plan, prerequisites=(plan_priority_class(job.priority_class),))
            classes.add(job.priority_class["metadata"]["name"])
        plans.append(plan)
    plans = prove(plans, client, on_immutable=task.params["on_immutable"], check_mode=task.check_mode, warn=task.warn)
    for job, plan in zip(jobs, plans, strict=True):
        if plan.changed:  # A warning at every run of what runs already would only be noise.
            for warning in job.warnings:
                task.warn(warning)
    return _carry_out(task, plans)


def _absent(task: Task, jobs: list[_Job]) -> dict[str, Any]:
    from .cluster.live import read_jobs
    from .engine.plan import plan_absent
    from .engine.prove import refuse_foreign_workloads
    from .labels import JOB_TYPE

    client = task.client()
    live = read_jobs(client, (job.id for job in jobs))
    plans = []
    for job in jobs:
        found = {obj["metadata"]["labels"].get(JOB_TYPE) for obj in live[job.id]} - {None}
        if task.params["kind"] and found and task.params["kind"] not in found:
            raise TaskFailed(
                f"the job {job.name} in namespace {job.namespace} is of kind {found.pop()}, not {task.params['kind']}; "
                f"nothing was deleted."
            )
        plans.append(plan_absent(job.name, job.namespace, job.kind or "".join(sorted(found)) or None, live[job.id]))
    refuse_foreign_workloads((plan for plan in plans if not plan.steps), client)
    return _carry_out(task, plans)


def _carry_out(task: Task, plans: list[Any]) -> dict[str, Any]:
    from .engine.execute import Executor, Failed, Outcome
    from .kube.errors import KubeError

    executor = Executor(
        client=task.client(),
        check_mode=task.check_mode,
        gone_timeout=task.params["wait_timeout"],
        warn=task.warn,
        force_conflicts=task.params["force_conflicts"],
        grace_seconds=0 if task.params["force"] else None,
    )
    outcomes: list[Outcome] = []
    problem: str | None = None
    for plan in plans:
        try:
            outcomes.append(executor.carry_out(plan))
        except Failed as failure:
            untried = len(plans) - len(outcomes) - 1
            counts = f" Jobs done before it: {len(outcomes)}; not tried after it: {untried}."
            problem = f"{failure}{counts if len(plans) > 1 else ''}"
            if failure.outcome.plan.changed:
                outcomes.append(failure.outcome)
            break
    late: dict[tuple[str, str], str] = {}
    if task.params["wait"] and not task.check_mode and problem is None:
        try:
            late = _wait(task, outcomes)
        except KubeError as error:
            problem = f"all was done, but waiting for it failed: {error}"
    result = _report(task, outcomes)
    done = {name: result[name] for name in ("changed", "results", "diff")}
    if problem is not None:
        raise TaskFailed(problem, **done)
    if late:
        raise TaskFailed(_too_late(task, late, result["results"]), **done)
    return result


def _wait(task: Task, outcomes: list[Any]) -> dict[tuple[str, str], str]:
    """Wait for what the task asks for. The jobs for which it did not come true, each with what is left of it when it
    should be gone. The outcomes get the last workload seen.
    """
    from .engine.wait import wait_for_state, wait_until_gone

    jobs = [(outcome.plan.namespace, outcome.plan.name) for outcome in outcomes]
    timeout = float(task.params["wait_timeout"])
    if task.params["state"] == "absent":
        left = wait_until_gone(task.client(), jobs, timeout)
        return {job: ", ".join(what) for job, what in left.items()}
    workloads, missed = wait_for_state(task.client(), jobs, task.params["wait_for"], timeout)
    for outcome in outcomes:
        workload = workloads.get((outcome.plan.namespace, outcome.plan.name))
        if workload:
            outcome.objects[workload["kind"], workload["metadata"]["name"]] = workload
    return dict.fromkeys(missed, "")


def _too_late(task: Task, late: dict[tuple[str, str], str], results: list[dict[str, Any]]) -> str:
    if task.params["state"] == "absent":
        left = [f"{name} in namespace {namespace}: {what}" for (namespace, name), what in sorted(late.items())]
        return f"not gone after {task.params['wait_timeout']} s, still there: {'; '.join(left)}"
    lines = []
    for result in results:
        if (result["namespace"], result["name"]) in late:
            why = f": {result['reason']}" if result["reason"] else ""
            place = f"in namespace {result['namespace']}"
            lines.append(f"{result['kind']} {result['name']} {place} is {result['status']}{why}")
    return f"not {task.params['wait_for']} after at most {task.params['wait_timeout']} s: " + "; ".join(lines)


def _report(task: Task, outcomes: list[Any]) -> dict[str, Any]:
    from .engine.report import diffs_of, result_of
    from .kube.errors import KubeError

    try:
        reasons, address = _reasons(task, outcomes), _node_address(task, outcomes)
    except KubeError as error:  # What was done is told all the same.
        task.warn(f"reasons and access_urls are incomplete: {error}")
        reasons, address = {}, None
    results = [
        result_of(
            outcome,
            reason=reasons.get((outcome.plan.namespace, outcome.plan.name)),
            node_address=address,
            check_mode=task.check_mode,
        )
        for outcome in outcomes
    ]
    counts = Counter(result["action"] for result in results)
    summary = ", ".join(f"{number} {action}" for action, number in sorted(counts.items()))
    return {
        "changed": any(outcome.plan.changed for outcome in outcomes),
        "results": results,
        "diff": [diff for outcome in outcomes for diff in diffs_of(outcome.plan, task.hidden)],
        "msg": f"{len(results)} {'job' if len(results) == 1 else 'jobs'}: {summary or 'nothing done'}",
    }


def _reasons(task: Task, outcomes: list[Any]) -> dict[tuple[str, str], str]:
    """Why jobs do not run. A job that was created a moment ago has no story to tell yet, unless it was waited for."""
    from .cluster.read import read_reasons
    from .cluster.status import STUCK, status_of
    from .engine.plan import Action

    stuck = {}
    for outcome in outcomes:
        settled = task.params["wait"] or outcome.plan.action is Action.UNCHANGED
        if outcome.workload and settled and status_of(outcome.workload) in STUCK:
            stuck[outcome.plan.namespace, outcome.plan.name] = outcome.workload
    return read_reasons(task.client(), stuck)


def _node_address(task: Task, outcomes: list[Any]) -> str | None:
    """Where node ports answer, if any of the jobs has one."""
    from .cluster.read import node_address

    services = [obj for outcome in outcomes for obj in outcome.objects.values() if obj["kind"] == "Service"]
    if not any(port.get("nodePort") for service in services for port in service["spec"]["ports"]):
        return None
    return node_address(task.client())
