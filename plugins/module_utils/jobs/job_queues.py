# SPDX-License-Identifier: BSD-2-Clause
"""The queues of pools, as seen from jobs: which one a running job stays in, and whether there is one for a new job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from ..cluster.status import is_terminating, pods_ready, status_of
from ..engine.dry_run import Blocker
from ..engine.plan import Plan, starts_pods
from ..kube.client import Client
from ..kube.errors import if_allowed
from ..kube.resources import INSTALL_KUEUE, KUEUE_VERSION, LOCAL_QUEUE
from ..labels import KUEUE_QUEUE, POOL, pool_queue_name

Object = dict[str, Any]


def keep_queue(objects: tuple[Object, ...], live: Sequence[Object]) -> tuple[Object, ...]:
    """The objects of a job, the workload first, in the queue that it started in.

    Kueue lets the queue of a Job change only while it is suspended (kueue pkg/controller/jobframework/validation.go),
    and that of a service while none of its pods is ready, but not go (pkg/controller/jobs/deployment, ValidateUpdate).
    What the manifest says itself is left as it is.
    """
    workload = objects[0]
    former = next((obj for obj in live if obj["kind"] == workload["kind"] and not is_terminating(obj)), None)
    if former is None:
        return objects
    wanted, found = _queue_of(workload), _queue_of(former)
    if workload["kind"] == "Job":
        may_change = status_of(former) == "Paused"
    else:
        may_change = wanted is not None and pods_ready(former) == 0
    if may_change:
        return objects
    if wanted == found or pool_queue_of(workload) not in (wanted, found):
        return objects
    kept = {key: value for key, value in workload["metadata"]["labels"].items() if key != KUEUE_QUEUE}
    kept |= {KUEUE_QUEUE: found} if found else {}
    return ({**workload, "metadata": {**workload["metadata"], "labels": kept}}, *objects[1:])


def missing_queues(client: Client, plans: Iterable[Plan]) -> list[Blocker]:
    """Blockers for jobs that are about to wait in the queue of a pool that their namespace does not have.

    Nothing is asked for jobs of other pools. What the account may not read is not judged.
    """
    waiting: dict[str, list[Plan]] = defaultdict(list)
    for plan in plans:
        if starts_pods(plan) and _queue_of(plan.steps[0].desired) == pool_queue_of(plan.steps[0].desired):
            waiting[plan.namespace].append(plan)
    if not waiting:
        return []
    if not client.serves(KUEUE_VERSION):
        text = (
            f"its pool has the queue kueue, but the cluster does not serve {KUEUE_VERSION}. {INSTALL_KUEUE}, or remove "
            f"queue from the pool."
        )
        return [(plan, text) for found in waiting.values() for plan in found]
    blockers = []
    for namespace, found in waiting.items():
        queues = if_allowed(partial(_queues_in, client, namespace), None)
        if queues is None:
            continue
        for plan in found:
            queue = _queue_of(plan.steps[0].desired)
            if queue not in queues:
                pool = plan.steps[0].desired["metadata"]["labels"][POOL]
                text = (
                    f"namespace {namespace} has no queue for pool {pool} (LocalQueue {queue}). An administrator gives "
                    f"it a quota with M(gpuctl_quota), or declares the pool again with M(gpuctl_pool)."
                )
                blockers.append((plan, text))
    return blockers


def _queues_in(client: Client, namespace: str) -> set[str] | None:
    return {obj["metadata"]["name"] for obj in client.list_objects(LOCAL_QUEUE, namespace, metadata_only=True)}


def pool_queue_of(workload: Object) -> str:
    """The queue that the pool of a workload has, if it has one."""
    return pool_queue_name((workload["metadata"].get("labels") or {}).get(POOL, ""))


def _queue_of(workload: Object) -> str | None:
    found: str | None = (workload["metadata"].get("labels") or {}).get(KUEUE_QUEUE)
    return found
