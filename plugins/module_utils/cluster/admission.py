# SPDX-License-Identifier: BSD-2-Clause
"""Which queue a job is in. What it waits for there: queue_reasons.py and native_gangs.py. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..kube.resources import Object
from ..labels import KUEUE_QUEUE, NATIVE_GANG, VOLCANO_QUEUE, VOLCANO_SCHEDULER


class JobQueue(NamedTuple):
    """A queue by the name of its system, as manifests name it. Volcano has a default, whose name jobs leave out."""

    backend: str
    name: str | None = None


def queue_of(workload: Object) -> JobQueue:
    """The queue that a workload asks for."""
    labels = workload["metadata"].get("labels") or {}
    if KUEUE_QUEUE in labels:
        return JobQueue("kueue", labels[KUEUE_QUEUE])
    template = (workload.get("spec") or {}).get("template") or {}
    if (template.get("spec") or {}).get("schedulerName") == VOLCANO_SCHEDULER:
        return JobQueue("volcano", ((template.get("metadata") or {}).get("annotations") or {}).get(VOLCANO_QUEUE))
    return JobQueue("native" if NATIVE_GANG in (workload["metadata"].get("annotations") or {}) else "none")


# What Volcano names the PodGroup that it makes for the pods of a controller, by its uid (GeneratePodgroupName).
POD_GROUP_OF = "podgroup-{}"


def pod_groups_of(pods: Iterable[Object]) -> set[str]:
    """The names of the PodGroups of pods that Volcano is to schedule, and that have no node."""
    waiting = (
        pod for pod in pods if pod["spec"].get("schedulerName") == VOLCANO_SCHEDULER and not pod["spec"].get("nodeName")
    )
    owners = (owner for pod in waiting for owner in pod["metadata"].get("ownerReferences") or ())
    return {POD_GROUP_OF.format(owner["uid"]) for owner in owners}
