# SPDX-License-Identifier: BSD-2-Clause
"""The queueing systems, and what each reads from the workload and its pods.

kueue    label kueue.x-k8s.io/queue-name on the workload. Kueue admits a Job as a whole and owns its ``suspend``, which
         is therefore never applied; its webhook labels the pods of Deployments and StatefulSets itself.
volcano  pkg/controllers/podgroup: the queue from the pod's annotation, the size of the gang from its owner's.
native   nothing: the Job controller makes a PodGroup for each Indexed Job. The annotation is for us.
kai      podgrouper: the queue from labels of owner and pod, the size of the gang from the Job's annotation (a plain Job
         counts as a gang of 1 without it).

Kueue and Volcano also place a gang by the topology, as annotations of its pods say. Kueue goes by labels of nodes;
Volcano counts the tiers of its HyperNodes from 1, the narrowest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ...labels import KUEUE_QUEUE, NATIVE_GANG
from ...manifest.job_blocks import Queue

_VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
_VOLCANO_GANG = "scheduling.volcano.sh/group-min-member"
_KAI_QUEUE = "kai.scheduler/queue"
_KAI_GANG = "kai.scheduler/batch-min-member"
_KUEUE_TOPOLOGY = "kueue.x-k8s.io/podset-{}-topology"
_VOLCANO_TOPOLOGY = "volcano.sh/network-topology-mode"
_VOLCANO_TIER = "volcano.sh/network-topology-highest-tier"
_SCHEDULERS = {"volcano": "volcano", "kai": "kai-scheduler"}


class TopologyLevel(NamedTuple):
    """A level of the topology that the pods of a gang share: the label of nodes, and its number from the narrowest."""

    label: str
    tier: int
    required: bool


@dataclass(frozen=True)
class Marks:
    """Labels and annotations to add."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


def on_workload(queue: Queue, pods_together: int) -> Marks:
    """Marks for the workload; its ``pods_together`` pods (1 or more) are placed all or none."""
    labels = {}
    if queue.backend == "kueue" and queue.name:
        labels = {KUEUE_QUEUE: queue.name}
    elif queue.backend == "kai" and queue.name:
        labels = {_KAI_QUEUE: queue.name}
    gang = {"volcano": _VOLCANO_GANG, "kai": _KAI_GANG, "native": NATIVE_GANG}.get(queue.backend)
    return Marks(labels, {gang: str(pods_together)} if gang and pods_together > 1 else {})


def on_pods(queue: Queue, level: TopologyLevel | None = None) -> Marks:
    """Marks for the pod template, whose pods go to one place of a level."""
    if queue.backend == "volcano":
        named = {_VOLCANO_QUEUE: queue.name} if queue.name else {}
        return Marks(annotations={**named, **(_volcano_topology(level) if level else {})})
    if queue.backend == "kueue" and level:
        return Marks(annotations={_KUEUE_TOPOLOGY.format("required" if level.required else "preferred"): level.label})
    if queue.backend == "kai" and queue.name:
        return Marks(labels={_KAI_QUEUE: queue.name})
    return Marks()


def places_by_topology(queue: Queue) -> bool:
    """Whether the queue places a gang by the topology, so that affinity of its pods would only be in the way."""
    return queue.backend in ("kueue", "volcano")


def _volcano_topology(level: TopologyLevel) -> dict[str, str]:
    return {_VOLCANO_TOPOLOGY: "hard" if level.required else "soft", _VOLCANO_TIER: str(level.tier)}


def scheduler(queue: Queue) -> str | None:
    """The scheduler that places the pods; None is the default."""
    return _SCHEDULERS.get(queue.backend)
