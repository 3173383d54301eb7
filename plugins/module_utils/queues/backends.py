# SPDX-License-Identifier: BSD-2-Clause
"""The queueing systems that a pool can have, and what differs between them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ..cluster.pool_declarations import MULTIKUEUE
from ..kube.resources import (
    CLUSTER_QUEUE,
    COHORT,
    HYPER_NODE,
    KUEUE_VERSION,
    LOCAL_QUEUE,
    NATIVE_VERSION,
    QUEUE,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    VOLCANO_TOPOLOGY_VERSION,
    VOLCANO_VERSION,
    Resource,
)
from ..labels import pool_queue_name, team_queue_name


@dataclass(frozen=True)
class Backend:
    """A queueing system. ``kinds`` are the objects of pools, in the order of their creation, each after what it refers
    to. ``queue`` is the kind among them that jobs name, and ``name_of`` that name, by pool and namespace; or None.
    """

    versions: tuple[str, ...]
    install: str
    kinds: tuple[Resource, ...]
    queue: Resource | None
    name_of: Callable[[str, str], str | None]

    def missing(self, served: Collection[str]) -> str | None:
        """A version of its API that the cluster, which serves these, does not."""
        return next((version for version in self.versions if version not in served), None)


BACKENDS = {
    "kueue": Backend(
        (KUEUE_VERSION,),
        "Install Kueue 0.15 or later (https://kueue.sigs.k8s.io/docs/installation)",
        (TOPOLOGY, RESOURCE_FLAVOR, COHORT, CLUSTER_QUEUE, LOCAL_QUEUE),
        LOCAL_QUEUE,
        lambda pool, _namespace: pool_queue_name(pool),
    ),
    "volcano": Backend(
        (VOLCANO_VERSION, VOLCANO_TOPOLOGY_VERSION),
        "Install Volcano 1.11 or later (https://volcano.sh/docs/getting-started/installation)",
        (HYPER_NODE, QUEUE),
        QUEUE,
        team_queue_name,
    ),
    # The Job controller makes the PodGroup of an Indexed Job (pkg/controller/job/job_scheduling_manager.go).
    "native": Backend(
        (NATIVE_VERSION,),
        "Switch it and the feature gates GenericWorkload, GangScheduling and WorkloadWithJob on (Kubernetes 1.36)",
        (),
        None,
        lambda _pool, _namespace: None,
    ),
}
BACKENDS[MULTIKUEUE] = BACKENDS["kueue"]  # A part of Kueue: the same objects, and an AdmissionCheck that they name.
