# SPDX-License-Identifier: BSD-2-Clause
"""The queueing systems that a pool can have, and what differs between them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ..kube.resources import (
    CLUSTER_QUEUE,
    COHORT,
    HYPER_NODE,
    KUEUE_VERSION,
    LOCAL_QUEUE,
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
    to. ``queue`` is the kind among them that jobs name, and ``name_of`` that name, by pool and namespace.
    """

    versions: tuple[str, ...]
    install: str
    kinds: tuple[Resource, ...]
    queue: Resource
    name_of: Callable[[str, str], str]

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
}
