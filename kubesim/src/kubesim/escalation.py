# SPDX-License-Identifier: BSD-2-Clause
"""No user grants what they do not hold: the check on writes of roles and bindings.

Source: pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased/storage.go,
pkg/registry/rbac/escalation_check.go, pkg/registry/rbac/validation/{rule,policy_compact}.go,
component-helpers auth/rbac/validation/policy_comparator.go.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from kubesim import errors
from kubesim.admission.request import AdmissionRequest
from kubesim.auth import MASTERS, Attributes, Authorizer, User
from kubesim.field import go_quote

Object = dict[str, Any]
_GROUP = "rbac.authorization.k8s.io"
_ROLES = {"Role": "roles", "ClusterRole": "clusterroles"}
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")
_EVERYTHING: list[Object] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


def check(request: AdmissionRequest) -> None:
    """ApiError 403 when a role or binding would give away rights that its author does not have."""
    kind, obj = request.resource.kind, request.obj
    if obj is None or MASTERS in request.user.groups or (kind not in _ROLES and kind not in _BINDINGS):
        return
    if request.old is not None and _without_bookkeeping(obj) == _without_bookkeeping(request.old):
        return  # IsOnlyMutatingGCFields
    authorizer = Authorizer(request.registry.get, request.registry.list)
    if kind in _ROLES:
        _check_role(request, obj, authorizer)
    else:
        _check_binding(request, obj["roleRef"], authorizer)


def _check_role(request: AdmissionRequest, role: Object, authorizer: Authorizer) -> None:
    if _may(authorizer, request, "escalate", request.resource.plural, request.name):
        return
    held = authorizer.rules(request.user, request.namespace)
    if missing := _missing(held, role.get("rules") or []):
        raise request.forbidden(_refusal(request.user, missing))
    if (role.get("aggregationRule") or {}).get("clusterRoleSelectors") and _missing(held, _EVERYTHING):
        raise request.forbidden("must have cluster-admin privileges to use the aggregationRule")


def _check_binding(request: AdmissionRequest, ref: Object, authorizer: Authorizer) -> None:
    if _may(authorizer, request, "bind", _ROLES.get(ref["kind"], ""), ref["name"]):
        return
    place = request.namespace if ref["kind"] == "Role" else None
    role = authorizer.find(ref["kind"], place, ref["name"])
    if role is None:
        raise errors.not_found(_GROUP, _ROLES.get(ref["kind"], ""), ref["name"])
    held = authorizer.rules(request.user, request.namespace)
    if missing := _missing(held, role.get("rules") or []):
        raise request.forbidden(_refusal(request.user, missing))


def _may(authorizer: Authorizer, request: AdmissionRequest, verb: str, plural: str, name: str) -> bool:
    asked = Attributes(verb, _GROUP, plural, namespace=request.namespace, name=name)
    return authorizer.decide(request.user, asked).allowed


def _missing(held: list[Object], wanted: Iterable[Object]) -> list[Object]:
    """validation.Covers: what of the wanted rules no held rule covers, one verb on one thing each."""
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(owned, part) for owned in held)]


def _parts(rule: Object) -> list[Object]:
    """BreakdownRule."""
    verbs, names = rule["verbs"], rule.get("resourceNames") or []
    named: list[Object] = [{"resourceNames": [name]} for name in names] or [{}]
    found = [
        {"apiGroups": [group], "resources": [resource], **name, "verbs": [verb]}
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        for verb in verbs
        for name in named
    ]
    urls = rule.get("nonResourceURLs") or ()
    return found + [{"nonResourceURLs": [url], "verbs": [verb]} for url in urls for verb in verbs]


def _covers(owned: Object, part: Object) -> bool:
    """ruleCovers."""
    if not _has(owned.get("verbs"), part["verbs"][0]):
        return False
    if urls := part.get("nonResourceURLs"):
        held = owned.get("nonResourceURLs") or ()
        return any(url == urls[0] or (url.endswith("*") and urls[0].startswith(url.rstrip("*"))) for url in held)
    resource: str = part["resources"][0]
    resources = owned.get("resources") or ()
    below = f"*/{resource.partition('/')[2]}" if "/" in resource else resource
    names, wanted = owned.get("resourceNames"), part.get("resourceNames")
    return (
        _has(owned.get("apiGroups"), part["apiGroups"][0])
        and ("*" in resources or resource in resources or below in resources)
        and (not names or bool(wanted and wanted[0] in names))
    )


def _has(held: Iterable[str] | None, wanted: str) -> bool:
    found = set(held or ())
    return "*" in found or wanted in found


def _refusal(user: User, missing: list[Object]) -> str:
    lines = "\n".join(sorted({_compact(rule) for rule in _compacted(missing)}))
    who = f"user {go_quote(user.name)} (groups={_list(user.groups)})"
    return f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}"


def _compacted(rules: list[Object]) -> list[Object]:
    """CompactRules: the verbs on one resource in one rule."""
    together: dict[str, Object] = {}
    for rule in rules:
        if "nonResourceURLs" in rule:
            together[str(rule)] = rule
            continue
        key = str([rule["apiGroups"], rule["resources"], rule.get("resourceNames")])
        known = together.setdefault(key, {**rule, "verbs": []})
        known["verbs"] = [*known["verbs"], *rule["verbs"]]
    return list(together.values())


def _compact(rule: Object) -> str:
    """rbacv1helpers.CompactString."""
    names = ("apiGroups", "resources", "nonResourceURLs", "resourceNames", "verbs")
    parts = [f"{name[:1].upper()}{name[1:]}:{_list(rule[name])}" for name in names if rule.get(name)]
    return "{" + ", ".join(parts).replace("ApiGroups:", "APIGroups:") + "}"


def _list(texts: Iterable[str]) -> str:
    """Go's %q of a []string."""
    return f"[{' '.join(go_quote(text) for text in texts)}]"


def _without_bookkeeping(obj: Object) -> Object:
    found = copy.deepcopy(obj)
    for key in ("ownerReferences", "finalizers", "managedFields"):
        found["metadata"].pop(key, None)
    return found
