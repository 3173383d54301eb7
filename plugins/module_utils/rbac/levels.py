# SPDX-License-Identifier: BSD-2-Clause
"""The Kubernetes objects that give an account access: service account, roles and bindings. Pure.

What each level allows is in permissions.py: exactly what the modules of this collection use.
tests/integration/test_rbac.py runs every module with it and compares it with the requests that were sent.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .. import labels
from ..jobs.objects.priority import PRIORITIES
from ..kube.api_objects import Object, sparse
from ..kube.resources import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING, SERVICE_ACCOUNT, Resource
from ..permissions import (
    ADMINISTER,
    ADMINISTER_POOLS,
    EXEC,
    IN_JOBS,
    LEVELS,
    LOGS,
    NAMED_PERMISSIONS,
    PERMISSIONS,
    READ,
    ROLES,
    SUBMIT,
    SUBMIT_CLUSTER,
    SUBMIT_POOLS,
    Permissions,
)

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
    return managed_object(SERVICE_ACCOUNT, name, namespace)


def cluster_roles(level: str, *, exec: bool = False) -> list[Object]:
    """The ClusterRoles that accounts of a level are bound to; those that administrators may bind are all."""
    # ClusterRoles also for namespaces: RoleBindings may name them, and a level has its rules in one place.
    names = PERMISSIONS if level == ADMINISTER else (*ROLES[level], *([EXEC] if exec else []))
    return [{**managed_object(CLUSTER_ROLE, role_name(name)), "rules": _rules(name)} for name in names]


def bindings(
    subject: Subject, level: str, namespaces: Sequence[str] | None, jobs: Sequence[str], *, exec: bool = False
) -> list[Object]:
    """The bindings of a subject to a level, in the given namespaces or in the whole cluster (None).

    ``jobs`` are those that may have jobs, of the given namespaces or of all. ``exec``: also to running commands there.
    """
    places: list[tuple[str, str | None]]
    if level == SUBMIT:
        places = [(SUBMIT_CLUSTER, None), (SUBMIT_POOLS, labels.SYSTEM_NAMESPACE)]
    elif namespaces is None:
        places = [(level, None)]
    else:
        places = [(level, place) for place in namespaces]
    if level == ADMINISTER and (namespaces is None or labels.SYSTEM_NAMESPACE in namespaces):
        places.append((ADMINISTER_POOLS, labels.SYSTEM_NAMESPACE))
    places += [(IN_JOBS[level], place) for place in jobs]
    places += [(EXEC, place) for place in jobs if exec]
    return [_role_binding(subject, role, place) for role, place in places]


def bindings_in_new_namespace(binding: Object, namespace: str) -> list[Object]:
    """What the subjects of a ClusterRoleBinding get in a new namespace, if it binds them to a level."""
    role = next((IN_JOBS[level] for level in LEVELS if binding["roleRef"]["name"] == role_name(level)), None)
    return [_role_binding(subject, role, namespace) for subject in subjects_of(binding) if role]


def subjects_of(binding: Object) -> list[Subject]:
    """The subjects of a binding."""
    return [Subject(each["kind"], each["name"], each.get("namespace", "")) for each in binding.get("subjects") or ()]


def reachable_accounts(found: Iterable[Object]) -> Iterator[tuple[Subject, Subject, str]]:
    """A subject that submits, an account whose pods it can thereby run, and a role that only that one has.

    An account that can create pods in a namespace can run them as any service account there:
    https://kubernetes.io/docs/concepts/security/rbac-good-practices/#workload-creation
    """
    held: dict[Subject, set[tuple[str, str | None]]] = defaultdict(set)
    for binding in found:
        for each in subjects_of(binding):
            held[each].add((binding["roleRef"]["name"], binding["metadata"].get("namespace")))
    for one, own in held.items():
        wide = (role_name(ADMINISTER), None) in own  # There is nothing more to reach.
        submits = set() if wide else {place for role, place in own if role in RUNS_PODS}
        harmless = {(role_name(role), place) for role in (READ, LOGS, SUBMIT) for place in submits}
        for other, others in held.items():
            everyones = (role_name(SUBMIT_CLUSTER), role_name(SUBMIT_POOLS))
            more = sorted(role for role, place in others - own - harmless if role not in everyones)
            if other != one and other.namespace in submits and more:
                yield one, other, more[0]


def role_name(level: str) -> str:
    """The ClusterRole of a level: ``read`` -> ``gpuctl-read``."""
    return f"gpuctl-{level}"


RUNS_PODS = {role_name(IN_JOBS[level]) for level in (SUBMIT, ADMINISTER)}


def _role_binding(subject: Subject, role: str, place: str | None) -> Object:
    # The level is in the name because the role of a binding cannot change (RBAC validation, "cannot change roleRef").
    # Names of accounts and namespaces have no colon and no capital, so two subjects never share the name of a binding.
    if subject.kind == SERVICE_ACCOUNT.kind:
        name = f"{role_name(role)}:{subject.namespace}:{subject.name}"
        reference = {"kind": subject.kind, "name": subject.name, "namespace": subject.namespace}
    else:
        name = f"{role_name(role)}:{subject.kind}:{_path_segment(subject.name)}"
        # Users and groups need the API group, service accounts have none (pkg/apis/rbac/validation).
        reference = {"apiGroup": _GROUP, "kind": subject.kind, "name": subject.name}
    return {
        **managed_object(ROLE_BINDING if place else CLUSTER_ROLE_BINDING, name, place),
        "roleRef": {"apiGroup": _GROUP, "kind": CLUSTER_ROLE.kind, "name": role_name(role)},
        "subjects": [reference],
    }


def _path_segment(name: str) -> str:
    """The name of a user or group as part of a URL path; RBAC names may not have ``/`` and ``%`` in particular."""
    return re.sub(r"[^A-Za-z0-9._@:-]", lambda found: "".join(f"={byte:02X}" for byte in found[0].encode()), name)


def managed_object(resource: Resource, name: str, namespace: str | None = None) -> Object:
    """An object of the collection, for its kind's fields to be added."""
    metadata = {"name": name, "namespace": namespace, "labels": {labels.MANAGED_BY: labels.FIELD_MANAGER}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": sparse(metadata)}


def role_rules(permissions: Permissions) -> list[Object]:
    """The rules of a role: resources of one group with the same verbs share a rule."""
    verbs: dict[tuple[str, str], dict[str, None]] = {}
    for allowed, resources in permissions:
        for resource in resources.split():
            name, _dot, group = resource.partition(".")
            verbs.setdefault((group, name), {}).update(dict.fromkeys(allowed.split()))
    names: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, name), verbs_of_name in sorted(verbs.items()):
        names.setdefault((group, tuple(verbs_of_name)), []).append(name)
    return [_policy_rule(group, names[group, allowed], allowed) for group, allowed in sorted(names)]


def _rules(part: str) -> list[Object]:
    """Those of a level, with what it may do with objects of certain names."""
    rules = role_rules(PERMISSIONS[part])
    names_of = {
        "leases": [labels.POOLS_LEASE],
        "secrets": [labels.PULL_SECRET, labels.TOKEN_SECRET],
        "priorityclasses": [labels.priority_class_name(priority) for priority in PRIORITIES],
        "clusterroles": [role_name(name) for name in PERMISSIONS],
    }
    for allowed, resource in NAMED_PERMISSIONS.get(part, ()):
        name, _dot, group = resource.partition(".")
        rules.append(_policy_rule(group, [name], allowed.split(), names_of[name]))
    return rules


def _policy_rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Object:
    named = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": list(resources), **named, "verbs": list(verbs)}
