# SPDX-License-Identifier: BSD-2-Clause
"""Judge jobs against the cluster: read what the scheduler looks at, and let fit.py answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...cluster.declared import Declared, read_declared
from ...cluster.nodes import with_use
from ...cluster.pod_facts import PlacedPod
from ...cluster.read_jobs import JobId
from ...cluster.status import pods_wanted
from ...engine.apply import ApplyResult
from ...engine.dry_run import Blocker
from ...engine.plan import WORKLOAD_KINDS, Action, Plan
from ...engine.planning import adds_replicas, starts_pods
from ...jobs.advisers import Advised, Adviser, Fits
from ...jobs.runs.run_history import HISTORIES
from ...jobs.select import SelectedJob
from ...kube.client import Client
from ...kube.concurrency import run_concurrently
from ...kube.errors import AnswerTooLarge, if_allowed
from ...kube.resources import CONFIG_MAP, DEPLOYMENT, JOB, STATEFUL_SET
from ...kube.times import read_time
from ...labels import HISTORY, LEDGER, MANAGED
from ...task import Task
from ..history.job_ends import JobEnd, expected_ends, limited_service, run_lengths, slim_job
from .fit import FitChange, FitJob, IsWanted, fit_jobs
from .fit_changes import changed_jobs, room_of_pools
from .fit_rows import Places, fit_row, preempts_in_vain
from .fit_snapshot import FitSnapshot, read_fit_snapshot
from .quota_rivals import with_rivals

if TYPE_CHECKING:
    from ...jobs.job_options import JobOptions


class FitAdviser(Adviser):
    """Whether the jobs would run, from before they are applied: afterwards, what they have preempted is gone. Only in
    check mode, with ``predict``, and without ``preempt``, which blocks those that preempt others in vain."""

    unknown = "whether the jobs would run is not known"

    def __init__(self, advised: Advised) -> None:
        self._advised = advised
        self._fits: dict[JobId, dict[str, Any]] = {}

    def before(self, plans: Sequence[Plan]) -> list[Blocker]:
        task = self._advised.task
        if task.check_mode or task.options.predict or not task.options.preempt:
            self._fits |= self._fits_of_plans(plans)
        if task.options.preempt:
            return []
        fits = ((plan, self._fits.get((plan.namespace, plan.name))) for plan in plans)
        return [(plan, _in_vain_problem(fit)) for plan, fit in fits if fit and preempts_in_vain(fit)]

    def fits(self, results: Sequence[ApplyResult]) -> Fits:
        return self._fits

    def _fits_of_plans(self, plans: Sequence[Plan]) -> dict[JobId, dict[str, Any]]:
        advised = self._advised
        return fits_of(advised.task, advised.jobs, plans) if advised.builds_objects else {}


def _in_vain_problem(fit: Mapping[str, Any]) -> str:
    return f"{fit['reason']} Use O(preempt=true) to submit it all the same."


def fits_of(task: Task[JobOptions], jobs: Sequence[SelectedJob], plans: Iterable[Plan]) -> dict[JobId, dict[str, Any]]:
    """Whether the jobs that would start pods would run, what they would wait for, and which jobs they would preempt."""
    models = {job.id: job for job in jobs}
    starting, rolling, left = [], set(), {}
    for plan in plans:
        objects = tuple(step.desired for step in plan.steps if step.desired)
        if (starts_pods(plan) or adds_replicas(plan)) and objects:
            needed = next((step.desired for step in plan.prerequisites if step.kind == "PriorityClass"), None)
            starting.append(replace(models[plan.namespace, plan.name], objects=objects, priority_class=needed))
            if _rolls_pods(plan):
                rolling.add((plan.namespace, plan.name))
        elif (number := _pods_kept(plan)) is not None:
            left[plan.namespace, plan.name] = number
    if not starting:
        return {}
    declared = read_declared(task.client(), task.warn)
    if task.options.wait_for_nodes:  # What is added to other pools is not known.
        growing = declared.growing
        starting = [job for job in starting if job.pool in growing]
    rows = judge_jobs(task.client(), starting, declared, rolling, left)
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


def judge_jobs(
    client: Client,
    jobs: Sequence[SelectedJob],
    declared: Declared,
    rolling: Collection[JobId] = (),
    left: Mapping[JobId, int] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """A row for each job. Its objects are built already. ``rolling`` are those that get a rolling update. Of others,
    as many pods as ``left`` has are left before these start."""
    if not jobs:
        return []
    classes = {job.priority_class["metadata"]["name"]: job.priority_class for job in jobs if job.priority_class}
    may_claim = declared.claims_devices or bool(declared.found_classes)
    snapshot = read_fit_snapshot(client, [job.objects for job in jobs], classes, may_claim=may_claim)
    now = datetime.now(timezone.utc)
    ends = _read_ends(client, snapshot, now)
    return rows_of(snapshot, jobs, declared, ends, now, rolling, left)


def rows_of(
    snapshot: FitSnapshot,
    jobs: Sequence[SelectedJob],
    declared: Declared,
    ends: Mapping[JobId, JobEnd],
    now: datetime,
    rolling: Collection[JobId] = (),
    left: Mapping[JobId, int] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """The same from what has been read. Pure."""
    nodes = with_use([one.node for one in snapshot.nodes or ()], [one.use for one in snapshot.pods or ()])
    pools = room_of_pools(nodes)
    judged = [snapshot.job_of(job.objects, rolls=job.id in rolling) for job in jobs]
    selected = {job.id: job for job in jobs}
    seconds = {name: (end.at - now).total_seconds() for name, end in ends.items()}
    leaving = [pod for job, number in left.items() for pod in _in_order_of_their_end(snapshot.pods_of(job))[number:]]
    cluster = replace(snapshot.cluster(seconds), leaving=leaving)

    def variants(job: FitJob, is_wanted: IsWanted) -> Iterator[tuple[FitChange, FitJob]]:
        for change, other in changed_jobs(selected[job.namespace, job.name], declared, pools, is_wanted):
            yield change, snapshot.job_of(other.objects)

    fits = with_rivals(cluster.quotas, fit_jobs(cluster, judged, variants))
    places = Places(nodes)
    rows = [fit_row(fit, job.kind, places, ends, now, cluster.endless) for fit, job in zip(fits, jobs, strict=True)]
    growing = declared.growing
    if not growing:
        return rows
    from .new_nodes import after_new_nodes  # Here: few pools grow.

    return [
        after_new_nodes(row, fit, (other for other in fits if other is not fit), growing, snapshot, places)
        for row, fit in zip(rows, fits, strict=True)
    ]


def _in_order_of_their_end(pods: Sequence[PlacedPod]) -> list[PlacedPod]:
    """Those that a ReplicaSet ends first come last: of the nodes that have the most of them, and the youngest
    (ActivePodsWithRanks, pkg/controller/controller_utils.go)."""
    together = Counter(pod.node for pod in pods)
    return sorted(pods, key=lambda pod: (pod.node is None, together[pod.node], pod.created_at))


def _read_ends(client: Client, snapshot: FitSnapshot, now: datetime) -> dict[JobId, JobEnd]:
    """When the jobs of the cluster end. Three lists, and two where notebooks or services run; without one, less is
    known: it may not be permitted, and all histories of a cluster may be more than a task reads."""
    if not snapshot.pods:
        return {}
    none: list[Any] = []
    reads: tuple[Callable[[], list[Any]], ...] = (
        lambda: client.list_slim(JOB, slim_job),
        lambda: client.list_objects(CONFIG_MAP, fields=f"metadata.name={LEDGER}"),
        lambda: client.list_slim(CONFIG_MAP, run_lengths, labels=HISTORIES, fields=f"metadata.name={HISTORY}"),
    )

    if snapshot.services:
        slim_service = partial(limited_service, now=now)
        reads += tuple(
            partial(client.list_slim, resource, slim_service, labels=MANAGED, metadata_only=True)
            for resource in (DEPLOYMENT, STATEFUL_SET)
        )

    def known(read: Callable[[], list[Any]]) -> list[Any]:
        try:
            return if_allowed(read, none)
        except AnswerTooLarge:
            return none

    jobs, ledgers, histories, *services = run_concurrently(known, reads, client.concurrency)
    limited = dict(filter(None, chain.from_iterable(services)))
    return limited | expected_ends(jobs, ledgers, _pod_deadlines(snapshot), histories)


def _pod_deadlines(snapshot: FitSnapshot) -> dict[JobId, datetime]:
    """By then Kubernetes has ended all pods of a job, if each has a deadline."""
    found: dict[JobId, datetime | None] = {}
    for pod in snapshot.pods or ():
        if pod.node is None:
            continue
        end = _deadline(pod.started_at, pod.ends_by)
        before = found.get(pod.job, end)
        found[pod.job] = max(before, end) if before and end else None
    return {name: end for name, end in found.items() if end}


def _deadline(started_at: str, seconds: int | None) -> datetime | None:
    return read_time(started_at) + timedelta(seconds=seconds) if seconds is not None and started_at else None
