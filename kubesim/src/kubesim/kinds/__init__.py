# SPDX-License-Identifier: BSD-2-Clause
"""The strategies of all stored kinds, by kind."""

from __future__ import annotations

from kubesim.kinds.cluster_scoped import NamespaceStrategy, NodeStrategy, PriorityClassStrategy
from kubesim.kinds.config import ConfigMapStrategy, SecretStrategy
from kubesim.kinds.deployment import DeploymentStrategy
from kubesim.kinds.hpa import HorizontalPodAutoscalerStrategy
from kubesim.kinds.job import JobStrategy
from kubesim.kinds.limits import LimitRangeStrategy, ResourceQuotaStrategy
from kubesim.kinds.pod import PodStrategy
from kubesim.kinds.pvc import PersistentVolumeClaimStrategy
from kubesim.kinds.replicaset import ReplicaSetStrategy
from kubesim.kinds.service import ServiceStrategy
from kubesim.kinds.small_kinds import (
    ClusterRoleBindingStrategy,
    ClusterRoleStrategy,
    ControllerRevisionStrategy,
    EndpointSliceStrategy,
    EndpointsStrategy,
    EventStrategy,
    LeaseStrategy,
    PodDisruptionBudgetStrategy,
    RoleBindingStrategy,
    RoleStrategy,
    ServiceAccountStrategy,
)
from kubesim.kinds.statefulset import StatefulSetStrategy
from kubesim.kinds.strategy import Strategy
from kubesim.kinds.workload import WorkloadStrategy

STRATEGIES: dict[str, Strategy] = {
    strategy.kind: strategy()
    for strategy in (
        ClusterRoleBindingStrategy,
        ClusterRoleStrategy,
        ConfigMapStrategy,
        ControllerRevisionStrategy,
        DeploymentStrategy,
        EndpointSliceStrategy,
        EndpointsStrategy,
        EventStrategy,
        HorizontalPodAutoscalerStrategy,
        JobStrategy,
        LeaseStrategy,
        LimitRangeStrategy,
        NamespaceStrategy,
        NodeStrategy,
        PersistentVolumeClaimStrategy,
        PodDisruptionBudgetStrategy,
        PodStrategy,
        PriorityClassStrategy,
        ReplicaSetStrategy,
        ResourceQuotaStrategy,
        RoleBindingStrategy,
        RoleStrategy,
        SecretStrategy,
        ServiceAccountStrategy,
        ServiceStrategy,
        StatefulSetStrategy,
        WorkloadStrategy,
    )
}
