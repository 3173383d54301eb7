# SPDX-License-Identifier: BSD-2-Clause
"""Where a job's pods may run: pool, GPU type, taints, priority, scheduler."""

from __future__ import annotations

from ... import labels
from ...accelerators import ACCELERATORS, container_requests
from ...manifest.models import JobManifest, Resources
from . import queue
from .job_objects import Object, sparse


def placement(manifest: JobManifest) -> Object:
    """The fields of a pod spec that say where it is placed, and with which priority."""
    return sparse(
        {
            "nodeSelector": _node_selector(manifest.resources),
            "affinity": _outside_of_pools() if manifest.resources.pool == labels.DEFAULT_POOL else None,
            "tolerations": _tolerations(manifest.resources),
            "priorityClassName": labels.priority_class_name(manifest.job.priority),
            "schedulerName": queue.scheduler(manifest.queue),
        }
    )


def spread_over_nodes(name: str) -> list[Object]:
    """Put the replicas of a service on different nodes where possible."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": labels.HOSTNAME,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels.pod_selector(name)},
        }
    ]


def uses_gpu(resources: Resources) -> bool:
    """Whether the pods get a GPU, or a share of one."""
    return bool(container_requests(resources))


def _node_selector(resources: Resources) -> dict[str, str | None]:
    named_pool = resources.pool if resources.pool != labels.DEFAULT_POOL else None
    return sparse({labels.POOL: named_pool, labels.GPU_TYPE: resources.gpu_type})


def _outside_of_pools() -> Object:
    """The pool ``default`` is all nodes without a pool."""
    unclaimed = {"matchExpressions": [{"key": labels.POOL, "operator": "DoesNotExist"}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [unclaimed]}}}


def _tolerations(resources: Resources) -> list[Object]:
    """GPU nodes commonly have a taint of their resource's name, which keeps other pods away."""
    keys = [ACCELERATORS[resource].taint for resource in container_requests(resources)]
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]
