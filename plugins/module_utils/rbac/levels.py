# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Access to a cluster as Kubernetes objects: an account, what it may do, and where.

The rights are those that the modules of this collection use, and no others; tests/integration/test_rbac.py runs every
module under them and compares them with the requests that were sent.
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

# What who submits to a namespace needs of things that belong to none.
_SUBMIT_CLUSTER = "submit-cluster"

_GROUP = "rbac.authorization.k8s.io"


def account(name: str, namespace: str) -> Object:
    """The service account itself."""
    return _named(SERVICE_ACCOUNT, name, namespace)


def cluster_roles(level: str) -> list[Object]:
    """The ClusterRoles that are bound to accounts of a level."""
    return [{**_named(CLUSTER_ROLE, role_name(part)), "rules": _rules(part)} for part in _parts(level)]


def bindings(name: str, namespace: str, level: str, namespaces: Sequence[str] | None) -> list[Object]:
    """What gives an account the rights of a level: in the given namespaces, or in the whole cluster (None)."""
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
    """Who submits may do so in some namespaces, and needs a little that belongs to none."""
    return (SUBMIT, _SUBMIT_CLUSTER) if level == SUBMIT else (level,)


def _binding(resource: Resource, subject: Object, level: str, place: str | None) -> Object:
    # The level is in the name because a binding's role cannot change (RBAC validation, "cannot change roleRef").
    # No account or namespace has a colon in its name, so that no two accounts have a binding of the same name.
    name = f"{role_name(level)}:{subject['namespace']}:{subject['name']}"
    return {
        **_named(resource, name, place),
        "roleRef": {"apiGroup": _GROUP, "kind": CLUSTER_ROLE.kind, "name": role_name(level)},
        "subjects": [subject],
    }


def _named(resource: Resource, name: str, namespace: str | None = None) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": {labels.MANAGED_BY: labels.FIELD_MANAGER}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": sparse(metadata)}


_Right = tuple[Resource, str, tuple[str, ...]]  # a resource, what of it ("" for itself, "log"), the verbs

_WORKLOADS = (JOB, DEPLOYMENT, STATEFUL_SET)
_AROUND = (SERVICE, HORIZONTAL_POD_AUTOSCALER, CONFIG_MAP)
_SEE = ("get", "list", "watch")
_WRITE = ("create", "patch", "delete")

# gpuctl_job_info, gpuctl_job_log, gpuctl_node_info, gpuctl_pool_info, gpuctl_quota_info
_READING: tuple[_Right, ...] = (
    *((resource, "", ("get", "list")) for resource in _WORKLOADS),
    (CONFIG_MAP, "", ("list",)),
    (EVENT, "", ("list",)),
    (NODE, "", ("list",)),
    (POD, "", ("list",)),
    (POD, "log", ("get",)),
    (RESOURCE_QUOTA, "", ("list",)),
    (SERVICE, "", ("list",)),
)

# gpuctl_job, and to look at what came of it
_SUBMITTING: tuple[_Right, ...] = (
    *((resource, "", (*_SEE, *_WRITE)) for resource in _WORKLOADS),
    *((resource, "", ("get", "list", *_WRITE)) for resource in _AROUND),
    (EVENT, "", ("list", "watch")),
    (POD, "", ("list", "watch", "delete", "deletecollection")),
    (POD, "log", ("get",)),
    (RESOURCE_QUOTA, "", ("list",)),
    (KUEUE_WORKLOAD, "", ("get", "list", "patch")),
)

# Addresses for URLs, and the PriorityClasses of jobs.
_BESIDE: tuple[_Right, ...] = (
    (NODE, "", ("list",)),
    (PRIORITY_CLASS, "", ("list",)),
)

# gpuctl_pool, gpuctl_node_label, gpuctl_quota, gpuctl_rbac
_ADMINISTERING: tuple[_Right, ...] = (
    *_SUBMITTING,
    *_BESIDE,
    (LEASE, "", ("get", "create", "patch")),
    (LIMIT_RANGE, "", ("list", *_WRITE)),
    (NAMESPACE, "", ("get", "list", *_WRITE)),
    (NODE, "", ("get", "patch")),
    (PERSISTENT_VOLUME_CLAIM, "", ("list",)),
    (RESOURCE_QUOTA, "", ("get", *_WRITE)),
    (ROLE_BINDING, "", ("get", "list", *_WRITE)),
    (CLUSTER_ROLE_BINDING, "", ("get", "list", *_WRITE)),
    (SERVICE_ACCOUNT, "", ("get", *_WRITE)),
)

_RIGHTS = {READ: _READING, SUBMIT: _SUBMITTING, _SUBMIT_CLUSTER: _BESIDE, ADMINISTER: _ADMINISTERING}


def _rules(part: str) -> list[Object]:
    verbs: dict[tuple[str, str], dict[str, None]] = {}
    for resource, below, allowed in _RIGHTS[part]:
        name = f"{resource.plural}/{below}" if below else resource.plural
        verbs.setdefault((_group(resource), name), {}).update(dict.fromkeys(allowed))
    together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, name), allowed_verbs in sorted(verbs.items()):
        together.setdefault((group, tuple(allowed_verbs)), []).append(name)
    rules: list[Object] = [
        {"apiGroups": [group], "resources": names, "verbs": list(allowed)}
        for (group, allowed), names in sorted(together.items())
    ]
    return [*rules, *_named_objects(part)]


def _named_objects(part: str) -> Iterable[Object]:
    """Rights to write that are confined to objects of certain names, because others' are as powerful."""
    if part in (_SUBMIT_CLUSTER, ADMINISTER):
        classes = [labels.priority_class_name(priority) for priority in PRIORITIES]
        yield _rule(PRIORITY_CLASS, ("create", "patch"), classes)
    if part == ADMINISTER:
        # Kubernetes lets nobody grant more than they hold; ``bind`` is asked for where a role is not there yet.
        yield _rule(CLUSTER_ROLE, ("get", "create", "patch", "bind"), [role_name(name) for name in _RIGHTS])


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
