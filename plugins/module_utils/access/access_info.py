# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_access_info: what an account may do, by its permissions, by policies and by quotas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..cluster.declared import Declared, read_declared
from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import ApiError, KubeError, as_sentence
from ..kube.resources import RESOURCE_QUOTA
from ..kube.rights import has_right
from ..labels import DEFAULT_POOL, SYSTEM_NAMESPACE
from ..namespaces import NamespaceOptions, own_namespace, require_allowed
from ..options import option
from ..policies.policy_rules import NamespaceRules, PolicyRules, strictest_limits
from ..quotas.usage import usage
from ..task import ModuleSpec, Task, TaskFailed

# What people ask for -> what Kubernetes allows it by, as kubectl auth can-i takes it.
_IN_NAMESPACES = {
    "see jobs": ("list jobs.batch", "list pods"),
    "read logs": ("get pods/log",),
    "submit jobs": ("create jobs.batch", "create deployments.apps", "create statefulsets.apps", "create services"),
    "change jobs": ("patch jobs.batch", "patch deployments.apps", "patch statefulsets.apps"),
    "delete jobs": ("delete jobs.batch", "delete deployments.apps", "delete statefulsets.apps"),
    "read secrets": ("list secrets",),
    "run commands in containers": ("create pods/exec",),
}
_IN_CLUSTER = {
    "change pools": ("patch nodes", f"patch configmaps in {SYSTEM_NAMESPACE}"),
    "change quotas": ("create namespaces", "patch resourcequotas"),
    "change policies": ("patch validatingadmissionpolicies.admissionregistration.k8s.io",),
}


@dataclass(frozen=True, kw_only=True)
class AccessInfoOptions(NamespaceOptions):
    namespaces: list[str] | None = option("list", elements="str")
    pools: list[str] | None = option("list", elements="str")
    user: str | None = option("str")
    groups: list[str] | None = option("list", elements="str")


def run(task: Task[AccessInfoOptions]) -> dict[str, Any]:
    """Asks the API server about each right; nothing is written. Raises TaskFailed, and KubeError."""
    options = task.options
    own = None if options.namespaces else own_namespace(task, None)
    namespaces = [own.name] if own else options.namespaces or []
    require_allowed(task, namespaces, own.origin if own else "O(namespaces)")
    declared = read_declared(task.client(), task.warn)
    rights = _rights(task, namespaces)
    rows = [row for namespace in namespaces for row in _pool_rows(declared, namespace, options.pools)]
    unknown = sorted(set(options.pools or ()) - {DEFAULT_POOL, *declared.pools}) if declared.known else []
    if unknown:
        known = ", ".join(sorted(declared.pools)) or "none"
        raise TaskFailed(f"pools: not declared: {', '.join(unknown)}. Declared are: {known}.")
    if not declared.known:
        task.warn(
            "the account may not read what administrators declare, so policies and pools are not known. Grant it a "
            "level with M(gpuctl_rbac)."
        )
    return {"changed": False, "rights": rights, "pools": rows, "quotas": _limit_rows(task, namespaces)}


MODULE = ModuleSpec(AccessInfoOptions, run)


def _rights(task: Task[AccessInfoOptions], namespaces: Iterable[str]) -> list[dict[str, Any]]:
    client, options = task.client(), task.options
    groups = _groups_of_user(options)
    asked = [(place, right, needed) for place in namespaces for right, needed in _IN_NAMESPACES.items()]
    asked += [("", right, needed) for right, needed in _IN_CLUSTER.items()]

    def answer(question: tuple[str, str]) -> bool:
        permission, place = question
        verb, resource, *elsewhere = permission.split()
        place = elsewhere[-1] if elsewhere else place
        return _is_allowed(client, verb, resource, place, options.user or "", groups)

    questions = list(dict.fromkeys((permission, place) for place, _right, needed in asked for permission in needed))
    try:
        answers = dict(zip(questions, run_concurrently(answer, questions, client.concurrency), strict=True))
    except ApiError as error:
        if error.is_forbidden and (options.user or options.groups):
            raise TaskFailed(
                "the account may not ask about others. It needs the permission to create subjectaccessreviews, which "
                "the ClusterRole system:auth-delegator has. Remove O(user) and O(groups) to ask about the account."
            ) from None
        raise
    rows = []
    for place, right, needed in asked:
        missing = [permission for permission in needed if not answers[permission, place]]
        rows.append({"namespace": place or None, "right": right, "allowed": not missing, "missing": missing})
    return rows


def _is_allowed(client: Client, verb: str, resource: str, namespace: str, user: str, groups: Sequence[str]) -> bool:
    """Whether the account, or a user with groups, has a verb on a resource, written as kubectl does.

    The authorizers decide, whichever they are. To ask about others takes a permission of its own.
    """
    named, _slash, subresource = resource.partition("/")
    plural, _dot, group = named.partition(".")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": subresource, "namespace": namespace}
    return has_right(client, asked, **({"user": user, "groups": list(groups)} if user or groups else {}))


def _groups_of_user(options: AccessInfoOptions) -> list[str]:
    """With those that Kubernetes adds (docs, "Authenticating"); none for the account itself."""
    if not options.user and not options.groups:
        return []
    # A review is about the groups that it names: without a login, the server adds none.
    account = (options.user or "").split(":")
    of_accounts = ["system:serviceaccounts", f"system:serviceaccounts:{account[2]}"] if len(account) == 4 else []
    return [*(options.groups or ()), *of_accounts, "system:authenticated"]


def _pool_rows(declared: Declared, namespace: str, chosen: Iterable[str] | None) -> Iterator[dict[str, Any]]:
    """What policies say about each pool."""
    if not declared.known:
        return
    rules = [(policy, policy.namespaces[namespace]) for policy in declared.policies if namespace in policy.namespaces]
    limit = strictest_limits(declared.policies).get(namespace)
    for pool in chosen or (*sorted(declared.pools), DEFAULT_POOL):
        refusing = [policy for policy, own in rules if own.pools is not None and pool not in own.pools]
        yield {
            "namespace": namespace,
            "pool": pool,
            "allowed": not any(policy.action == "deny" for policy in refusing),
            "policies": [policy.source for policy, _own in rules],
            "refused_by": [policy.source for policy in refusing],
            "gpu_types": _allowed_by_all(rules, "gpu_types"),
            "priorities": _allowed_by_all(rules, "priorities"),
            "max_gpus_per_job": _least_limit(rules, "max_gpus_per_job"),
            "max_gpus": min((most for _policy, own in rules if (most := own.most_in(pool)) is not None), default=None),
            "notebooks": {"idle_for": limit.idle_for, "below": float(limit.below)} if limit else None,
        }


def _allowed_by_all(rules: Iterable[tuple[PolicyRules, NamespaceRules]], name: str) -> list[str] | None:
    """What all policies allow; None if none limits it."""
    given = [values for _policy, own in rules if (values := getattr(own, name)) is not None]
    return [value for value in given[0] if all(value in each for each in given)] if given else None


def _least_limit(rules: Iterable[tuple[PolicyRules, NamespaceRules]], name: str) -> int | None:
    return min((value for _policy, own in rules if (value := getattr(own, name)) is not None), default=None)


def _limit_rows(task: Task[AccessInfoOptions], namespaces: Iterable[str]) -> list[dict[str, Any]]:
    """The limits of accelerators in each namespace, and what is left of them."""
    client = task.client()
    rows = []
    for namespace in namespaces:
        try:
            quotas = client.list_objects(RESOURCE_QUOTA, namespace)
        except KubeError as error:
            task.warn(f"the quotas of namespace {namespace} are not known: {as_sentence(error)}")
            continue
        for quota in quotas:
            for name, amounts in _accelerator_limits(usage(quota)):
                rows.append({"namespace": namespace, "quota": quota["metadata"]["name"], "resource": name, **amounts})
    return rows


def _accelerator_limits(found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if found.get("gpu"):
        yield "gpu", found["gpu"]
    yield from (found.get("accelerators") or {}).items()
