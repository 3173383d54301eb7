# SPDX-License-Identifier: BSD-2-Clause
"""What each level of gpuctl_rbac allows, and which one an account lacks that the API server has refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from .labels import SYSTEM_NAMESPACE, owner_of_reserved

READ, SUBMIT, ADMINISTER = "read", "submit", "administer"
LEVELS = (READ, SUBMIT, ADMINISTER)

# The roles of a level, by where they are bound. RBAC has no exceptions: what is granted in the whole cluster is granted
# in kube-system. So what reads logs or writes workloads is only ever bound in the namespaces of jobs.
LOGS, SUBMIT_CLUSTER = "logs", "submit-cluster"
SUBMIT_POOLS, ADMINISTER_POOLS = "submit-pools", "administer-pools"  # in gpuctl-system
_ADMINISTER_JOBS = "administer-jobs"
EXEC = "exec"  # in the namespaces of an account that submits jobs, if asked for

# Each entry is verbs, and resources as kubectl takes them: plural[/subresource][.group].
Permissions = tuple[tuple[str, str], ...]

_WORKLOADS = "jobs.batch deployments.apps statefulsets.apps"

# Devices are claimed where a pool has a DeviceClass; who has them, and why there are none.
_OFFERED_DEVICES = "deviceclasses.resource.k8s.io resourceslices.resource.k8s.io"
_CLAIMS = "resourceclaims.resource.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

# What pools with a queue are made of (queues/backends.py).
_QUEUES = (
    "clusterqueues.kueue.x-k8s.io cohorts.kueue.x-k8s.io localqueues.kueue.x-k8s.io resourceflavors.kueue.x-k8s.io "
    "topologies.kueue.x-k8s.io hypernodes.topology.volcano.sh queues.scheduling.volcano.sh"
)

# gpuctl_job_info, gpuctl_node_info, gpuctl_pool_info, gpuctl_quota_info, gpuctl_status
_READ_PERMISSIONS: Permissions = (
    ("get list watch", _WORKLOADS),  # The event source runwhere.gpuctl.jobs watches.
    ("list watch", "events nodes pods resourcequotas"),
    ("list", "configmaps horizontalpodautoscalers.autoscaling services"),
    ("get list", "namespaces"),
    ("list", f"{_OFFERED_DEVICES} {_CLAIMS}"),
    # gpuctl_doctor
    ("list", "clusterroles.rbac.authorization.k8s.io leases.coordination.k8s.io priorityclasses.scheduling.k8s.io"),
    ("list", "runtimeclasses.node.k8s.io storageclasses.storage.k8s.io podgroups.scheduling.k8s.io"),
    ("list", "apiservices.apiregistration.k8s.io scaledobjects.keda.sh"),
    ("get", "*.custom.metrics.k8s.io *.external.metrics.k8s.io"),  # What services scale by.
    ("list", "workloads.kueue.x-k8s.io podgroups.scheduling.volcano.sh"),  # What jobs in queues wait for.
    # gpuctl_fit_info
    ("list", "csidrivers.storage.k8s.io csinodes.storage.k8s.io"),
    ("list", "limitranges persistentvolumeclaims persistentvolumes poddisruptionbudgets.policy"),
    # What others may refuse a job by (insight/fit/unjudged_admission.py)
    ("list", f"validatingadmissionpolicies.{_ADMISSION} validatingadmissionpolicybindings.{_ADMISSION}"),
    ("list", f"validatingwebhookconfigurations.{_ADMISSION} mutatingwebhookconfigurations.{_ADMISSION}"),
)

# gpuctl_job_log
_LOGS_PERMISSIONS: Permissions = (("get", "pods/log"),)

# gpuctl_copy. Over WebSocket the API server asks for ``get``, and from Kubernetes 1.35 for ``create`` as well.
_EXEC_PERMISSIONS: Permissions = (("get create", "pods/exec"),)

# gpuctl_job, and reading its result
_SUBMIT_PERMISSIONS: Permissions = (
    ("get list watch create patch delete", _WORKLOADS),
    (
        "get list create patch delete",
        "configmaps services horizontalpodautoscalers.autoscaling resourceclaimtemplates.resource.k8s.io",
    ),
    ("list", _CLAIMS),
    ("list create deletecollection", "controllerrevisions.apps"),
    ("list watch", "events"),
    ("list watch delete deletecollection", "pods"),
    ("get", "pods/log"),
    ("get", "namespaces"),  # In a RoleBinding, its own: the Pod Security level that it enforces.
    ("list", "limitranges resourcequotas"),
    ("list", "persistentvolumeclaims serviceaccounts"),  # jobs/prechecks.py: whether what a job refers to exists.
    ("get list patch", "workloads.kueue.x-k8s.io"),
    ("list", "localqueues.kueue.x-k8s.io"),
    ("get list delete", "podgroups.scheduling.volcano.sh"),
    ("label", "jobs.runwhere.ai"),  # No request: what policies ask, see policies/admission_policies.py.
)

# Node addresses for URLs, and whether the PriorityClasses of jobs are as they should be.
_CLUSTER_PERMISSIONS: Permissions = (
    ("list", f"nodes priorityclasses.scheduling.k8s.io {_OFFERED_DEVICES}"),
    ("list", "queues.scheduling.volcano.sh"),
)

# What administrators declare of pools and accelerators.
_DECLARED_PERMISSIONS: Permissions = (("list", "configmaps"),)

# gpuctl_pool, gpuctl_node_label, gpuctl_quota, gpuctl_rbac
_ADMINISTER_PERMISSIONS: Permissions = (
    *_READ_PERMISSIONS,
    *_CLUSTER_PERMISSIONS,
    ("list create patch delete", "limitranges"),
    ("get list create patch delete", "namespaces"),
    ("get patch", "nodes"),
    ("label", "nodes.runwhere.ai"),
    ("list", "persistentvolumeclaims"),
    ("get list create patch delete", _QUEUES),
    ("get create patch delete", "resourcequotas"),
    (
        "get list create patch delete",
        "rolebindings.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io",
    ),
)

# The accounts of gpuctl_rbac: only in the namespaces of jobs, and in gpuctl-system; gpuctl_kubeconfig
_ACCOUNT_PERMISSIONS: Permissions = (
    ("get create patch delete", "serviceaccounts"),
    ("create", "serviceaccounts/token"),
)

# gpuctl_workspace; its Secret is below, by name.
_WORKSPACE_PERMISSIONS: Permissions = (
    ("get create patch delete", "persistentvolumeclaims"),
    ("create", "secrets"),
)

# The declarations of pools; their Lease is below, by name.
_POOL_PERMISSIONS: Permissions = (
    ("get list create patch delete", "configmaps"),
    ("create", "leases.coordination.k8s.io"),
    *_ACCOUNT_PERMISSIONS,
)

PERMISSIONS: Mapping[str, Permissions] = {
    READ: _READ_PERMISSIONS,
    LOGS: _LOGS_PERMISSIONS,
    EXEC: _EXEC_PERMISSIONS,
    SUBMIT: _SUBMIT_PERMISSIONS,
    SUBMIT_CLUSTER: _CLUSTER_PERMISSIONS,
    SUBMIT_POOLS: _DECLARED_PERMISSIONS,
    ADMINISTER: _ADMINISTER_PERMISSIONS,
    _ADMINISTER_JOBS: (
        *_SUBMIT_PERMISSIONS,
        *_ACCOUNT_PERMISSIONS,
        *_WORKSPACE_PERMISSIONS,
        ("create", "events"),  # by which gpuctl_idle and gpuctl_expire tell the users of jobs
    ),
    ADMINISTER_POOLS: _POOL_PERMISSIONS,
}
ROLES = {READ: (READ, LOGS), SUBMIT: (SUBMIT, SUBMIT_CLUSTER, SUBMIT_POOLS)}
IN_JOBS = {READ: LOGS, SUBMIT: SUBMIT, ADMINISTER: _ADMINISTER_JOBS}  # what is bound in each namespace for jobs

# For objects with certain names only (rbac/levels.py).
NAMED_PERMISSIONS: Mapping[str, Permissions] = {
    ADMINISTER: (
        ("get create patch delete", "priorityclasses.scheduling.k8s.io"),
        # Not to write: Kubernetes lets an account write only rules into a role that it holds in the whole cluster,
        # and the verb ``escalate`` would lift that for all rules.
        ("get bind", "clusterroles.rbac.authorization.k8s.io"),
    ),
    ADMINISTER_POOLS: (("get patch", "leases.coordination.k8s.io"),),
    _ADMINISTER_JOBS: (("get patch delete", "secrets"),),
}


@dataclass(frozen=True)
class MissingPermission:
    """What the API server has refused to a user; without a namespace, in the whole cluster."""

    user: str
    verb: str
    resource: str  # as in PERMISSIONS
    namespace: str | None
    least: str = READ  # the level that the rest of the task needs

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.place}"

    @property
    def place(self) -> str:
        return f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"

    @property
    def sentences(self) -> str:
        """What is missing and how an administrator grants it, without the last full stop."""
        if self.level is None:
            return f"Missing permission: {self}. No level of gpuctl_rbac has it"
        return (
            f"Missing permission: {self}. The level {self.level} of gpuctl_rbac has it"
            f"{' with exec=true' if self.is_exec else ''}. "
            f"An administrator grants it with: {self.grant_command()}"
        )

    @property
    def level(self) -> str | None:
        """The lowest that has it, and all else that the task needs."""
        having = [level for level, _role in self._grants()]
        enough = (level for level in having if LEVELS.index(level) >= LEVELS.index(self.least))
        return next(chain(enough, having), None)

    @property
    def is_exec(self) -> bool:
        """Whether it is to run commands in containers, which a level includes only if asked for."""
        return self.resource == "pods/exec"

    def is_of(self, level: str) -> bool:
        """Whether the level has it."""
        return any(one == level for one, _role in self._grants())

    def _grants(self) -> Iterator[tuple[str, str]]:
        """The levels that have it, the lowest first, each with the role."""
        for level in LEVELS:
            for role in _roles_at(level, self.namespace):
                rows = (*PERMISSIONS[role], *NAMED_PERMISSIONS.get(role, ()))
                if any(self.verb in verbs.split() and self.resource in named.split() for verbs, named in rows):
                    yield level, role

    def grant_command(self) -> str:
        """What an administrator types, if a level has it."""
        level = self.level
        account = _ACCOUNT.fullmatch(self.user)
        place = self.namespace or ("ITS_NAMESPACES" if level == SUBMIT else None)
        limit = (f" namespaces={place}" if place else "") + (" exec=true" if self.is_exec else "")
        # The level may be lower than what the account has elsewhere, which the message does not say.
        who = f"name={account[2]} namespace={account[1]}" if account else f"kind=user name={_typed(self.user)}"
        return f'ansible localhost -m runwhere.gpuctl.gpuctl_rbac -a "{who} level={level}{limit} append=true"'


def listed(missing: Iterable[MissingPermission]) -> str:
    """Those with the same verbs and place together."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for each in sorted(set(missing), key=str):
        verbs.setdefault((each.resource, each.place), []).append(each.verb)
    groups: dict[tuple[str, str], list[str]] = {}
    for (resource, place), those in verbs.items():
        groups.setdefault((", ".join(those), place), []).append(resource)
    return "; ".join(f"{those} {', '.join(resources)} {place}" for (those, place), resources in groups.items())


def grant_text(missing: Collection[MissingPermission]) -> str:
    """What is missing, and the commands that grant it at the end."""
    text, commands = f"Missing permissions: {listed(missing)}.", grant_commands(missing)
    return f"{text} An administrator grants them with: {'; '.join(commands)}" if commands else text


def grant_commands(missing: Iterable[MissingPermission]) -> list[str]:
    """What an administrator types for all of them: a level in the whole cluster includes its namespaces."""
    granted = [each for each in missing if each.level]
    wide = {each.level for each in granted if not each.namespace}
    needed = [each for each in granted if not each.namespace or each.level not in wide]
    if ADMINISTER in wide:  # It may have what a lower level would give, too.
        needed = [each for each in needed if each.level == ADMINISTER or not each.is_of(ADMINISTER)]
    return list(dict.fromkeys(each.grant_command() for each in needed))


def _typed(user: str) -> str:
    """The name within double quotes of a shell; a word in its place where that is not the same, or is no user's."""
    is_plain = re.fullmatch(r"[\w.@:+=,/ -]+", user) and not user.startswith("system:")
    return f"'{user}'" if is_plain and re.search(r"[\s=]", user) else user if is_plain else "USER"


_ACCOUNT = re.compile(r"system:serviceaccount:([-a-z0-9]+):([-.a-z0-9]+)")

# apiserver, endpoints/handlers/responsewriters/errors.go, ``forbiddenMessage``
_REFUSAL = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<plural>[-./\w]+)" in API group "(?P<group>[-.\w]*)"'
    r'(?: in the namespace "(?P<namespace>[-a-z0-9]+)"| at the cluster scope)'
)


def missing_permission(message: str, least: str = READ) -> MissingPermission | None:
    """What a message of the API server says is missing; None for one that is about something else."""
    found = _REFUSAL.search(message)
    if found is None:
        return None
    resource = f"{found['plural']}.{found['group']}" if found["group"] else found["plural"]
    return MissingPermission(found["user"], found["verb"], resource, found["namespace"], least)


def _roles_at(level: str, namespace: str | None) -> Iterator[str]:
    """The roles that gpuctl_rbac can bind an account of a level to, which count there."""
    yield SUBMIT_CLUSTER if level == SUBMIT else level
    if level != READ and namespace == SYSTEM_NAMESPACE:
        yield ADMINISTER_POOLS if level == ADMINISTER else SUBMIT_POOLS
    if namespace and owner_of_reserved(namespace) is None:
        yield IN_JOBS[level]
        if level == SUBMIT:
            yield EXEC
