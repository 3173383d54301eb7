# SPDX-License-Identifier: BSD-2-Clause
"""The controllers of a cluster: kube-controller-manager's, the scheduler, and a kubelet for all nodes."""

from __future__ import annotations

from .base import Controller
from .deployment import DeploymentController
from .disruption import DisruptionController
from .endpoints import EndpointsController
from .garbage_collector import GarbageCollector
from .hpa import HorizontalPodAutoscalerController
from .job import JobController
from .kubelet import Kubelet
from .kueue import KueueController
from .namespace import NamespaceController
from .native_gangs import GangScheduler
from .node_lifecycle import NodeLifecycleController
from .replicaset import ReplicaSetController
from .resource_claim import ResourceClaimController
from .resource_quota import ResourceQuotaController
from .scheduler import Scheduler
from .serviceaccount import ServiceAccountController
from .statefulset import StatefulSetController
from .taint_eviction import TaintEvictionController
from .ttl_after_finished import TTLAfterFinishedController
from .volcano import VolcanoScheduler
from .volumes import ClaimController

ALL: list[type[Controller]] = [
    NamespaceController,
    ServiceAccountController,
    GarbageCollector,
    JobController,
    TTLAfterFinishedController,
    DeploymentController,
    ReplicaSetController,
    StatefulSetController,
    EndpointsController,
    DisruptionController,
    HorizontalPodAutoscalerController,
    ResourceQuotaController,
    ClaimController,
    ResourceClaimController,
    NodeLifecycleController,
    TaintEvictionController,
    Scheduler,
    Kubelet,
]
#: Those of parts beside Kubernetes, by the name of the part.
OF_ADDONS: dict[str, type[Controller]] = {
    "kueue": KueueController,
    "volcano": VolcanoScheduler,
    "native-gangs": GangScheduler,
}
