# SPDX-License-Identifier: BSD-2-Clause
"""Admission policies and webhooks of others that may refuse or change jobs: fit names them, and judges none of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...cluster.label_selectors import selects
from ...cluster.read_jobs import OWNED
from ...kube.client import Client
from ...kube.concurrency import run_concurrently
from ...kube.errors import ApiError
from ...kube.resources import (
    ADMISSION_POLICY,
    ADMISSION_POLICY_BINDING,
    MUTATING_WEBHOOKS,
    NAMESPACE,
    POD,
    RESOURCE_CLAIM_TEMPLATE,
    VALIDATING_WEBHOOKS,
    Object,
    Resource,
)
from ...labels import is_managed

_KINDS = {resource.kind: resource for resource in (*OWNED, POD, RESOURCE_CLAIM_TEMPLATE)}
_READ = (ADMISSION_POLICY, ADMISSION_POLICY_BINDING, VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)
_ALL: Object = {}


class _Asked(NamedTuple):
    """An object that will be created."""

    resource: Resource
    namespace: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Admitting:
    """What decides about objects on their way into the cluster. None: the account may not list it."""

    policies: Sequence[Object] | None = ()
    bindings: Sequence[Object] | None = ()
    validating: Sequence[Object] | None = ()
    mutating: Sequence[Object] | None = ()
    namespaces: Mapping[str, Mapping[str, str]] | None = None  # labels


def read_admitting(client: Client) -> Admitting:
    """Lists, whatever the number of jobs; that of namespaces only where something may be said by their labels."""
    found = run_concurrently(lambda one: _list_if_served(client, one), _READ, client.concurrency)
    policies, bindings, validating, mutating = (
        None if objects is None else [one for one in objects if not is_managed(one)] for objects in found
    )
    if not (policies or validating or mutating):
        return Admitting(policies, bindings, validating, mutating)
    namespaces = _list_if_served(client, NAMESPACE, metadata_only=True)
    labels = {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in namespaces or ()}
    return Admitting(policies, bindings, validating, mutating, None if namespaces is None else labels)


def _list_if_served(client: Client, resource: Resource, *, metadata_only: bool = False) -> list[dict[str, Any]] | None:
    """None where the account may not list it; nothing where the server does not have it (policies before 1.30)."""
    try:
        return client.list_objects(resource, metadata_only=metadata_only)
    except ApiError as error:
        if error.is_forbidden:
            return None
        if error.status == 404:
            return []
        raise


def unjudged(admitting: Admitting, jobs: Iterable[Sequence[Object]]) -> list[str]:
    """What of it the objects of some jobs, and their pods, go through. Pure."""
    asked = [one for objects in jobs for obj in objects for one in _asked(obj)]
    found = [f"ValidatingAdmissionPolicy {name}" for name in _policies(admitting, asked)]
    for kind, configurations in (("validating", admitting.validating), ("mutating", admitting.mutating)):
        for one in configurations or ():
            hooks = [hook["name"] for hook in one.get("webhooks") or () if _concerns(hook, asked, admitting.namespaces)]
            found += (f"{kind} webhook {hook} ({one['metadata']['name']})" for hook in hooks)
    if asked and None in (admitting.policies, admitting.bindings, admitting.validating, admitting.mutating):
        found.append("admission policies and webhooks that the account may not list")
    return found


def _asked(obj: Object) -> Iterator[_Asked]:
    metadata = obj["metadata"]
    if obj["kind"] in _KINDS:
        yield _Asked(_KINDS[obj["kind"]], metadata["namespace"], metadata.get("labels") or {})
    template = (obj.get("spec") or {}).get("template")
    if template:
        yield _Asked(POD, metadata["namespace"], (template.get("metadata") or {}).get("labels") or {})


def _policies(admitting: Admitting, asked: Sequence[_Asked]) -> Iterator[str]:
    """Policies do nothing without a binding, and refuse nothing unless that says Deny."""
    for policy in admitting.policies or ():
        name, spec = policy["metadata"]["name"], policy.get("spec") or {}
        meant = [one for one in asked if _concerns(spec.get("matchConstraints") or {}, [one], admitting.namespaces)]
        bindings = [one["spec"] for one in admitting.bindings or () if one["spec"].get("policyName") == name]
        denying = [one for one in bindings if "Deny" in (one.get("validationActions") or ())]
        if any(_concerns(one.get("matchResources") or {}, meant, admitting.namespaces) for one in denying):
            yield name


def _concerns(match: Object, asked: Iterable[_Asked], namespaces: Mapping[str, Mapping[str, str]] | None) -> bool:
    """Whether its rules and selectors mean one of the objects; expressions (matchConditions) may leave it out still."""
    rules = match.get("rules") or match.get("resourceRules")
    for one in asked:
        known = None if namespaces is None else namespaces.get(one.namespace)
        in_namespace = known is None or selects(match.get("namespaceSelector", _ALL), known)
        by_rule = rules is None or any(_rule_means(rule, one.resource) for rule in rules)
        is_left_out = any(_rule_means(rule, one.resource) for rule in match.get("excludeResourceRules") or ())
        if by_rule and in_namespace and not is_left_out and selects(match.get("objectSelector", _ALL), one.labels):
            return True
    return False


def _rule_means(rule: Object, resource: Resource) -> bool:
    group, slash, _version = resource.api_version.rpartition("/")
    plurals = rule.get("resources") or ()
    return (
        bool({"*", "CREATE"} & set(rule.get("operations") or ()))
        and bool({"*", group if slash else ""} & set(rule.get("apiGroups") or ()))
        and bool({"*", "*/*", resource.plural} & set(plurals))
        and rule.get("scope", "*") != "Cluster"
    )
