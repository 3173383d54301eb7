# SPDX-License-Identifier: BSD-2-Clause
"""Trainings on several nodes without a queue: findings for administrators only. Pure.

The users who submit such a training cannot change the queue, so only plan and doctor report it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..cluster.admission import queue_of
from ..labels import DEFAULT_POOL, POOL
from ..manifest.problems import abridged

DEFAULT_SCHEDULER = "default-scheduler"
GANG_HINT = (
    "Give the pool a queue (queue: kueue in its manifest), which allocates all nodes of a training at once. Without a "
    "pool, set queue.backend in the manifests of the trainings."
)
_NAMED = 3


def one_by_one(jobs: Sequence[str]) -> str:
    """kube-scheduler places pod by pod: two trainings can each hold half of the nodes that both need."""
    noun = "training" if len(jobs) == 1 else "trainings"
    return (
        f"the nodes of {noun} {abridged(jobs, _NAMED)} are allocated one by one. Two such trainings can block each "
        f"other, each with a part of the nodes that both need"
    )


def gang_advice(workloads: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each pool in which trainings among the workloads are placed pod by pod."""
    gangs: dict[str, list[str]] = defaultdict(list)
    for workload in workloads:
        metadata, spec = workload["metadata"], workload["spec"]
        pod = spec["template"]["spec"]
        is_alone = pod.get("schedulerName", DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER
        if spec.get("completions", 1) > 1 and is_alone and queue_of(workload).backend == "none":
            gangs[(pod.get("nodeSelector") or {}).get(POOL, DEFAULT_POOL)].append(metadata["name"])
    for pool, jobs in gangs.items():
        yield f"pool {pool}: {one_by_one(jobs)}. {GANG_HINT}"
