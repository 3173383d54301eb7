# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_expire: warn of notebooks and services that reach their time limit, and pause them then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from ...cluster.declared import Declared, read_declared
from ...cluster.read_jobs import JobId, job_id_of
from ...cluster.status import is_terminating, status_of
from ...engine.paths import Change
from ...engine.plan import Action, Plan
from ...given_times import seconds_of
from ...jobs.job import State
from ...jobs.job_options import JobOptions
from ...jobs.job_plans import plan_transition
from ...jobs.transitions import LiveJob, keep, patch_plan, pause
from ...kube.resources import DEPLOYMENT, STATEFUL_SET, Resource
from ...kube.times import now_as_text, time_as_text
from ...labels import END_WARNED_AT, EXPIRED_AT, JOB_TYPE, MANAGED, owner_of_reserved
from ...listed_namespaces import (
    ListedNamespacesOptions,
    in_requested_namespaces,
    list_each,
    read_permitted,
    whole_cluster_unless,
)
from ...namespaces import listed_namespaces
from ...options import ConcurrencyOptions, option
from ...task import ModuleSpec, Task, TaskFailed
from ..change_jobs import ChangingJob, change_jobs, job_kind
from ..fitting_lists import list_fitting
from ..job_events import write_events
from .end_rules import (
    NOTHING,
    PAUSE,
    WARN,
    ServiceEnd,
    end_reason,
    expire_summary,
    limit_of,
    no_limit_reason,
    pool_of,
    service_end,
)

_KINDS = ("notebook", "inference", "compute")  # Kubernetes ends trainings.
_SELECTOR = f"{MANAGED},{JOB_TYPE} in ({','.join(_KINDS)})"
_LONGEST_NOTICE = 31 * 86_400


@dataclass(frozen=True, kw_only=True)
class ExpireOptions(ListedNamespacesOptions, ConcurrencyOptions):
    warn_before: str = option("str", default="30m")


@dataclass
class LimitedJob(ChangingJob):
    """A job that has a time limit, or should have one; without ``end``, ``reason`` says why it never ends."""

    end: ServiceEnd | None
    reason: str

    @property
    def action(self) -> str:
        return self.end.action if self.end else NOTHING


@dataclass(frozen=True)
class Judge:
    """Says when jobs end, at one moment."""

    declared: Declared
    warn_before: float
    now: datetime

    def end_of(self, workload: dict[str, Any]) -> ServiceEnd | None:
        limit = limit_of(workload, job_kind(workload), *pool_of(workload, self.declared))
        return service_end(workload, limit, self.warn_before, self.now) if limit else None


def run(task: Task[ExpireOptions]) -> dict[str, Any]:
    """Two lists, or two for each namespace, that of pools, and a write for each job that is warned of or paused."""
    notice, now = _notice(task.options.warn_before), datetime.now(timezone.utc)
    task, own = in_requested_namespaces(task)
    task, workloads = read_permitted(task, _read_services)
    judge = Judge(_read_pools(task) if workloads else Declared(), notice, now)
    jobs = list(_limited_jobs(workloads, judge))
    diff = _warn_and_pause(task, jobs, judge)
    rows = [_limited_row(job) for job in sorted(jobs, key=_by_end)]
    result = {
        "changed": any(job.action != NOTHING and job.error is None for job in jobs),
        "namespace": own,
        "results": rows,
        "diff": diff,
        "msg": expire_summary(rows),
    }
    if failed := _failures(jobs):
        raise TaskFailed("\n".join(failed), **{name: value for name, value in result.items() if name != "msg"})
    return result


MODULE = ModuleSpec(ExpireOptions, run, report="ended_jobs", level="submit")


def _notice(text: str) -> float:
    """The seconds between the warning and the end. Raises TaskFailed."""
    seconds = seconds_of(text.strip()) if text.strip() else None
    if seconds is None or seconds > _LONGEST_NOTICE:
        raise TaskFailed(f"O(warn_before): invalid: {text}. Use a duration such as 30m or 2h, 31d at most, or 0.")
    return float(seconds)


# -- reading -----------------------------------------------------------------------------------------------------------


def _read_services(task: Task[ExpireOptions]) -> list[dict[str, Any]]:
    """Our notebooks and services that run. Those of the system's namespaces are not ours, whatever their labels."""
    client, listed = task.client(), listed_namespaces(task, task.options.namespaces or None)

    def read(kind: Resource, place: str | None) -> list[dict[str, Any]]:
        return list_fitting(client, kind, _slim_service, place, labels=_SELECTOR)

    with whole_cluster_unless(listed):
        found = list_each(read, (DEPLOYMENT, STATEFUL_SET), listed, client.concurrency)
    return [obj for obj in found if _is_running_job(obj)]


def _slim_service(obj: dict[str, Any]) -> dict[str, Any]:
    names = ("name", "namespace", "uid", "labels", "annotations", "creationTimestamp", "deletionTimestamp")
    metadata = {name: obj["metadata"][name] for name in names if name in obj["metadata"]}
    spec = {name: value for name, value in obj["spec"].items() if name == "replicas"}
    selector = obj["spec"]["template"]["spec"].get("nodeSelector") or {}
    spec["template"] = {"spec": {"nodeSelector": selector}}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, "spec": spec}


def _is_running_job(obj: dict[str, Any]) -> bool:
    namespace, name = job_id_of(obj)
    return (
        obj["metadata"]["name"] == name
        and owner_of_reserved(namespace) is None
        and not is_terminating(obj)
        and status_of(obj) != "Paused"
    )


def _read_pools(task: Task[ExpireOptions]) -> Declared:
    declared = read_declared(task.client(), task.warn)
    if not declared.known:
        task.warn(
            "the account may not read the pools of the cluster, so only the limits of the jobs themselves count. Grant "
            "it a level with M(gpuctl_rbac)."
        )
    return declared


def _limited_jobs(workloads: Sequence[dict[str, Any]], judge: Judge) -> Iterator[LimitedJob]:
    for workload in workloads:
        end = judge.end_of(workload)
        reason = end_reason(end) if end else no_limit_reason(workload)
        if reason:
            yield LimitedJob(workload, end, reason)


# -- acting ------------------------------------------------------------------------------------------------------------


def _warn_and_pause(task: Task[ExpireOptions], jobs: Sequence[LimitedJob], judge: Judge) -> list[Any]:
    """The entries of the diff. Each job is judged again by what is read before it is written: it may have been
    extended, paused or warned of meanwhile."""
    diff: list[Any] = []
    for action, planned in ((WARN, _warned), (PAUSE, _expired)):
        chosen = [job for job in jobs if job.action == action]
        unchanged, changes = change_jobs(task, _state(judge, action, planned), chosen)
        diff += changes
        for job in unchanged:
            if job.end:
                job.end = replace(job.end, action=NOTHING)
                job.reason += ", and was changed meanwhile"
    announced = [job for job in jobs if job.action != NOTHING and job.error is None]
    write_events(task, [(job.workload, *_event_of(job)) for job in announced], "jobs that reach their time limit")
    return diff


def _state(judge: Judge, action: str, planned: Any) -> State:
    def transition(job: LiveJob, options: JobOptions) -> Plan:
        end = None if status_of(job.workload) == "Paused" else judge.end_of(job.workload)
        return planned(job) if end and end.action == action else keep(job)

    return State(partial(plan_transition, transition=transition, reads_pods=action == PAUSE))


def _warned(job: LiveJob) -> Plan:
    return patch_plan(job, Action.ANNOTATE, [(("metadata", "annotations", END_WARNED_AT), now_as_text())])


def _expired(job: LiveJob) -> Plan:
    """A pause that says why, in the same write."""
    plan, path = pause(job), ("metadata", "annotations", EXPIRED_AT)
    (step,) = patch_plan(job, Action.PAUSE, [(path, now_as_text())]).steps[:1]
    changes: tuple[Change, ...] = (*plan.steps[0].changes, *step.changes)
    return plan.with_steps([replace(plan.steps[0], action=Action.PAUSE, changes=changes), *plan.steps[1:]])


def _event_of(job: LimitedJob) -> tuple[str, str]:
    """The reason and the message."""
    namespace, name = job.id
    if job.action == PAUSE:
        how = "Resume it with gpuctl_job (state=resumed) or the playbook resume."
        return "TimeLimitReached", f"It {job.reason}. It was paused, and its volumes are kept. {how}"
    command = "ansible-playbook runwhere.gpuctl.extend"
    how = f"{command} -e gpuctl_namespace={namespace} -e gpuctl_name={name} -e gpuctl_by=4h"
    return "TimeLimitNear", f"It {job.reason}. It is paused then. For more time: {how}"


# -- reporting ---------------------------------------------------------------------------------------------------------


def _failures(jobs: Sequence[LimitedJob]) -> list[str]:
    """A line for each error, however many jobs have it."""
    by_error: dict[str, list[LimitedJob]] = defaultdict(list)
    for job in jobs:
        if job.error:
            by_error[job.error.replace(job.id[1], "NAME")].append(job)
    lines = []
    for first, *others in by_error.values():
        more = f" The same for {len(others)} more." if others else ""
        lines.append(f"{first.kind} {first.id[1]} in namespace {first.id[0]}: {first.error}{more}")
    return lines


def _by_end(job: LimitedJob) -> tuple[bool, float, JobId]:
    return job.end is None, job.end.at.timestamp() if job.end else 0.0, job.id


def _limited_row(job: LimitedJob) -> dict[str, Any]:
    end = job.end
    return {
        "name": job.id[1],
        "namespace": job.id[0],
        "kind": job.kind,
        "limit": str(end.limit) if end else None,
        "since": time_as_text(end.since) if end else None,
        "ends_at": time_as_text(end.at) if end else None,
        "warned_at": time_as_text(end.warned_at) if end and end.warned_at else None,
        "action": job.action,
        "reason": job.reason,
        "error": job.error,
    }
