# SPDX-License-Identifier: BSD-2-Clause
"""Plan the jobs of a task: compare the desired state with the live one. All writes are dry runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from ..cluster.admission import POD_GROUP_OF, queue_of
from ..cluster.declared import Declared, know_accelerators, read_declared
from ..cluster.lookup import job_hint, job_of_pod, jobs_of_sweep, namespace_meant, namespaces_with_job
from ..cluster.pending_reason import UNKNOWN_POOL, PendingReason
from ..cluster.read_jobs import (
    ByJob,
    JobId,
    claim_templates_of,
    enforced_levels,
    read_claim_templates,
    read_jobs,
    read_pods,
)
from ..cluster.read_nodes import read_lost_nodes
from ..cluster.related import is_unfinished
from ..cluster.status import is_admitted_by_kueue, is_terminating
from ..engine.dry_run import Blocker, block_plans, closed_namespaces, unmanaged_workloads, validate_by_dry_run
from ..engine.plan import WORKLOAD_KINDS, Action, Plan, Step, Suggest, describe
from ..engine.planning import active_objects, plan_deletion, plan_job, starts_pods, step_for, upgraded
from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.discovery import preferred_versions
from ..kube.errors import KubeError, if_allowed
from ..kube.resources import KUEUE_WORKLOAD, POD_GROUP
from ..kube.times import now_as_text
from ..labels import DEFAULT_POOL, FIELD_MANAGER, JOB_TYPE, KUEUE_JOB_UID, LEDGER, SOURCE, TIME_LIMIT
from ..namespaces import allowed_namespaces
from ..task import Task
from .job_policies import level_problems, policy_blockers
from .job_queues import is_dispatched, missing_queues
from .objects.former_versions import later_defaults
from .objects.pod_levels import RESTRICTED
from .ownership import Ownership, keep_submitter
from .priority_classes import priority_class_problems, read_priority_classes
from .rerun import plan_rerun
from .runs.ledger_store import LedgerStore
from .select import SelectedJob, build_jobs
from .transitions import LiveJob, TransitionRefused, restart

if TYPE_CHECKING:
    from .job_options import JobOptions

Transition = Callable[[LiveJob, "JobOptions"], Plan]

_LISTED = "To list the jobs, use M(gpuctl_job_info); to create one, O(state=present) with a manifest."


class NamedBySweep(Exception):
    """The name of the task is not a job's, but that of a sweep. Nothing has been written."""

    def __init__(self, jobs: list[JobId]) -> None:
        super().__init__(jobs)
        self.jobs = jobs


class NamedByPod(Exception):
    """The name of the task is not a job's, but that of one of its pods. Nothing has been written."""

    def __init__(self, job: JobId) -> None:
        super().__init__(job)
        self.job = job


class ClassesFound(Exception):
    """Only a DeviceClass offers the devices of pools that declare none: the jobs are to be planned again."""

    def __init__(self, by_pool: Mapping[str, str]) -> None:
        super().__init__(by_pool)
        self.by_pool = by_pool


def plan_present(task: Task[JobOptions], jobs: list[SelectedJob], ledger: LedgerStore) -> list[Plan]:
    live, declared = _read_jobs(task, jobs)
    claiming = [job for job in jobs if any(map(claim_templates_of, live[job.id]))]
    if claiming:
        from .device_classes import find_classes  # Here: most jobs request their devices.

        declared = replace(declared, found_classes=find_classes(task.client(), claiming, declared).by_pool)
    try:
        return _plan_present(task, _built(jobs, live, declared), live, ledger, declared)
    except ClassesFound as found:
        declared = replace(declared, found_classes={**declared.found_classes, **found.by_pool})
        return _plan_present(task, _built(jobs, live, declared), live, ledger, declared)


def _built(jobs: list[SelectedJob], live: ByJob, declared: Declared) -> list[SelectedJob]:
    return [job.in_former_queue(declared, live[job.id]) for job in build_jobs(jobs, declared)]


def _plan_present(
    task: Task[JobOptions], jobs: list[SelectedJob], live: ByJob, ledger: LedgerStore, declared: Declared
) -> list[Plan]:
    """Raises ClassesFound."""
    client = task.client()
    starting = [job.id for job in jobs if job.claims_devices and not any(map(claim_templates_of, live[job.id]))]
    for job_id, templates in read_claim_templates(client, starting).items():
        live[job_id] += templates
    classes = read_priority_classes(client)
    ownership, now = Ownership(task), datetime.now(timezone.utc)
    plans: list[Plan] = []
    blockers: list[tuple[Plan, str]] = []
    for job, plan in zip(jobs, _plans_by_level(task, jobs, live, ledger), strict=True):
        needed = None if plan.ended or plan.blocker else job.priority_class
        # A pod that names a missing class is refused (plugin/pkg/admission/priority), not created without one.
        if classes is not None and needed and needed["metadata"]["name"] not in classes:
            # Never updated here: its value is immutable, and others use it.
            plan = replace(plan, prerequisites=(step_for(needed, None),))
        if plan.ended and not live[job.id] and not (writer := ledger.writer(*job.id)).is_gpuctl:
            task.warn(
                f"training {job.name} in namespace {job.namespace} is not run, because ConfigMap {LEDGER} has an "
                f"entry for it. {FIELD_MANAGER} did not write that entry: {writer}. Nothing else shows that the "
                f"training ever ran. To run it, use O(rerun=always), or delete the entry."
            )
        if text := _stopped_at_once(plan, now):
            blockers.append((plan, f"{job.place('job.time_limit')}: {text}"))
        if any(step.action is not Action.UNCHANGED for step in plan.steps):
            blockers += _of_another_owner(plan, live[job.id], ownership)
            plan = ownership.signed(plan)
        plans.append(plan)
    if task.options.source:
        from .job_sources import declared_by_others

        blockers += declared_by_others(plans, live, task.options)
    plans = block_plans(plans, blockers, task.options.continue_on_error)
    plans, blockers = _after_predecessors(task, _validated_plans(task, plans)), []
    if any(plan.steps and plan.steps[0].replaces for plan in plans):
        from .interruption import refusal, with_interruptions  # Here: most tasks recreate nothing.

        plans = with_interruptions(plans, client)
        blockers = [] if task.options.recreate else [(plan, refusal(plan)) for plan in plans if plan.stops]
    if any(plan.changed for plan in plans):
        for problem in priority_class_problems(classes or {}):
            task.warn(problem)
    blockers += _warn_of_mistakes(task, jobs, plans, declared)
    judged = [plan for job, plan in zip(jobs, plans, strict=True) if not (task.check_mode and job.declared)]
    blockers += missing_queues(client, judged)
    for plan in plans if task.options.recreate else ():
        if plan.stops:
            task.warn(f"{describe(plan)}: recreating it stops {plan.stops}.")
    plans = block_plans(plans, blockers, task.options.continue_on_error)
    if not task.options.source:
        return plans
    from .job_sources import with_source_recorded  # Here: few tasks have a source.

    return [with_source_recorded(plan, task.options.source, live, ownership) for plan in plans]


def _as_recorded(form: tuple[dict[str, Any], ...], live: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The objects of a job with what only earlier runs have recorded on them."""
    objects = keep_submitter(form, live)
    if any(map(_is_limited, (*objects[:1], *live))):
        from .kept_time_limits import keep_time_limit  # Here: most jobs have no limit.

        objects = keep_time_limit(objects, live)
    if not any(SOURCE in (obj["metadata"].get("annotations") or {}) for obj in live):
        return objects
    from .job_sources import keep_sources

    return keep_sources(objects, live)


def _is_limited(obj: Mapping[str, Any]) -> bool:
    return TIME_LIMIT in (obj["metadata"].get("annotations") or {})


def _stopped_at_once(plan: Plan, now: datetime) -> str | None:
    if not plan.steps or not plan.steps[0].desired or not _is_limited(plan.steps[0].desired):
        return None
    from .kept_time_limits import stopped_at_once

    return stopped_at_once(plan, now)


def _warn_of_mistakes(
    task: Task[JobOptions], jobs: list[SelectedJob], plans: list[Plan], declared: Declared
) -> list[Blocker]:
    """Warn of what is malformed in the manifests of the jobs that change, and of what cannot work in the cluster.

    What is refused of that is a blocker instead. Unchanged jobs do not repeat their warnings at every run. Raises
    ClassesFound.
    """
    options = task.options
    changed = [(job, plan) for job, plan in zip(jobs, plans, strict=True) if plan.changed]
    if not changed:
        return []
    from .device_classes import find_classes  # Here: of most tasks, no job changes.
    from .prechecks import advice, grouped, precheck

    found: dict[JobId, list[PendingReason]] = {}
    growing = declared.growing
    here = [each for each in changed if not is_dispatched(declared.pools.get(each[0].pool))]
    for new_nodes in (False, True):
        some = [each for each in here if (options.wait_for_nodes or each[0].pool in growing) is new_nodes]
        found |= precheck(some, task.client(), new_nodes=new_nodes, check_mode=task.check_mode)
    classes = find_classes(task.client(), (job for job, _plan in changed if job.id in found), declared)
    if classes.by_pool:
        raise ClassesFound(classes.by_pool)
    if served := [(job, plan) for job, plan in changed if job.id in classes.extended]:
        # No node lists the resource, but the scheduler claims devices for it.
        again = precheck(served, task.client(), new_nodes=True, check_mode=task.check_mode)
        found = {id_: reasons for id_, reasons in found.items() if id_ not in classes.extended} | again
    warnings = advice(job for job, _plan in changed)
    predicted = task.check_mode and options.predict and not options.wait_for_nodes
    doubtful: dict[JobId, list[PendingReason]] = {}
    blockers: list[Blocker] = []
    impossible: list[Blocker] = []
    for job, plan in changed:
        reasons = found.get(job.id, ())
        refused = _refusal_texts(job, reasons, strict=options.strict)
        wrong = _impossible(job, reasons, declared) if options.refuse_mistakes else {}
        blockers += [(plan, text) for text in refused.values()]
        blockers += [(plan, classes.ambiguous[job.id])] if job.id in classes.ambiguous else []
        impossible += [(plan, text) for each, text in wrong.items() if each not in refused]
        blocking = refused.keys() | wrong.keys()
        warnings += [text for text in job.mistakes if text not in blocking]
        doubtful[job.id] = [each for each in reasons if each not in blocking and not (predicted and each.predicted)]
    # What may keep a job from running does not matter where it cannot be created. Those of several jobs were looked at.
    alone = any(doubtful.values()) and len(plans) == 1 and not task.check_mode
    if alone and (closed := closed_namespaces(plans, task.client(), suggest_namespace(task))):
        return closed
    # With wait, the wait says why a job does not run; once is enough.
    waits = options.wait and not task.check_mode
    for text in (*warnings, *(() if waits else grouped(doubtful))):
        task.warn(text)
    if impossible:
        plan, text = impossible[-1]
        impossible[-1] = (plan, f"{text} To submit jobs with such mistakes, use O(refuse_mistakes=false).")
    return [*blockers, *impossible]


Sentences = dict["str | PendingReason", str]
"""Mistakes and reasons, each with its message."""


def _refusal_texts(job: SelectedJob, reasons: Iterable[PendingReason], *, strict: bool) -> Sentences:
    mistakes = {text: text for text in job.mistakes if strict}
    return mistakes | {reason: reason.sentence for reason in reasons if strict or reason.refused}


def _impossible(job: SelectedJob, reasons: Iterable[PendingReason], declared: Declared) -> Sentences:
    """What cannot be meant: bytes in place of gibibytes, pools and GPU types that do not exist."""
    unknown = (reason for reason in reasons if _names_nothing(reason, job, declared))
    mistakes: Sentences = {text: text for text in job.certain}
    return mistakes | {reason: _unknown_name(reason, job) for reason in unknown}


def _unknown_name(reason: PendingReason, job: SelectedJob) -> str:
    """The reason at its place in the manifest, which it names as it is written there."""
    text = f"{job.place(reason.unknown)}: {reason.sentence}"
    return text.replace(reason.unknown, job.as_written(reason.unknown))


def _names_nothing(reason: PendingReason, job: SelectedJob, declared: Declared) -> bool:
    """Whether the job names what there is not. A declared pool may get its nodes later."""
    pool = job.model.resources.pool if job.model else DEFAULT_POOL
    is_declared = pool in declared.pools or not declared.known
    return bool(reason.unknown) and not (reason.unknown == UNKNOWN_POOL and is_declared)


def _read_jobs(task: Task[JobOptions], jobs: list[SelectedJob]) -> tuple[ByJob, Declared]:
    """What is live of the jobs, and what administrators declare, if that matters to one of them."""
    client, ids = task.client(), [job.id for job in jobs]
    if not any(job.reads_declared for job in jobs):
        return read_jobs(client, ids), Declared()
    reads: tuple[Callable[[], Any], ...] = (
        lambda: read_jobs(client, ids),
        lambda: read_declared(client, task.warn),
    )
    live, declared = run_concurrently(lambda read: read(), reads, client.concurrency)
    return live, declared


def _plans_by_level(task: Task[JobOptions], jobs: list[SelectedJob], live: ByJob, ledger: LedgerStore) -> list[Plan]:
    """The plans, built for the Pod Security levels of the namespaces and for the server where they start pods.

    What runs in any form stays in it: its namespace is not read, and the server's version not asked for. Raises
    PlansRejected for what a level forbids; with continue_on_error, those plans are blocked instead.
    """
    now, upgrade = datetime.now(timezone.utc), task.options.upgrade

    def plan_for(job: SelectedJob, forms: Iterable[tuple[dict[str, Any], ...]]) -> Plan:
        """The plan for the first form that starts no pods, or else for the first one."""
        found = (
            plan_job(
                job.name,
                job.namespace,
                job.kind or "",
                _as_recorded(form, live[job.id]),
                live[job.id],
                later_defaults(job.former_commands),
            )
            for form in forms
        )
        first = next(found)
        plan = next((each for each in found if not starts_pods(each)), first) if starts_pods(first) else first
        if job.manifest is None:
            return upgraded(plan) if upgrade else plan
        entry = ledger.entry(*job.id)
        known = entry and entry.known_as(job.manifest, job.former_manifests)
        writer = ledger.writer(*job.id)
        return plan_rerun(plan, job.manifest, live[job.id], known, task.options.rerun, now, writer, upgrade=upgrade)

    plans = [plan_for(job, job.forms if live[job.id] else [job.objects]) for job in jobs]
    if any(map(starts_pods, plans)):
        from .older_jobs import for_server  # Here: most tasks start nothing.

        built = for_server(task.client(), jobs, plans)
        found = zip(built, jobs, plans, strict=True)
        plans = [plan if job is former else plan_for(job, [job.objects]) for job, former, plan in found]
        jobs = built
    levels = enforced_levels(task.client(), (plan.namespace for plan in plans if starts_pods(plan)))
    blockers = []
    for number, (job, plan) in enumerate(zip(jobs, plans, strict=True)):
        level = levels.get(job.namespace) if starts_pods(plan) else None
        if level == RESTRICTED:
            plans[number] = plan_for(job, [job.restricted])
        blockers += [(plans[number], text) for text in level_problems(job, level)]
    starting = [(job, plan) for job, plan in zip(jobs, plans, strict=True) if starts_pods(plan)]
    blockers += policy_blockers(task, starting)
    return block_plans(plans, blockers, task.options.continue_on_error)


def plan_absent(task: Task[JobOptions], jobs: list[SelectedJob], ledger: LedgerStore) -> list[Plan]:
    client = task.client()
    live = read_jobs(client, (job.id for job in jobs))
    _require_job_name(task, live)
    # The garbage collector deletes the pods with the workload; those on a lost node wait for their kubelet.
    left = _pods_left(task, live) if task.options.force else {}
    ownership = Ownership(task)
    plans: list[Plan] = []
    blockers: list[tuple[Plan, str]] = []
    for job in jobs:
        pods = left.get(job.id, ())
        kinds = sorted({obj["metadata"]["labels"].get(JOB_TYPE) for obj in (*live[job.id], *pods)} - {None})
        objects, refused = live[job.id], ""
        if task.options.source:
            from .job_sources import declared_objects

            objects, refused = declared_objects(objects, task.options)
        plan = plan_deletion(job.name, job.namespace, job.kind or "".join(kinds) or None, objects)
        blockers += [(plan, refused)] if refused else []
        plan = plan.with_steps((*plan.steps, *(Step(Action.DELETE, {}, pod) for pod in pods)))
        if job.kind and kinds and job.kind not in kinds:
            blockers.append((plan, of_another_kind(kinds[0])))
        blockers += _of_another_owner(plan, live[job.id], ownership)
        plans.append(plan)
    missing = [plan for plan in plans if not plan.steps]
    blockers += unmanaged_workloads(missing, client)
    if missing and not blockers and (task.options.name or not task.options.missing_ok):
        gone = {job for job, objects in live.items() if not objects}
        plans = [
            replace(plan, missing=_not_found(task, plan)) if (plan.namespace, plan.name) in gone else plan
            for plan in plans
        ]
    return block_plans(plans, blockers, task.options.continue_on_error)


def plan_restart(task: Task[JobOptions], jobs: list[SelectedJob], ledger: LedgerStore) -> list[Plan]:
    """What an interrupted restart has deleted, in whole or in part, is created again from its copy."""
    lost_nodes = read_lost_nodes(task.client()) if task.options.force else None
    return plan_transition(
        task,
        jobs,
        ledger,
        lambda job, options: restart(job, now_as_text(), lost_nodes),
        reads_pods=True,
        restores=True,
    )


def plan_transition(
    task: Task[JobOptions],
    jobs: list[SelectedJob],
    ledger: LedgerStore,
    transition: Transition,
    *,
    reads_pods: bool = False,
    skips_ended: bool = False,
    restores: bool = False,
) -> list[Plan]:
    """Plans that change live jobs without a manifest.

    ``reads_pods``: they need the pods of the jobs. ``skips_ended``: jobs that have ended stay as they are, with a
    warning. ``restores``: jobs that an interrupted restart may have deleted are created again.

    Raises PlansRejected for jobs that are missing or refuse the transition (with continue_on_error their plans are
    blocked instead), and KubeError for jobs in a Kueue queue when Kueue is not installed.
    """
    objects = read_jobs(task.client(), (job.id for job in jobs))
    live = _live_jobs(task, objects, reads_pods)
    incomplete = [job.id for job in jobs if job.id not in live or live[job.id].missing]
    copies = ledger.copies(incomplete) if restores and incomplete else {}
    live |= {job: replace(live[job], restarted_from=copy.objects) for job, copy in copies.items() if job in live}
    plans: list[Plan] = []
    missing: list[Plan] = []
    blockers: list[tuple[Plan, str]] = []
    ownership = Ownership(task)
    for job in jobs:
        plan, found = Plan(job.name, job.namespace, job.kind), live.get(job.id)
        if found is None and job.id in copies and job.kind in (None, "training"):
            plan = plan_job(job.name, job.namespace, "training", copies[job.id].objects, objects[job.id])
            blockers += _of_another_owner(plan, copies[job.id].objects, ownership)
        elif found is None:
            missing.append(plan)
        elif job.kind not in (None, found.kind):
            blockers.append((plan, of_another_kind(found.kind)))
        else:
            if found.has_ended and skips_ended:
                task.warn(
                    f"{found.kind} {job.name} in namespace {job.namespace} has ended, so it cannot be "
                    f"{task.options.state}"
                )
            try:
                plan = replace(transition(found, task.options), pods=found.pods if reads_pods else None)
                blockers += _of_another_owner(plan, found.objects, ownership) if plan.changed else ()
            except TransitionRefused as problem:
                blockers.append((plan, str(problem)))
        plans.append(plan)
    if missing:
        _require_job_name(task, objects)
    unmanaged = unmanaged_workloads(missing, task.client())
    taken = {(plan.namespace, plan.name) for plan, _text in unmanaged}
    for plan in missing:
        if (plan.namespace, plan.name) not in taken:
            blockers.append((plan, f"{_not_found(task, plan)} {_LISTED}"))
    blockers += unmanaged
    return _after_predecessors(
        task, _validated_plans(task, block_plans(plans, blockers, task.options.continue_on_error))
    )


def _require_job_name(task: Task[JobOptions], live: ByJob) -> None:
    """Raises NamedByPod or NamedBySweep if the option ``name`` is no job's, but a pod's or a sweep's.

    The job that a pod names is not looked for as a pod again: labels of pods are what their creator wrote.
    """
    for namespace, name in live:
        if name != task.options.name or live[namespace, name]:
            continue
        job = job_of_pod(task.client(), name, [namespace])
        if job and job != (namespace, name):
            raise NamedByPod(job)
        if task.options.kind in (None, "training") and (jobs := jobs_of_sweep(task.client(), name, [namespace])):
            raise NamedBySweep(jobs)


def _not_found(task: Task[JobOptions], plan: Plan) -> str:
    """Only a person misspells the option ``name``; a manifest names its job rightly."""
    return " ".join(filter(None, ("job not found.", _similar_job_hint(task, (plan.namespace, plan.name)))))


def _similar_job_hint(task: Task[JobOptions], job: JobId) -> str:
    """What may have been meant; for a person also where else a job of that name is."""
    if not task.options.name:
        return ""
    allowed = allowed_namespaces(task)
    if not task.options.missing_ok and (places := namespaces_with_job(task.client(), job[1], allowed)):
        return f"It exists in {' and '.join(places)}: set O(namespace)."
    return job_hint(task.client(), job, allowed)


def _pods_left(task: Task[JobOptions], live: ByJob) -> ByJob:
    """The unfinished pods of jobs that are deleted already. On a lost node, they do not end by themselves."""
    gone = [
        job for job, found in live.items() if not any(obj["kind"] in WORKLOAD_KINDS for obj in active_objects(found))
    ]
    none: ByJob = {}
    left = if_allowed(lambda: read_pods(task.client(), gone), none) if gone else none
    return {job: [pod for pod in pods if is_unfinished(pod)] for job, pods in left.items()}


def _after_predecessors(task: Task[JobOptions], plans: list[Plan]) -> list[Plan]:
    """The plans, those that create a training after the end of the pods of a former one: both write the same files."""
    new = {
        (plan.namespace, plan.name)
        for plan in plans
        if plan.steps and plan.steps[0].action is Action.CREATE and plan.steps[0].kind == "Job"
    }
    left = _pods_left(task, {job: [] for job in new})
    return [
        plan.with_steps([replace(plan.steps[0], former_pods=tuple(pods)), *plan.steps[1:]])
        if (pods := left.get((plan.namespace, plan.name)))
        else plan
        for plan in plans
    ]


def _live_jobs(task: Task[JobOptions], objects: ByJob, reads_pods: bool) -> dict[JobId, LiveJob]:
    """The jobs that exist and are not terminating."""
    client = task.client()
    live = {
        job: LiveJob(*job, workload=active[0], dependents=tuple(active[1:]))
        for job, found in objects.items()
        if (active := active_objects(found)) and active[0]["kind"] in WORKLOAD_KINDS
    }
    queued = {
        job: found.workload
        for job, found in live.items()
        if is_admitted_by_kueue(found.workload) and not found.has_ended
    }
    admissions = read_admissions(client, queued) | _read_pod_groups(client, live)
    pods = read_pods(client, live) if reads_pods else {}
    know_accelerators(client, task.warn, (pod["spec"] for found in pods.values() for pod in found))
    return {
        job: replace(found, pods=tuple(pods.get(job, ())), admission=admissions.get(job)) for job, found in live.items()
    }


def _read_pod_groups(client: Client, live: Mapping[JobId, LiveJob]) -> dict[JobId, dict[str, Any]]:
    """Volcano's PodGroups of the trainings among the jobs. Those of services go with their pods."""
    found = {}
    for job, each in live.items():
        if each.workload["kind"] == "Job" and not each.has_ended and queue_of(each.workload).backend == "volcano":
            name = POD_GROUP_OF.format(each.workload["metadata"]["uid"])
            if group := if_allowed(partial(client.get, POD_GROUP, each.namespace, name), None):
                found[job] = group
    return found


def read_admissions(client: Client, jobs: Mapping[JobId, Mapping[str, Any]]) -> dict[JobId, dict[str, Any]]:
    """Kueue's Workloads for the given Jobs, with one request per namespace. Raises KubeError without Kueue."""
    if not jobs:
        return {}
    version = preferred_versions(client).get(KUEUE_WORKLOAD.api_version.partition("/")[0])
    if version is None:
        names = ", ".join(f"{name} in namespace {namespace}" for namespace, name in sorted(jobs))
        raise KubeError(
            f"Kueue is not installed (its API group is not served), but jobs are in its queues: {names}. Install "
            f"Kueue, or remove queue.backend kueue from the manifests. Nothing was changed."
        )
    uids: dict[str, dict[str, JobId]] = defaultdict(dict)
    for job, workload in jobs.items():
        uids[job[0]][workload["metadata"]["uid"]] = job
    resource = replace(KUEUE_WORKLOAD, api_version=version)
    found = {}
    for namespace, wanted in sorted(uids.items()):
        for admission in client.list_objects(resource, namespace, labels=KUEUE_JOB_UID):
            uid = admission["metadata"]["labels"][KUEUE_JOB_UID]
            if uid in wanted:
                found[wanted[uid]] = admission
    return found


def _validated_plans(task: Task[JobOptions], plans: list[Plan]) -> list[Plan]:
    return validate_by_dry_run(
        plans,
        task.client(),
        on_immutable=task.options.on_immutable,
        check_mode=task.check_mode,
        keep_going=task.options.continue_on_error,
        warn=task.warn,
        namespace_meant=suggest_namespace(task),
    )


def suggest_namespace(task: Task[JobOptions]) -> Suggest:
    return lambda name: namespace_meant(task.client(), name, allowed_namespaces(task))


def _of_another_owner(plan: Plan, objects: Iterable[Mapping[str, Any]], ownership: Ownership) -> list[tuple[Plan, str]]:
    """A blocker for the workload among the objects of a job, if another user submitted it."""
    workloads = (obj for obj in objects if obj["kind"] in WORKLOAD_KINDS and not is_terminating(obj))
    return [(plan, refusal) for obj in workloads if (refusal := ownership.refusal(obj))][:1]


def of_another_kind(kind: str) -> str:
    return f"the live job is of kind {kind}. Correct the kind, or the name."
