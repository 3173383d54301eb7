# SPDX-License-Identifier: BSD-2-Clause
"""The Kubernetes objects that give an account access: service account, roles and bindings. Pure.

The permissions are exactly those that the modules of this collection use: tests/integration/test_rbac.py runs every
module with them and compares them with the requests that were sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import labels
from ..jobs.objects.job_objects import Object, sparse
from ..jobs.objects.priority import PRIORITIES
from ..kube.resources import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING, SERVICE_ACCOUNT, Resource

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


# Each entry is verbs, and resources as kubectl takes them: plural[/subresource][.group].
_Permissions = tuple[tuple[str, str], ...]

_WORKLOADS = "jobs.batch deployments.apps statefulsets.apps"

# gpuctl_job_info, gpuctl_job_log, gpuctl_node_info, gpuctl_pool_info, gpuctl_quota_info
_READ_PERMISSIONS: _Permissions = (
    ("get list", _WORKLOADS),
    ("list", "configmaps events horizontalpodautoscalers.autoscaling nodes pods resourcequotas services"),
    ("get", "pods/log"),
)

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

# Node addresses for URLs, and the PriorityClasses of jobs.
_CLUSTER_PERMISSIONS: _Permissions = (("list", "nodes priorityclasses.scheduling.k8s.io"),)

# gpuctl_pool, gpuctl_node_label, gpuctl_quota, gpuctl_rbac
_ADMINISTER_PERMISSIONS: _Permissions = (
    *_SUBMIT_PERMISSIONS,
    *_CLUSTER_PERMISSIONS,
    ("get create patch", "leases.coordination.k8s.io"),
    ("list create patch delete", "limitranges"),
    ("get list create patch delete", "namespaces"),
    ("get patch", "nodes"),
    ("list", "persistentvolumeclaims"),
    ("get create patch delete", "resourcequotas serviceaccounts"),
    (
        "get list create patch delete",
        "rolebindings.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io",
    ),
)

_PERMISSIONS = {
    READ: _READ_PERMISSIONS,
    SUBMIT: _SUBMIT_PERMISSIONS,
    _SUBMIT_CLUSTER: _CLUSTER_PERMISSIONS,
    ADMINISTER: _ADMINISTER_PERMISSIONS,
}


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
    # Write permissions on managed objects only.
    if part in (_SUBMIT_CLUSTER, ADMINISTER):
        classes = [labels.priority_class_name(priority) for priority in PRIORITIES]
        rules.append(_rule("scheduling.k8s.io", ["priorityclasses"], ("create", "patch"), classes))
    if part == ADMINISTER:
        # Kubernetes lets nobody grant more than they hold, and requires ``bind`` for a role that does not exist yet.
        roles = [role_name(name) for name in _PERMISSIONS]
        rules.append(_rule(_GROUP, ["clusterroles"], ("get", "create", "patch", "bind"), roles))
    return rules


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Object:
    named = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": list(resources), **named, "verbs": list(verbs)}
