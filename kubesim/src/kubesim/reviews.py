# SPDX-License-Identifier: BSD-2-Clause
"""Reviews: POST requests that store nothing and answer what a user is or may do.

Source: pkg/registry/authorization/*/backend.go, pkg/registry/authentication/*/storage.go,
pkg/apis/authorization/validation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesim import errors
from kubesim.auth import Attributes, User
from kubesim.backend import Backend
from kubesim.calls import Call
from kubesim.clock import rfc3339
from kubesim.field import FieldError, invalid

Object = dict[str, Any]
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def answer(backend: Backend, call: Call, review: Object) -> Object:
    """The review with its status; ApiError 422 when it is malformed."""
    return HANDLERS[call.resource.kind](backend, call, review)


def _self_subject(backend: Backend, call: Call, review: Object) -> Object:
    moment = rfc3339(backend.registry.clock.now())
    return {**review, "metadata": {"creationTimestamp": moment}, "status": {"userInfo": call.user.info}}


def _token(backend: Backend, call: Call, review: Object) -> Object:
    user = backend.authenticator.user_of(review["spec"].get("token", ""))
    if user is None:
        status: Object = {"user": {}, "error": "invalid bearer token"}
    else:
        status = {"authenticated": True, "user": user.info}
    return {**review, "status": status}


def _self_access(backend: Backend, call: Call, review: Object) -> Object:
    return _access(backend, review, call.user, call)


def _access_of_somebody(backend: Backend, call: Call, review: Object) -> Object:
    spec = review["spec"]
    found: list[FieldError] = []
    if not spec.get("user") and not spec.get("groups"):
        found = [invalid("spec.user", "", "at least one of user or group must be specified")]
    if call.info.namespace and spec.get("resourceAttributes", {}).get("namespace") != call.info.namespace:
        raise errors.bad_request(f"spec.resourceAttributes.namespace must match namespace: {call.info.namespace}")
    user = User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()))
    return _access(backend, review, user, call, found)


def _access(backend: Backend, review: Object, user: User, call: Call, found: list[FieldError] | None = None) -> Object:
    spec = review["spec"]
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    problems = list(found or [])
    if (resource is None) == (path is None):
        problems.append(invalid("spec.resourceAttributes", None, _ONE_OF))
    if problems:
        # authorization.k8s.io builds this error with a GroupKind that has no kind
        raise errors.invalid("", "", problems, call.resource.group)
    asked = _asked(resource, path)
    decision = backend.authorizer.decide(user, asked)
    status: Object = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {**review, "status": status}


def _asked(resource: Object | None, path: Object | None) -> Attributes:
    if resource is None:
        given = path or {}
        return Attributes(given.get("verb", ""), path=given.get("path", ""))
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(**{name: resource.get(name, "") for name in names})


def _self_rules(backend: Backend, call: Call, review: Object) -> Object:
    namespace = review["spec"].get("namespace", "")
    if not namespace:
        raise errors.bad_request("no namespace on request")
    rules = backend.authorizer.rules(call.user, namespace)
    status = {
        "resourceRules": [_plain(rule) for rule in rules if rule.get("resources")],
        "nonResourceRules": [_plain(rule) for rule in rules if rule.get("nonResourceURLs")],
        "incomplete": False,
    }
    return {**review, "status": status}


def _plain(rule: Object) -> Object:
    return {key: value for key, value in rule.items() if value}


HANDLERS: dict[str, Callable[[Backend, Call, Object], Object]] = {
    "SelfSubjectReview": _self_subject,
    "TokenReview": _token,
    "SelfSubjectAccessReview": _self_access,
    "SubjectAccessReview": _access_of_somebody,
    "LocalSubjectAccessReview": _access_of_somebody,
    "SelfSubjectRulesReview": _self_rules,
}
