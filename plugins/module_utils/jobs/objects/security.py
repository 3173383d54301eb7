# SPDX-License-Identifier: BSD-2-Clause
"""What the processes of a pod may do. pod_levels.py has what some namespaces want beyond that. Pure."""

from __future__ import annotations

from ...kube.api_objects import Object, sparse
from ...manifest.job_blocks import Environment, Resources

LOCK_MEMORY = "IPC_LOCK"


def pod_fields(environment: Environment) -> Object:
    """The fields of a pod spec: no token of a service account, the runtime's filter of system calls, and the user."""
    # Without a profile, containers run unconfined unless the kubelet has seccompDefault (kuberuntime/helpers.go).
    account, run_as = environment.service_account, environment.run_as
    user = sparse({"runAsUser": run_as.user, "runAsGroup": run_as.group, "fsGroup": run_as.fs_group}) if run_as else {}
    # By default, the kubelet changes the group of every file of a volume whenever a pod starts: minutes for a dataset.
    policy = {"fsGroupChangePolicy": "OnRootMismatch"} if "fsGroup" in user else {}
    return {
        **({"serviceAccountName": account} if account else {}),
        "automountServiceAccountToken": account is not None,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, **user, **policy},
    }


def container_fields(environment: Environment, resources: Resources) -> Object:
    """The fields of a container. RDMA locks the memory that it registers (Mellanox/k8s-rdma-shared-dev-plugin)."""
    capabilities = {"capabilities": {"add": [LOCK_MEMORY]}} if resources.interconnect == "rdma" else {}
    return {"securityContext": {"allowPrivilegeEscalation": environment.allow_sudo, **capabilities}}
