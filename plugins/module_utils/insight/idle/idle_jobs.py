# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_idle: find jobs that hold accelerators and do not use them, warn, and pause them later."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from ...accelerators.catalog import catalog
from ...cluster.declared import know_accelerators, read_declared
from ...cluster.read_jobs import WORKLOADS, JobId, job_id_of, without_managed_fields
from ...cluster.related import own_pods
from ...cluster.status import ENDED, is_terminating, status_of
from ...engine.paths import ABSENT
from ...engine.plan import Action, Plan
from ...given_times import InvalidTime, duration
from ...jobs.job import State
from ...jobs.job_options import JOB_KINDS, JobOptions
from ...jobs.job_plans import plan_transition
from ...jobs.transitions import LiveJob, keep, patch_plan, pause
from ...kube.concurrency import run_concurrently
from ...kube.errors import if_allowed
from ...kube.resources import PERSISTENT_VOLUME_CLAIM, POD, Resource
from ...kube.times import now_as_text, time_as_text
from ...labels import IDLE_EXEMPT_UNTIL, IDLE_WARNED_AT, JOB_TYPE, MANAGED
from ...listed_namespaces import (
    ListedNamespacesOptions,
    in_requested_namespaces,
    list_each,
    read_permitted,
    whole_cluster_unless,
)
from ...manifest.problems import abridged
from ...namespaces import listed_namespaces
from ...options import ConcurrencyOptions, option
from ...policies.policy_rules import IdleLimit, strictest_limits
from ...task import ModuleSpec, Task, TaskFailed
from ..change_jobs import ChangingJob, change_jobs, job_kind
from ..fitting_lists import list_fitting
from ..job_events import write_events
from ..prometheus.current_use import recorded_since
from ..prometheus.prometheus_client import Prometheus, open_prometheus
from ..prometheus.prometheus_options import PrometheusOptions, prometheus_settings
from ..prometheus.promql import POD as BY_POD
from ..prometheus.promql import SEVERAL_CLUSTERS, UTILIZATION, ambiguous_pods, plain_queries
from .given_back import record_given_back
from .idle_rules import (
    CLEAR,
    NOTHING,
    PAUSE,
    WARN,
    HeldDevices,
    IdleFinding,
    IdlePolicy,
    PodUsage,
    held_devices,
    idle_summary,
    judge_use,
    next_action,
    span,
    warning_text,
)
from .notebook_activity import notebook_activity
from .reclaim import ReclaimJudge, act_on, claim_rows, find_jobs, finding_row, stuck_finding
from .reclaim_rules import STOP, STUCK, Stall, reclaim_rules_in, rule_for
from .stop_idle import read_used_up

REPORT, ANNOTATE = "report", "annotate"
_IDLE_FOR, _BELOW = "1h", 0.05  # without an option or a policy
_SHORTEST = 300.0  # seconds: of less, a utilization says nothing
_STEP = 60
_NOT_NAMED = (
    "no Prometheus is named, and the one that decides what is paused is not looked for. Set O(prometheus_url), or "
    "O(prometheus_service) to namespace/name:port."
)
_WARNED = ("metadata", "annotations", IDLE_WARNED_AT)
_EXEMPT_NAME = re.compile(r"[a-z0-9.*?\[\]!-]{1,253}")


@dataclass(frozen=True, kw_only=True)
class IdleOptions(ListedNamespacesOptions, PrometheusOptions, ConcurrencyOptions):
    idle_for: str | None = option("str")
    below: float | None = option("float")
    grace: str = option("str", default="1h")
    action: str = option("str", choices=[REPORT, ANNOTATE, PAUSE], default=REPORT)
    exempt_names: list[str] | None = option("list", elements="str")
    exempt_kinds: list[str] | None = option("list", elements="str", choices=list(JOB_KINDS))
    exempt_selectors: list[str] | None = option("list", elements="str")
    policies: dict[str, Any] | None = option("dict")
    longest_exemption: str = option("str", default="14d")


@dataclass
class HeldJob(ChangingJob):
    """A job that holds accelerators, what was found about it, and what is done. ``since``: of what was before that, no
    warning counts."""

    policy: IdlePolicy
    pods: list[dict[str, Any]] = field(default_factory=list)
    held: HeldDevices | None = None
    since: datetime | None = None
    finding: IdleFinding = field(default_factory=lambda: IdleFinding(False, ""))
    action: str = NOTHING

    @property
    def warning(self) -> str | None:
        return (self.workload["metadata"].get("annotations") or {}).get(IDLE_WARNED_AT)


def run(task: Task[IdleOptions]) -> dict[str, Any]:
    """Lists workloads and pods once, asks Prometheus twice, and each notebook with idle devices what is done in it."""
    policy, now = idle_policy(task.options), datetime.now(timezone.utc)
    judge = _judge_of(task.options, policy, now)
    acts = "action=pause" if policy.pauses else "policies" if judge.acts_on_use else ""
    if acts and not prometheus_settings(task.options, task.environ).is_set:
        raise TaskFailed(f"O({acts}): {_NOT_NAMED}")
    task, own = in_requested_namespaces(task)
    task, (reading, jobs) = read_permitted(task, lambda task: _read_held_jobs(task, policy, judge))
    if any(job.held for job in jobs):
        prometheus = open_prometheus(task, task.options)
        for idle_for in sorted({job.policy.idle_for for job in jobs if job.held}):
            those = [job for job in jobs if job.policy.idle_for == idle_for]
            _judge_jobs(task, those, _usage(prometheus, idle_for, task), now)
    judge = reading.judge
    _apply_budgets(task, [job for job in jobs if job.finding.idle and not _is_ruled(job, judge)], policy, now)
    found = find_jobs(reading.workloads, reading.pods, _stuck_jobs(task, jobs, judge), judge)
    diff = act_on(task, found, judge)
    if policy.acts:
        stopped = {job.id for job in found if job.action in (PAUSE, STOP)}
        for job in jobs:
            if job.id not in stopped and not _is_ruled(job, judge):
                job.action = next_action(job.finding, job.warning, job.policy, now, job.since)
        diff += _warn_and_pause(task, jobs)
    concerned: list[Any] = [*jobs, *found]
    rows = [_job_row(job) for job in sorted(jobs, key=lambda job: (not job.finding.idle, job.id))]
    unused = claim_rows(reading.claims, reading.workloads, reading.pods)
    findings = [*(finding_row(job, judge) for job in found), *unused]
    result = {
        "changed": any(job.action != NOTHING and job.error is None for job in concerned),
        "namespace": own,
        "results": rows,
        "findings": findings,
        "diff": diff,
        "msg": idle_summary(rows, findings),
    }
    errors = ((job.workload, job.error) for job in concerned)
    if failed := [
        f"{job_kind(workload)} {workload['metadata']['name']} in namespace {workload['metadata']['namespace']}: {error}"
        for workload, error in errors
        if error
    ]:
        raise TaskFailed("\n".join(failed), **{name: value for name, value in result.items() if name != "msg"})
    return result


MODULE = ModuleSpec(IdleOptions, run, report="idle_jobs")


def idle_policy(options: IdleOptions) -> IdlePolicy:
    """The options, checked. Raises TaskFailed."""
    below = _BELOW if options.below is None else options.below
    try:
        idle_for = duration("idle_for", options.idle_for or _IDLE_FOR)
        grace = duration("grace", options.grace)
    except InvalidTime as problem:
        raise TaskFailed(str(problem)) from None
    if idle_for < _SHORTEST:
        raise TaskFailed(f"O(idle_for): {options.idle_for} is too short. Give 5m or more.")
    if idle_for > 31 * 86_400:
        raise TaskFailed(f"O(idle_for): {options.idle_for} is too long. Give 31d or less.")
    if not 0 < below <= 1:
        raise TaskFailed(f"O(below): {below:g} is no ratio. Give more than 0, and 1 at most: 0.05 is 5 percent.")
    for name in options.exempt_names or ():
        if not _EXEMPT_NAME.fullmatch(name):
            raise TaskFailed(f"O(exempt_names): {name!r} is no name of jobs. Use names, with * for any text.")
    return IdlePolicy(
        idle_for,
        below,
        grace,
        acts=options.action != REPORT,
        pauses=options.action == PAUSE,
        names=tuple(options.exempt_names or ()),
        kinds=frozenset(options.exempt_kinds or ()),
    )


def _judge_of(options: IdleOptions, policy: IdlePolicy, now: datetime) -> ReclaimJudge:
    """Raises TaskFailed."""
    try:
        longest = duration("longest_exemption", options.longest_exemption)
        return ReclaimJudge(reclaim_rules_in(options.policies or {}), policy, longest, now)
    except ValueError as problem:
        raise TaskFailed(str(problem)) from None


def limited(policy: IdlePolicy, limit: IdleLimit, options: IdleOptions) -> IdlePolicy:
    """The options with what they leave to a policy."""
    return replace(
        policy,
        idle_for=policy.idle_for if options.idle_for else limit.seconds,
        below=policy.below if options.below is not None else float(limit.below),
        source=limit.source,
    )


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """What was read of a cluster. ``claims`` are ours; none where the account may not list them."""

    workloads: Sequence[dict[str, Any]]
    pods: Mapping[JobId, Sequence[dict[str, Any]]]
    claims: Sequence[dict[str, Any]]
    judge: ReclaimJudge


def _read_held_jobs(task: Task[IdleOptions], policy: IdlePolicy, judge: ReclaimJudge) -> tuple[Reading, list[HeldJob]]:
    """All of our jobs, and those of them that hold accelerators, or that have been warned of."""
    client, listed = task.client(), listed_namespaces(task, task.options.namespaces or None)

    def read(kind: Resource, place: str | None) -> list[dict[str, Any]]:
        return list_fitting(client, kind, without_managed_fields, place, labels=MANAGED)

    def read_exempt(kind: Resource, place: str | None) -> list[str]:
        selectors = [f"{MANAGED},{each}" for each in task.options.exempt_selectors or ()]
        uids = partial(client.list_slim, kind, lambda obj: obj["metadata"]["uid"], place, metadata_only=True)
        return [uid for labels in selectors for uid in uids(labels=labels)]

    def read_claims(kind: Resource, place: str | None) -> list[dict[str, Any]]:
        return if_allowed(lambda: read(kind, place), [])

    with whole_cluster_unless(listed):
        objects = list_each(read, (*WORKLOADS, POD), listed, client.concurrency)
        exempt = list_each(read_exempt, WORKLOADS, listed, client.concurrency)
    claims = list_each(read_claims, (PERSISTENT_VOLUME_CLAIM,), listed, client.concurrency)
    pods: dict[JobId, list[dict[str, Any]]] = defaultdict(list)
    for obj in objects:
        if obj["kind"] == POD.kind:
            pods[job_id_of(obj)].append(obj)
    workloads = [obj for obj in objects if obj["kind"] != POD.kind and not is_terminating(obj)]
    know_accelerators(client, task.warn, (obj["spec"]["template"]["spec"] for obj in workloads))
    judge = replace(judge, exempt_uids=frozenset(exempt))
    jobs = []
    running = [obj for obj in workloads if status_of(obj) not in ("Paused", *ENDED)]
    limits = _limits_of_notebooks(task, running)
    for workload in running:
        job = HeldJob(workload, policy)
        if job.kind == "notebook" and (limit := limits.get(job.id[0])):
            job.policy = limited(policy, limit, task.options)
        elif job.kind == "training" and (rule := rule_for(judge.rules, workload, STUCK)):
            job.policy = replace(policy, idle_for=rule.after, source=f"the policy of pool {rule.pool}")
        job.pods = [dict(pod) for pod in own_pods(workload, pods[job.id])]
        job.held = held_devices(job.pods, job.policy.idle_for, judge.now)
        if job.held is None and job.warning is None:
            continue
        why = judge.exempt(workload)
        job.finding = IdleFinding(False, why or "holds no accelerators, or has not started")
        if why:
            job.held = None
        jobs.append(job)
    return Reading(workloads, pods, claims, judge), jobs


def _is_ruled(job: HeldJob, judge: ReclaimJudge) -> bool:
    """Whether a policy on stuck trainings takes the place of the options."""
    return job.kind == "training" and rule_for(judge.rules, job.workload, STUCK) is not None


def _stuck_jobs(task: Task[IdleOptions], jobs: Iterable[HeldJob], judge: ReclaimJudge) -> dict[JobId, Stall]:
    """The trainings with idle accelerators that log nothing either, where a policy is about them."""

    def ask(job: HeldJob) -> Stall | None:
        return stuck_finding(task.client(), job.pods, job.held, job.finding.reason, judge.now) if job.held else None

    asked = [job for job in jobs if job.finding.idle and _is_ruled(job, judge)]
    found = run_concurrently(ask, asked, task.client().concurrency)
    return {job.id: finding for job, finding in zip(asked, found, strict=True) if finding}


def _limits_of_notebooks(task: Task[IdleOptions], workloads: Iterable[Mapping[str, Any]]) -> dict[str, IdleLimit]:
    """What policies say, by namespace; read where options leave it open and there are notebooks."""
    options = task.options
    labels = ((workload["metadata"].get("labels") or {}) for workload in workloads)
    if (options.idle_for and options.below is not None) or not any(each.get(JOB_TYPE) == "notebook" for each in labels):
        return {}
    declared = read_declared(task.client(), task.warn)
    if not declared.known:
        task.warn(
            "the account may not read the policies of the cluster, so notebooks are judged by the options alone. Grant "
            "it a level with M(gpuctl_rbac)."
        )
    return strictest_limits(declared.policies)


def _apply_budgets(task: Task[IdleOptions], idle: Sequence[HeldJob], policy: IdlePolicy, now: datetime) -> None:
    """Idle jobs are also paused where a used-up budget of GPU-hours says so."""
    until = read_used_up(task, now, warns=not policy.pauses) if idle else {}
    chosen = [job for job in idle if job.id[0] in until]
    if chosen and policy.acts and not prometheus_settings(task.options, task.environ).is_set:
        task.warn(f"idle jobs of namespaces whose GPU-hours are used up are not paused: {_NOT_NAMED}")
        return
    for job in chosen:
        end = until[job.id[0]]
        reason = f"{job.finding.reason}, and the GPU-hours of the namespace are used up until {end[:10]} 00:00 UTC"
        job.finding, job.policy = replace(job.finding, reason=reason), replace(job.policy, used_up_until=end)


def _usage(prometheus: Prometheus, idle_for: float, task: Task[Any]) -> dict[tuple[str, str], PodUsage]:
    """The use of devices by pod. The cluster says which job a pod belongs to, so names are enough where each is there
    once: a Prometheus of several clusters says of a notebook what others use whose namespace and name are the same."""
    early = datetime.now(timezone.utc).timestamp() - idle_for
    queries = plain_queries(catalog(), recorded_since(prometheus, early))
    seconds = int(idle_for)
    found = prometheus.query_all(
        {
            "peak": queries.peak(UTILIZATION.name, seconds, BY_POD, step=_STEP),
            "hours": queries.measured_hours(seconds, BY_POD, step=_STEP),
            "ambiguous": ambiguous_pods(),
        }
    )
    for warning in prometheus.warnings:
        task.warn(f"Prometheus: {warning}")
    by_pod = {
        name: {(sample.labels.get("namespace", ""), sample.labels.get("pod", "")): sample.value for sample in samples}
        for name, samples in found.items()
    }
    if prometheus.is_partial:  # What is not known counts as use.
        return {}
    unknown = by_pod["ambiguous"].keys() & by_pod["peak"].keys()
    if unknown:
        names = abridged(sorted("/".join(pod) for pod in unknown), 5)
        task.warn(f"{SEVERAL_CLUSTERS}. What these pods use counts as not known: {names}")
    return {
        pod: PodUsage(peak, by_pod["hours"].get(pod, 0.0)) for pod, peak in by_pod["peak"].items() if pod not in unknown
    }


def _judge_jobs(
    task: Task[IdleOptions],
    jobs: Iterable[HeldJob],
    usage: Mapping[tuple[str, str], PodUsage],
    now: datetime,
) -> None:
    notebooks = []
    for job in jobs:
        if job.held is None:
            continue
        own = {pod: usage[job.id[0], pod] for pod in job.held.pods if (job.id[0], pod) in usage}
        job.finding, job.since = judge_use(job.held, own, job.policy, now), job.held.since
        if job.finding.idle and job.kind == "notebook":
            notebooks.append(job)

    def ask(job: HeldJob) -> None:
        pods: list[Mapping[str, Any]] = list(job.pods)
        activity = notebook_activity(task.client(), job.workload, pods, job.policy.idle_for, now)
        reason = activity.reason if activity.active else f"{job.finding.reason}, and {activity.reason}"
        job.finding = IdleFinding(not activity.active, reason, job.finding.peak, job.finding.coverage)
        job.since = max(filter(None, (job.since, activity.last)), default=None)

    run_concurrently(ask, notebooks, task.client().concurrency)


# -- acting ------------------------------------------------------------------------------------------------------------


def _warn_and_pause(task: Task[IdleOptions], jobs: Sequence[HeldJob]) -> list[Any]:
    """Warn of what is idle for the first time, take the warning back, and pause; the entries of the diff. What is not
    as it was judged stays: it may be another run, or may have been resumed or exempted meanwhile."""
    now, diff = now_as_text(), []

    def warn(job: LiveJob) -> Plan:
        text = warning_text(now, judged[job.namespace, job.name].policy)
        return patch_plan(job, Action.ANNOTATE, [(_WARNED, text)])

    def clear(job: LiveJob) -> Plan:
        return patch_plan(job, Action.ANNOTATE, [(_WARNED, ABSENT)])

    for action, planned in ((WARN, warn), (CLEAR, clear), (PAUSE, pause)):
        chosen = [job for job in jobs if job.action == action]
        judged = {job.id: job for job in chosen}
        unchanged, changes = change_jobs(task, _state(judged, planned, reads_pods=action == PAUSE), chosen)
        diff += changes
        for job in unchanged:
            job.action = NOTHING
            job.finding = replace(job.finding, reason=f"{job.finding.reason}, and was changed meanwhile")
        if action == PAUSE:
            paused = [job for job in chosen if job.error is None and job.action == PAUSE]
            record_given_back(task, [(job.workload, job.pods) for job in paused])
    announced = [job for job in jobs if job.action in (WARN, PAUSE) and job.error is None]
    write_events(task, [(job.workload, *_event_of(job)) for job in announced], "idle jobs")
    return diff


def _state(judged: Mapping[JobId, HeldJob], planned: Callable[[LiveJob], Plan], *, reads_pods: bool) -> State:
    def transition(job: LiveJob, options: JobOptions) -> Plan:
        is_same = _judged_part(job.workload) == _judged_part(judged[job.namespace, job.name].workload)
        return planned(job) if is_same else keep(job)

    return State(partial(plan_transition, transition=transition, reads_pods=reads_pods, skips_ended=True))


def _judged_part(workload: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a job was judged by, besides its use. Whatever restarts, pauses or resumes it is another generation."""
    metadata = workload["metadata"]
    annotations = metadata.get("annotations") or {}
    notes = (annotations.get(name) for name in (IDLE_WARNED_AT, IDLE_EXEMPT_UNTIL))
    return metadata["uid"], metadata.get("generation"), metadata.get("labels"), *notes


def _event_of(job: HeldJob) -> tuple[str, str]:
    """The reason and the message."""
    policy = job.policy
    if job.action == PAUSE:
        reason, then = "IdlePaused", "It was paused. Resume it with gpuctl_job (state=resumed) or the playbook resume."
    else:
        reason = "Idle"
        is_paused = policy.pauses or policy.used_up_until
        then = f"It may be paused in {span(policy.grace)}." if is_paused else "Delete or pause it if it is not needed."
    limit = f" The limit of {policy.source} is {span(policy.idle_for)}." if policy.source else ""
    return reason, f"Its accelerators are idle: {job.finding.reason}.{limit} {then}"


def _job_row(job: HeldJob) -> dict[str, Any]:
    return {
        "name": job.id[1],
        "namespace": job.id[0],
        "kind": job.kind,
        "devices": job.held.devices if job.held else None,
        "held_since": time_as_text(job.held.since) if job.held else None,
        "idle": job.finding.idle,
        "reason": job.finding.reason,
        "utilization": job.finding.peak,
        "coverage": job.finding.coverage,
        "idle_for": span(job.policy.idle_for),
        "below": job.policy.below,
        "set_by": job.policy.source or None,
        "used_up_until": job.policy.used_up_until or None,
        "warned_at": None if job.action == CLEAR or job.warning is None else job.warning.partition(" ")[0],
        "action": job.action,
        "error": job.error,
    }
