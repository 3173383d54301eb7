# SPDX-License-Identifier: BSD-2-Clause
"""The queues of pools, as seen from jobs: which one a running job stays in, and whether there is one for a new job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from ..cluster.admission import JobQueue, queue_of
from ..cluster.pool_declarations import MULTIKUEUE, NATIVE, Declaration
from ..cluster.status import is_suspended, is_terminating, pods_ready
from ..engine.dry_run import Blocker
from ..engine.plan import Plan
from ..engine.planning import starts_pods
from ..kube.client import Client
from ..kube.discovery import group_versions
from ..kube.errors import if_allowed
from ..labels import POOL
from ..manifest.problems import enumerated
from ..queues.backends import BACKENDS

Object = dict[str, Any]


def kept_queue(workload: Object, live: Sequence[Object]) -> JobQueue | None:
    """The queue that a job stays in because it started there; None if it is built for the right one.

    Kueue lets the queue of a Job change only while it is suspended (kueue pkg/controller/jobframework/validation.go),
    and that of a service while none of its pods is ready, but not go (pkg/controller/jobs/deployment, ValidateUpdate).
    To be scheduled by Volcano, or no longer, pods are started again. What the manifest says itself is left as it is.
    """
    former = next((obj for obj in live if obj["kind"] == workload["kind"] and not is_terminating(obj)), None)
    if former is None:
        return None
    wanted, found = queue_of(workload), queue_of(former)
    if wanted == found or not (_is_of_pool(workload, wanted) or _is_of_pool(former, found)):
        return None
    if workload["kind"] == "Job":
        # Kubernetes makes the PodGroup of a Job that has never run (job_scheduling_manager.go, isNewJob).
        may_change = is_suspended(former) and NATIVE not in (wanted.backend, found.backend)
    else:
        may_change = pods_ready(former) == 0 and (found.backend != "kueue" or wanted.backend == "kueue")
    return None if may_change else found


def missing_queues(client: Client, plans: Iterable[Plan]) -> list[Blocker]:
    """Blockers for jobs that are about to wait in the queue of a pool that their namespace does not have.

    Nothing is asked for jobs of other pools. What the account may not read is not judged.
    """
    waiting: dict[tuple[str, str | None], list[Plan]] = defaultdict(list)
    for plan in plans:
        if starts_pods(plan) and _is_of_pool(plan.steps[0].desired, queue := queue_of(plan.steps[0].desired)):
            kind = BACKENDS[queue.backend].queue
            place = plan.namespace if kind and kind.namespaced else None
            waiting[queue.backend, place].append(plan)
    served = group_versions(client) if waiting else frozenset()
    return [
        blocker
        for (name, place), found in waiting.items()
        for blocker in _missing_queue_blockers(client, served, name, place, found)
    ]


def _missing_queue_blockers(
    client: Client, served: Collection[str], name: str, place: str | None, plans: Sequence[Plan]
) -> list[Blocker]:
    backend = BACKENDS[name]
    if version := backend.missing(served):
        text = (
            f"its pool has the queue {name}, but the cluster does not serve {version}. {backend.install}, or remove "
            f"queue from the pool."
        )
        return [(plan, text) for plan in plans]
    if backend.queue is None:
        return []
    live = if_allowed(partial(client.list_objects, backend.queue, place, metadata_only=True), None)
    queues = {obj["metadata"]["name"] for obj in live or ()}
    blockers = []
    for plan in plans if live is not None else ():
        workload = plan.steps[0].desired
        queue = queue_of(workload).name
        if queue not in queues:
            text = (
                f"namespace {plan.namespace} has no queue for pool {workload['metadata']['labels'][POOL]} "
                f"({backend.queue.kind} {queue}). An administrator gives it a quota with M(gpuctl_quota), or declares "
                f"the pool again with M(gpuctl_pool)."
            )
            blockers.append((plan, text))
    return blockers


def pool_queue(backend: str, pool: str, namespace: str) -> JobQueue:
    """The queue that jobs of a namespace have in a pool."""
    return JobQueue("kueue" if backend == MULTIKUEUE else backend, BACKENDS[backend].name_of(pool, namespace))


def is_dispatched(pool: Declaration | None) -> bool:
    """Whether Kueue hands the jobs of the pool to other clusters."""
    return bool(pool and pool.queue and pool.queue.backend == MULTIKUEUE)


def dispatch_problem(objects: Sequence[Object]) -> tuple[str, str] | None:
    """Why Kueue cannot run a job in another cluster, and a hint: it copies a Job there, and nothing that it needs."""
    workload, *others = objects
    parts = [] if workload["kind"] == "Job" else [workload["kind"]]
    parts += sorted({obj["kind"] for obj in others})
    if not parts:
        return None
    return (
        f"its pool has queue: multikueue, and Kueue copies only Jobs to worker clusters, but this job has a "
        f"{enumerated(parts, 'and a')}",
        "Use a training on one node, or submit the job to one of the worker clusters",
    )


def _is_of_pool(workload: Object, queue: JobQueue) -> bool:
    """Whether the workload has the queue from its pool."""
    if queue.backend not in BACKENDS:
        return False
    metadata = workload["metadata"]
    return queue == pool_queue(queue.backend, (metadata.get("labels") or {}).get(POOL, ""), metadata["namespace"])
