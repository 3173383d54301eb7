# SPDX-License-Identifier: BSD-2-Clause
"""Where a job's pods may run: pool, GPU type, taints, spreading, priority, scheduler."""

from __future__ import annotations

from ... import labels
from ...accelerators import Equipment
from ...manifest.models import JobManifest, Notebook, Resources, Training
from . import queue
from .job_objects import Object, sparse


def placement(manifest: JobManifest, equipment: Equipment) -> Object:
    """The fields of a pod spec that say where it is placed, and with which priority."""
    return sparse(
        {
            "nodeSelector": _node_selector(manifest.resources, equipment),
            "affinity": {**_required_nodes(manifest.resources, equipment), **_near_each_other(manifest)},
            "topologySpreadConstraints": _over_machines(manifest),
            "tolerations": _tolerations(equipment),
            "priorityClassName": labels.priority_class_name(manifest.job.priority),
            "schedulerName": queue.scheduler(manifest.queue) or equipment.scheduler,
        }
    )


def _node_selector(resources: Resources, equipment: Equipment) -> dict[str, str | None]:
    named_pool = resources.pool if resources.pool != labels.DEFAULT_POOL else None
    return sparse({labels.POOL: named_pool, **equipment.node_labels})


def _required_nodes(resources: Resources, equipment: Equipment) -> Object:
    """The pool ``default`` is all nodes without a pool."""
    unclaimed = {"key": labels.POOL, "operator": "DoesNotExist"}
    in_pool = [unclaimed] if resources.pool == labels.DEFAULT_POOL else []
    expressions = [*in_pool, *equipment.expressions]
    if not expressions:
        return {}
    terms = [{"matchExpressions": expressions}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _near_each_other(manifest: JobManifest) -> Object:
    """Put the pods of a training on the same machine where possible."""
    if _wanted_placement(manifest) != "pack":
        return {}
    beside = {"topologyKey": labels.HOSTNAME, "labelSelector": {"matchLabels": labels.pod_selector(manifest.job.name)}}
    preferred = [{"weight": 100, "podAffinityTerm": beside}]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _over_machines(manifest: JobManifest) -> list[Object]:
    """Put the pods of a training, or the replicas of a service, on different machines where possible."""
    if _wanted_placement(manifest) != "spread":
        return []
    return [
        {
            "maxSkew": 1,
            "topologyKey": labels.HOSTNAME,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels.pod_selector(manifest.job.name)},
        }
    ]


def _wanted_placement(manifest: JobManifest) -> str | None:
    """None for a single pod."""
    if isinstance(manifest, Training):
        return manifest.distributed.placement if manifest.resources.node_count > 1 else None
    return None if isinstance(manifest, Notebook) else "spread"


def _tolerations(equipment: Equipment) -> list[Object]:
    """GPU nodes commonly have a taint of their resource's name, which keeps other pods away."""
    keys = equipment.profile.taints if equipment.requests else ()
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]
