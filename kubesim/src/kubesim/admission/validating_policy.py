# SPDX-License-Identifier: BSD-2-Clause
"""ValidatingAdmissionPolicy: what policies that are bound say of a request.

Source: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/{generic,matching,validating}. Without parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubesim import errors
from kubesim.admission.request import AdmissionRequest, Object
from kubesim.auth import Attributes, Authorizer
from kubesim.policy_cel import EvaluationError, PolicyScope
from kubesim.scale import scale_of
from kubesim.selectors import matches_label_selector

_OWN = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def validate(request: AdmissionRequest) -> None:
    """ApiError 422 for what a policy denies. Policies and bindings themselves are never judged."""
    if request.resource.kind in _OWN:
        return
    for binding in request.registry.list("ValidatingAdmissionPolicyBinding", None):
        policy = request.registry.get("ValidatingAdmissionPolicy", None, binding["spec"]["policyName"])
        if policy is None:
            continue
        if not _concerns(policy["spec"]["matchConstraints"], request):
            continue
        if not _concerns(binding["spec"].get("matchResources") or {}, request):
            continue
        for message in _denials(policy["spec"], request):
            _act(request, policy, binding, message)


def _act(request: AdmissionRequest, policy: Object, binding: Object, message: str) -> None:
    name, bound = policy["metadata"]["name"], binding["metadata"]["name"]
    actions = binding["spec"].get("validationActions") or ()
    if "Warn" in actions:
        text = f"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{bound}': {message}"
        request.warnings.append(text)
    if "Deny" in actions:
        text = f"ValidatingAdmissionPolicy '{name}' with binding '{bound}' denied request: {message}"
        refusal = request.forbidden(text)
        details: Object = {**(refusal.details or {}), "causes": [{"message": text}]}
        raise errors.ApiError(422, "Invalid", refusal.message, details)


def _concerns(match: Mapping[str, Any], request: AdmissionRequest) -> bool:
    namespace = request.registry.get("Namespace", None, request.namespace) if request.namespace else None
    if request.resource.kind == "Namespace":
        namespace = request.obj or request.old
    selector = match.get("namespaceSelector")
    if selector and namespace is not None and not matches_label_selector(selector, _labels(namespace)):
        return False
    rules = match.get("resourceRules")
    return rules is None or any(_is_of(rule, request) for rule in rules)


def _labels(obj: Object) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("labels") or {}
    return found


def _is_of(rule: Mapping[str, Any], request: AdmissionRequest) -> bool:
    resource = request.resource
    name = f"{resource.plural}/{request.subresource}" if request.subresource else resource.plural

    def has(key: str, value: str) -> bool:
        return "*" in rule[key] or value in rule[key]

    return (
        has("apiGroups", resource.group)
        and has("apiVersions", resource.version)
        and has("operations", request.operation)
        and has("resources", name)
    )


def _denials(spec: Mapping[str, Any], request: AdmissionRequest) -> Iterator[str]:
    """The messages of validations that do not hold."""
    authorizer = Authorizer(request.registry.get, request.registry.list)

    def decide(verb: str, group: str, resource: str, namespace: str) -> bool:
        return authorizer.decide(request.user, Attributes(verb, group, resource, namespace=namespace)).allowed

    new, old = (_shown(request, obj) for obj in (request.obj, request.old))
    asked = {
        "operation": request.operation,
        "namespace": request.namespace,
        "name": request.name,
        "userInfo": request.user.info,
    }
    values = {"object": new, "oldObject": old, "request": asked}
    scope = PolicyScope(values, spec.get("variables") or (), decide)
    try:
        if not all(scope.value(condition["expression"]) for condition in spec.get("matchConditions") or ()):
            return
    except EvaluationError as error:
        yield f"failed to evaluate matchConditions: {error}"
        return
    for validation in spec.get("validations") or ():
        try:
            if scope.value(validation["expression"]):
                continue
        except EvaluationError as error:
            yield f"expression '{validation['expression']}' resulted in error: {error}"
            continue
        yield _message(scope, validation)


def _shown(request: AdmissionRequest, obj: Object | None) -> Object | None:
    """The object as its subresource has it."""
    return scale_of(obj) if obj is not None and request.subresource == "scale" else obj


def _message(scope: PolicyScope, validation: Mapping[str, str]) -> str:
    if expression := validation.get("messageExpression"):
        try:
            return str(scope.value(expression))
        except EvaluationError:
            pass
    return validation.get("message") or f"failed expression: {validation['expression']}"
