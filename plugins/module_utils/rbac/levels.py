# SPDX-License-Identifier: BSD-2-Clause
"""The Kubernetes objects that give an account access: service account, roles and bindings. Pure.

The permissions are exactly those that the modules of this collection use: tests/integration/test_rbac.py runs every
module with them and compares them with the requests that were sent.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .. import labels
from ..jobs.objects.job_objects import Object, sparse
from ..jobs.objects.priority import PRIORITIES
from ..kube.resources import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING, SERVICE_ACCOUNT, Resource

READ, SUBMIT, ADMINISTER = "read", "submit", "administer"
LEVELS = (READ, SUBMIT, ADMINISTER)

# The roles of a level, by where they are bound. RBAC has no exceptions: what is granted in the whole cluster is granted
# in kube-system. So what reads logs or writes workloads is only ever bound in the namespaces of jobs.
_LOGS, _SUBMIT_CLUSTER = "logs", "submit-cluster"
_ADMINISTER_JOBS, _ADMINISTER_POOLS = "administer-jobs", "administer-pools"

_GROUP = "rbac.authorization.k8s.io"


USER, GROUP = "User", "Group"


class Subject(NamedTuple):
    """Who has access. Of users and groups, Kubernetes has no objects: their names come from its authentication."""

    kind: str
    name: str
    namespace: str = ""  # of a service account

    @property
    def user(self) -> str | None:
        """The name of the user; None for a group."""
        if self.kind == SERVICE_ACCOUNT.kind:
            return f"system:serviceaccount:{self.namespace}:{self.name}"
        return self.name if self.kind == USER else None


def account(name: str, namespace: str) -> Object:
    """The service account."""
    return _named(SERVICE_ACCOUNT, name, namespace)


def cluster_roles(level: str) -> list[Object]:
    """The ClusterRoles that accounts of a level are bound to; those that administrators may bind are all."""
    names = _PERMISSIONS if level == ADMINISTER else _ROLES[level]
    return [{**_named(CLUSTER_ROLE, role_name(name)), "rules": _rules(name)} for name in names]


def bindings(subject: Subject, level: str, namespaces: Sequence[str] | None, jobs: Iterable[str]) -> list[Object]:
    """The bindings of a subject to a level, in the given namespaces or in the whole cluster (None).

    ``jobs`` are those that may have jobs, of the given namespaces or of all.
    """
    places: list[tuple[str, str | None]]
    if level == SUBMIT:
        places = [(_SUBMIT_CLUSTER, None)]
    elif namespaces is None:
        places = [(level, None)]
    else:
        places = [(level, place) for place in namespaces]
    if level == ADMINISTER:
        places.append((_ADMINISTER_POOLS, labels.SYSTEM_NAMESPACE))
    places += [(_IN_JOBS[level], place) for place in jobs]
    return [_binding(subject, role, place) for role, place in places]


def bindings_in_new_namespace(binding: Object, namespace: str) -> list[Object]:
    """What the subjects of a ClusterRoleBinding get in a new namespace, if it binds them to a level."""
    role = next((_IN_JOBS[level] for level in LEVELS if binding["roleRef"]["name"] == role_name(level)), None)
    return [_binding(subject, role, namespace) for subject in subjects_of(binding) if role]


def subjects_of(binding: Object) -> list[Subject]:
    """The subjects of a binding."""
    return [Subject(each["kind"], each["name"], each.get("namespace", "")) for each in binding.get("subjects") or ()]


def reachable_accounts(found: Iterable[Object]) -> Iterator[tuple[Subject, Subject, str]]:
    """A subject that submits, an account whose pods it can thereby run, and a role that only that one has.

    Whoever creates pods in a namespace can run them as any service account of it.
    """
    held: dict[Subject, set[tuple[str, str | None]]] = defaultdict(set)
    for binding in found:
        for each in subjects_of(binding):
            held[each].add((binding["roleRef"]["name"], binding["metadata"].get("namespace")))
    for one, own in held.items():
        submits = {place for role, place in own if role == role_name(SUBMIT)}
        harmless = {(role_name(role), place) for role in (READ, _LOGS, SUBMIT) for place in submits}
        for other, others in held.items():
            more = sorted(role for role, place in others - own - harmless if role != role_name(_SUBMIT_CLUSTER))
            if other != one and other.namespace in submits and more:
                yield one, other, more[0]


def role_name(level: str) -> str:
    """The ClusterRole of a level: ``read`` -> ``gpuctl-read``."""
    return f"gpuctl-{level}"


def _binding(subject: Subject, role: str, place: str | None) -> Object:
    # The level is in the name because the role of a binding cannot change (RBAC validation, "cannot change roleRef").
    # Names of accounts and namespaces have no colon and no capital, so two subjects never share the name of a binding.
    if subject.kind == SERVICE_ACCOUNT.kind:
        name = f"{role_name(role)}:{subject.namespace}:{subject.name}"
        reference = {"kind": subject.kind, "name": subject.name, "namespace": subject.namespace}
    else:
        name = f"{role_name(role)}:{subject.kind}:{_path_segment(subject.name)}"
        reference = {"apiGroup": _GROUP, "kind": subject.kind, "name": subject.name}
    return {
        **_named(ROLE_BINDING if place else CLUSTER_ROLE_BINDING, name, place),
        "roleRef": {"apiGroup": _GROUP, "kind": CLUSTER_ROLE.kind, "name": role_name(role)},
        "subjects": [reference],
    }


def _path_segment(name: str) -> str:
    """The name of a user or group as part of a URL path; RBAC names may not have ``/`` and ``%`` in particular."""
    return re.sub(r"[^A-Za-z0-9._@:-]", lambda found: "".join(f"={byte:02X}" for byte in found[0].encode()), name)


def _named(resource: Resource, name: str, namespace: str | None = None) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": {labels.MANAGED_BY: labels.FIELD_MANAGER}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": sparse(metadata)}


# Each entry is verbs, and resources as kubectl takes them: plural[/subresource][.group].
_Permissions = tuple[tuple[str, str], ...]

_WORKLOADS = "jobs.batch deployments.apps statefulsets.apps"

# gpuctl_job_info, gpuctl_node_info, gpuctl_pool_info, gpuctl_quota_info
_READ_PERMISSIONS: _Permissions = (
    ("get list", _WORKLOADS),
    ("list", "configmaps events horizontalpodautoscalers.autoscaling nodes pods resourcequotas services"),
    ("get list", "namespaces"),
)

# gpuctl_job_log
_LOGS_PERMISSIONS: _Permissions = (("get", "pods/log"),)

# gpuctl_job, and reading its result
_SUBMIT_PERMISSIONS: _Permissions = (
    ("get list watch create patch delete", _WORKLOADS),
    ("get list create patch delete", "configmaps services horizontalpodautoscalers.autoscaling"),
    ("list create deletecollection", "controllerrevisions.apps"),
    ("list watch", "events"),
    ("list watch delete deletecollection", "pods"),
    ("get", "pods/log"),
    ("get", "namespaces"),  # In a RoleBinding, its own: the Pod Security level that it enforces.
    ("list", "resourcequotas"),
    ("get list patch", "workloads.kueue.x-k8s.io"),
)

# Node addresses for URLs, and whether the PriorityClasses of jobs are as they should be.
_CLUSTER_PERMISSIONS: _Permissions = (("list", "nodes priorityclasses.scheduling.k8s.io"),)

# gpuctl_pool, gpuctl_node_label, gpuctl_quota, gpuctl_rbac
_ADMINISTER_PERMISSIONS: _Permissions = (
    *_READ_PERMISSIONS,
    *_CLUSTER_PERMISSIONS,
    ("list create patch delete", "limitranges"),
    ("get list create patch delete", "namespaces"),
    ("get patch", "nodes"),
    ("list", "persistentvolumeclaims"),
    ("get create patch delete", "resourcequotas"),
    (
        "get list create patch delete",
        "rolebindings.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io",
    ),
)

# The accounts of gpuctl_rbac, which are nobody's but where jobs are, and in gpuctl-system; gpuctl_kubeconfig
_ACCOUNT_PERMISSIONS: _Permissions = (
    ("get create patch delete", "serviceaccounts"),
    ("create", "serviceaccounts/token"),
)

# gpuctl_workspace; its Secret is below, by name.
_WORKSPACE_PERMISSIONS: _Permissions = (
    ("get create patch delete", "persistentvolumeclaims"),
    ("create", "secrets"),
)

# The declarations of pools; their Lease is below, by name.
_POOL_PERMISSIONS: _Permissions = (
    ("get list create patch delete", "configmaps"),
    ("create", "leases.coordination.k8s.io"),
    *_ACCOUNT_PERMISSIONS,
)

_PERMISSIONS = {
    READ: _READ_PERMISSIONS,
    _LOGS: _LOGS_PERMISSIONS,
    SUBMIT: _SUBMIT_PERMISSIONS,
    _SUBMIT_CLUSTER: _CLUSTER_PERMISSIONS,
    ADMINISTER: _ADMINISTER_PERMISSIONS,
    _ADMINISTER_JOBS: (*_SUBMIT_PERMISSIONS, *_ACCOUNT_PERMISSIONS, *_WORKSPACE_PERMISSIONS),
    _ADMINISTER_POOLS: _POOL_PERMISSIONS,
}
_ROLES = {READ: (READ, _LOGS), SUBMIT: (SUBMIT, _SUBMIT_CLUSTER)}
_IN_JOBS = {READ: _LOGS, SUBMIT: SUBMIT, ADMINISTER: _ADMINISTER_JOBS}  # what is bound in each namespace for jobs


def _rules(part: str) -> list[Object]:
    """The rules of a role: resources of one group with the same verbs share a rule."""
    verbs: dict[tuple[str, str], dict[str, None]] = {}
    for allowed, resources in _PERMISSIONS[part]:
        for resource in resources.split():
            name, _dot, group = resource.partition(".")
            verbs.setdefault((group, name), {}).update(dict.fromkeys(allowed.split()))
    names: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, name), verbs_of_name in sorted(verbs.items()):
        names.setdefault((group, tuple(verbs_of_name)), []).append(name)
    rules = [_rule(group, names[group, allowed], allowed) for group, allowed in sorted(names)]
    if part == _ADMINISTER_POOLS:
        rules.append(_rule("coordination.k8s.io", ["leases"], ("get", "patch"), [labels.POOLS_LEASE]))
    if part == _ADMINISTER_JOBS:
        rules.append(_rule("", ["secrets"], ("get", "patch", "delete"), [labels.PULL_SECRET]))
    if part == ADMINISTER:
        classes = [labels.priority_class_name(priority) for priority in PRIORITIES]
        rules.append(_rule("scheduling.k8s.io", ["priorityclasses"], ("get", "create", "patch", "delete"), classes))
        # Not to write: Kubernetes lets nobody write into a role what they do not hold in the whole cluster themselves,
        # and the verb ``escalate`` would let them write anything.
        roles = [role_name(name) for name in _PERMISSIONS]
        rules.append(_rule(_GROUP, ["clusterroles"], ("get", "bind"), roles))
    return rules


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Object:
    named = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": list(resources), **named, "verbs": list(verbs)}
