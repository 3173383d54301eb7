# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The Kubernetes objects that give an account access: service account, roles and bindings. Pure.

The permissions are exactly those that the modules of this collection use: tests/integration/test_rbac.py runs every
module with them and compares them with the requests that were sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .. import labels
from ..jobs.objects.job_objects import Object, sparse
from ..jobs.objects.priority import PRIORITIES
from ..kube.resources import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    KUEUE_WORKLOAD,
    LEASE,
    LIMIT_RANGE,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Resource,
)

READ, SUBMIT, ADMINISTER = "read", "submit", "administer"
LEVELS = (READ, SUBMIT, ADMINISTER)

# The cluster-scoped permissions of accounts that submit jobs to a namespace.
_SUBMIT_CLUSTER = "submit-cluster"

_GROUP = "rbac.authorization.k8s.io"


def account(name: str, namespace: str) -> Object:
    """The service account."""
    return _named(SERVICE_ACCOUNT, name, namespace)


def cluster_roles(level: str) -> list[Object]:
    """The ClusterRoles that are bound to accounts of a level."""
    return [{**_named(CLUSTER_ROLE, role_name(part)), "rules": _rules(part)} for part in _parts(level)]


def bindings(name: str, namespace: str, level: str, namespaces: Sequence[str] | None) -> list[Object]:
    """The bindings of an account to a level, in the given namespaces or in the whole cluster (None)."""
    subject = {"kind": SERVICE_ACCOUNT.kind, "name": name, "namespace": namespace}
    everywhere = [part for part in _parts(level) if namespaces is None or part == _SUBMIT_CLUSTER]
    return [
        *(_binding(CLUSTER_ROLE_BINDING, subject, part, None) for part in everywhere),
        *(_binding(ROLE_BINDING, subject, level, place) for place in namespaces or ()),
    ]


def role_name(level: str) -> str:
    """The ClusterRole of a level: ``read`` -> ``gpuctl-read``."""
    return f"gpuctl-{level}"


def is_subject(binding: Object, name: str, namespace: str) -> bool:
    """Whether a binding is for the account."""
    return any(
        subject["kind"] == SERVICE_ACCOUNT.kind and (subject["name"], subject.get("namespace")) == (name, namespace)
        for subject in binding.get("subjects") or ()
    )


def _parts(level: str) -> tuple[str, ...]:
    return (SUBMIT, _SUBMIT_CLUSTER) if level == SUBMIT else (level,)


def _binding(resource: Resource, subject: Object, level: str, place: str | None) -> Object:
    # The level is in the name because the role of a binding cannot change (RBAC validation, "cannot change roleRef").
    # Accounts and namespaces have no colon in their names, so two accounts never have a binding of the same name.
    name = f"{role_name(level)}:{subject['namespace']}:{subject['name']}"
    return {
        **_named(resource, name, place),
        "roleRef": {"apiGroup": _GROUP, "kind": CLUSTER_ROLE.kind, "name": role_name(level)},
        "subjects": [subject],
    }


def _named(resource: Resource, name: str, namespace: str | None = None) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": {labels.MANAGED_BY: labels.FIELD_MANAGER}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": sparse(metadata)}


_Permission = tuple[Resource, str, tuple[str, ...]]  # resource, subresource (or ""), verbs

_WORKLOADS = (JOB, DEPLOYMENT, STATEFUL_SET)
_DEPENDENTS = (SERVICE, HORIZONTAL_POD_AUTOSCALER, CONFIG_MAP)
_READ_VERBS = ("get", "list", "watch")
_WRITE_VERBS = ("create", "patch", "delete")

# gpuctl_job_info, gpuctl_job_log, gpuctl_node_info, gpuctl_pool_info, gpuctl_quota_info
_READ_PERMISSIONS: tuple[_Permission, ...] = (
    *((resource, "", ("get", "list")) for resource in _WORKLOADS),
    (CONFIG_MAP, "", ("list",)),
    (EVENT, "", ("list",)),
    (NODE, "", ("list",)),
    (POD, "", ("list",)),
    (POD, "log", ("get",)),
    (RESOURCE_QUOTA, "", ("list",)),
    (SERVICE, "", ("list",)),
)

# gpuctl_job, and reading its result
_SUBMIT_PERMISSIONS: tuple[_Permission, ...] = (
    *((resource, "", (*_READ_VERBS, *_WRITE_VERBS)) for resource in _WORKLOADS),
    *((resource, "", ("get", "list", *_WRITE_VERBS)) for resource in _DEPENDENTS),
    (EVENT, "", ("list", "watch")),
    (POD, "", ("list", "watch", "delete", "deletecollection")),
    (POD, "log", ("get",)),
    (RESOURCE_QUOTA, "", ("list",)),
    (KUEUE_WORKLOAD, "", ("get", "list", "patch")),
)

# Node addresses for URLs, and the PriorityClasses of jobs.
_CLUSTER_PERMISSIONS: tuple[_Permission, ...] = (
    (NODE, "", ("list",)),
    (PRIORITY_CLASS, "", ("list",)),
)

# gpuctl_pool, gpuctl_node_label, gpuctl_quota, gpuctl_rbac
_ADMINISTER_PERMISSIONS: tuple[_Permission, ...] = (
    *_SUBMIT_PERMISSIONS,
    *_CLUSTER_PERMISSIONS,
    (LEASE, "", ("get", "create", "patch")),
    (LIMIT_RANGE, "", ("list", *_WRITE_VERBS)),
    (NAMESPACE, "", ("get", "list", *_WRITE_VERBS)),
    (NODE, "", ("get", "patch")),
    (PERSISTENT_VOLUME_CLAIM, "", ("list",)),
    (RESOURCE_QUOTA, "", ("get", *_WRITE_VERBS)),
    (ROLE_BINDING, "", ("get", "list", *_WRITE_VERBS)),
    (CLUSTER_ROLE_BINDING, "", ("get", "list", *_WRITE_VERBS)),
    (SERVICE_ACCOUNT, "", ("get", *_WRITE_VERBS)),
)

_PERMISSIONS = {
    READ: _READ_PERMISSIONS,
    SUBMIT: _SUBMIT_PERMISSIONS,
    _SUBMIT_CLUSTER: _CLUSTER_PERMISSIONS,
    ADMINISTER: _ADMINISTER_PERMISSIONS,
}


def _rules(part: str) -> list[Object]:
    verbs: dict[tuple[str, str], dict[str, None]] = {}
    for resource, subresource, allowed in _PERMISSIONS[part]:
        name = f"{resource.plural}/{subresource}" if subresource else resource.plural
        verbs.setdefault((_group(resource), name), {}).update(dict.fromkeys(allowed))
    names_by_verbs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, name), allowed_verbs in sorted(verbs.items()):
        names_by_verbs.setdefault((group, tuple(allowed_verbs)), []).append(name)
    rules: list[Object] = [
        {"apiGroups": [group], "resources": names, "verbs": list(allowed)}
        for (group, allowed), names in sorted(names_by_verbs.items())
    ]
    return [*rules, *_named_objects(part)]


def _named_objects(part: str) -> Iterable[Object]:
    """Write permissions on named objects only: other objects of the kind belong to others."""
    if part in (_SUBMIT_CLUSTER, ADMINISTER):
        classes = [labels.priority_class_name(priority) for priority in PRIORITIES]
        yield _rule(PRIORITY_CLASS, ("create", "patch"), classes)
    if part == ADMINISTER:
        # Kubernetes lets nobody grant more than they hold, and requires ``bind`` for a role that does not exist yet.
        yield _rule(CLUSTER_ROLE, ("get", "create", "patch", "bind"), [role_name(name) for name in _PERMISSIONS])


def _rule(resource: Resource, verbs: Sequence[str], names: Sequence[str]) -> Object:
    return {
        "apiGroups": [_group(resource)],
        "resources": [resource.plural],
        "resourceNames": list(names),
        "verbs": list(verbs),
    }


def _group(resource: Resource) -> str:
    """``batch/v1`` -> ``batch``; the core group has no name."""
    return resource.api_version.rpartition("/")[0]
