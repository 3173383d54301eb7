# SPDX-License-Identifier: BSD-2-Clause
"""Where a job's pods may run: pool, GPU type, taints, spreading, priority, scheduler."""

from __future__ import annotations

from ... import labels
from ...accelerators.equipment import Equipment
from ...accelerators.hardware import PoolHardware, UnfitHardware
from ...kube.api_objects import Object, sparse
from ...manifest.job_blocks import JobManifest, Resources
from ...manifest.job_models import Notebook, Training
from . import queue


def placement(manifest: JobManifest, equipment: Equipment) -> Object:
    """The fields of a pod spec that say where it is placed, and with which priority."""
    return sparse(
        {
            "nodeSelector": _node_selector(manifest.resources, equipment),
            "affinity": {**_required_nodes(manifest.resources, equipment), **_near_each_other(manifest, equipment)},
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


def _near_each_other(manifest: JobManifest, equipment: Equipment) -> Object:
    """Put the pods of a training on one machine, in one place of a level of the topology, in one domain of NVLink.

    The first pod may go anywhere: a pod that a required term would match itself needs no other
    (pkg/scheduler/framework/plugins/interpodaffinity).
    """
    level = topology_level(manifest, equipment.pool)
    required, preferred = [], []
    if _wanted_placement(manifest) == "pack":
        preferred.append({"weight": 100, "podAffinityTerm": _same_domain_term(manifest, labels.HOSTNAME)})
    if level and not queue.places_by_topology(manifest.queue):
        term = _same_domain_term(manifest, level.label)
        if level.required:
            required.append(term)
        else:
            preferred.append({"weight": 100, "podAffinityTerm": term})
    joined = isinstance(manifest, Training) and manifest.resources.node_count > 1
    if joined and manifest.resources.interconnect == "nvlink-domain":
        required.append(_same_domain_term(manifest, equipment.profile.part("labels")["domain"]))
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    return sparse({"podAffinity": sparse(affinity)})


def _same_domain_term(manifest: JobManifest, topology_key: str) -> Object:
    selector = {"matchLabels": labels.pod_selector(manifest.job.name)}
    return {"topologyKey": topology_key, "labelSelector": selector}


def topology_level(manifest: JobManifest, pool: PoolHardware) -> queue.TopologyLevel | None:
    """The level of the pool's topology within which the pods of a training go. Raises UnfitHardware."""
    if not isinstance(manifest, Training) or manifest.resources.node_count == 1:
        return None
    wanted = manifest.distributed.placement
    if wanted.within is None:
        return None
    if wanted.within not in pool.topology:
        known = f"It declares {', '.join(pool.topology)}" if pool.topology else "It declares none"
        problem = f"a level that pool {manifest.resources.pool} does not declare: {wanted.within}"
        hint = f"{known}. Declare topology of the pool with M(gpuctl_pool), or correct it"
        raise UnfitHardware("distributed.placement.within", problem, hint)
    tier = len(pool.topology) - list(pool.topology).index(wanted.within)
    return queue.TopologyLevel(pool.topology[wanted.within], tier, wanted.required)


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
        return manifest.distributed.placement.machines if manifest.resources.node_count > 1 else None
    return None if isinstance(manifest, Notebook) else "spread"


def _tolerations(equipment: Equipment) -> list[Object]:
    """GPU nodes commonly have a taint of their resource's name, which keeps other pods away."""
    # The admission plugin ExtendedResourceToleration adds the same, but is off by default and does not see claims.
    keys = equipment.profile.taints if equipment.requests else ()
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]
