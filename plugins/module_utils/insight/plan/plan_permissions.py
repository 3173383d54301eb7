# SPDX-License-Identifier: BSD-2-Clause
"""Whether an account may write what a directory changes, asked before the first write.

The API server answers for its authorizers, whichever they are, and the question takes no permission: every account may
ask what it may do itself (ClusterRole system:basic-user).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...access.policy import KINDS
from ...engine.plan import Action, Plan
from ...kube.client import Client
from ...kube.concurrency import run_concurrently
from ...kube.resources import LEASE, Resource, resource_of
from ...kube.reviews import user_name
from ...kube.rights import may
from ...labels import POOLS_LEASE, SYSTEM_NAMESPACE
from ...permissions import MissingPermission, grant_text, missing_permission
from ...quotas.quota_apply import created_namespaces
from ..directory.directory_plan import DirectoryPlan, PlannedManifest

# A server-side apply that creates an object needs both (apiserver, endpoints/handlers/patch.go).
_VERBS: Mapping[Action, tuple[str, ...]] = {
    Action.UNCHANGED: (),
    Action.CREATE: ("patch", "create"),
    Action.RECREATE: ("delete", "patch", "create"),
    Action.DELETE: ("delete",),
}
_OF_OTHER_ACTIONS = ("patch",)
# What the modules warn of and go on without: what pools and quotas bring with them.
_OPTIONAL = ("priority", "access")


class _Write(NamedTuple):
    verb: str
    resource: Resource
    namespace: str
    name: str


def missing_permissions(client: Client, found: DirectoryPlan) -> list[MissingPermission]:
    """Those that the changes need and the account lacks. Raises KubeError if the server does not answer."""
    named: dict[tuple[str, Resource, str], list[str]] = {}
    for verb, resource, namespace, name in (*_writes(found.manifests), *_of_unread_policies(found), *_of_pools(found)):
        named.setdefault((verb, resource, namespace), []).append(name)

    def lacks(question: tuple[str, Resource, str]) -> bool:
        verb, resource, namespace = question
        # A role may be about some names only, so that a refusal without a name is not the last word.
        names = dict.fromkeys(filter(None, named[question]))
        allowed = may(client, verb, resource, namespace)
        return not allowed and not (names and all(may(client, verb, resource, namespace, name) for name in names))

    answers = run_concurrently(lacks, list(named), client.concurrency)
    refused = [question for question, is_refused in zip(named, answers, strict=True) if is_refused]
    reads = filter(None, (missing_permission(problem.text) for problem in found.problems))
    user = (user_name(client) or "") if refused else ""
    lacking = (MissingPermission(user, verb, qualified(kind), place or None) for verb, kind, place in refused)
    return list(dict.fromkeys([*reads, *lacking]))


def how_to_get(missing: Sequence[MissingPermission]) -> str:
    """What is missing, by whom and how it is granted, in sentences."""
    text = f"{grant_text(missing).rstrip('.')}."
    if others := [each for each in missing if each.level is None]:
        kinds = ", ".join(dict.fromkeys(each.resource for each in others))
        text += f" No level of gpuctl_rbac has those on {kinds}: ask an administrator of the cluster (cluster-admin)."
    return text


def _of_unread_policies(found: DirectoryPlan) -> Iterator[_Write]:
    """What policies take, if the account may not read them, so that what they would change is not known."""
    if any(problem.kind == "policy" and missing_permission(problem.text) for problem in found.problems):
        yield from (_Write("list", resource, "", "") for resource in KINDS)
        written = (resource for resource in KINDS if not resource.namespaced)
        yield from (_Write(verb, resource, "", "") for resource in written for verb in ("patch", "create"))


def _of_pools(found: DirectoryPlan) -> Iterator[_Write]:
    """Tasks that change pools take turns, also those that find nothing to change."""
    if found.declared.get("pool"):
        yield from (_Write(verb, LEASE, SYSTEM_NAMESPACE, POOLS_LEASE) for verb in ("get", "patch"))


def qualified(resource: Resource) -> str:
    """As in permissions.PERMISSIONS."""
    group = resource.api_version.rpartition("/")[0]
    return f"{resource.plural}.{group}" if group else resource.plural


def _writes(manifests: list[PlannedManifest]) -> Iterator[_Write]:
    plans = [each.plan for each in manifests if each.kind not in _OPTIONAL and not each.problem]
    # In a new namespace, accounts get their permissions with it (rbac/new_namespaces.py).
    new = set(created_namespaces(plans))
    for plan in plans:
        for write in _writes_of(plan):
            if write.namespace not in new:
                yield write


def _writes_of(plan: Plan) -> Iterator[_Write]:
    is_of_node = plan.kind == "node"
    for step in (*plan.prerequisites, *plan.steps):
        if is_of_node and step.kind != "Node":  # the declaration of its pool, of which the module only warns
            continue
        resource = resource_of(dict(step.identity))
        namespace = step.identity["metadata"].get("namespace", "") if resource.namespaced else ""
        yield from (_Write(verb, resource, namespace, step.name) for verb in _VERBS.get(step.action, _OF_OTHER_ACTIONS))
