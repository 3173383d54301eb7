# SPDX-License-Identifier: BSD-2-Clause
"""admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy and its binding, networking.k8s.io/v1 NetworkPolicy.

Sources: pkg/apis/admissionregistration/v1/defaults.go and validation/validation.go, pkg/apis/networking/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesim import field, policy_cel
from kubesim.field import FieldError
from kubesim.kinds.metadata import label_selector
from kubesim.kinds.strategy import Object, Strategy

_ACTIONS = ("Audit", "Deny", "Warn")


class ValidatingAdmissionPolicyStrategy(Strategy):
    kind = "ValidatingAdmissionPolicy"
    namespaced = False
    generation_of = "spec"

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec["failurePolicy"] = spec.get("failurePolicy") or "Fail"
        if "matchConstraints" in spec:
            _default_match(spec["matchConstraints"])

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        if "matchConstraints" not in spec:
            yield field.required("spec.matchConstraints", "")
        elif not spec["matchConstraints"].get("resourceRules"):
            yield field.required("spec.matchConstraints.resourceRules", "")
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            text = "validations or auditAnnotations must be non-empty"
            yield field.required("spec.validations", f"{text}; at least one of them must be specified")
        for name in ("matchConditions", "variables", "validations"):
            for index, one in enumerate(spec.get(name) or ()):
                if problem := policy_cel.compile_problem(one.get("expression", "")):
                    yield field.invalid(f"spec.{name}[{index}].expression", one.get("expression", ""), problem)


class ValidatingAdmissionPolicyBindingStrategy(Strategy):
    kind = "ValidatingAdmissionPolicyBinding"
    namespaced = False

    def default(self, obj: Object) -> None:
        if "matchResources" in obj.setdefault("spec", {}):
            _default_match(obj["spec"]["matchResources"])

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        if not spec.get("policyName"):
            yield field.required("spec.policyName", "")
        if not spec.get("validationActions"):
            yield field.required("spec.validationActions", "")
        for index, action in enumerate(spec.get("validationActions") or ()):
            if action not in _ACTIONS:
                yield field.not_supported(f"spec.validationActions[{index}]", action, _ACTIONS)


class NetworkPolicyStrategy(Strategy):
    kind = "NetworkPolicy"

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
            for port in rule.get("ports") or ():
                port["protocol"] = port.get("protocol") or "TCP"
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        yield from label_selector(obj["spec"].get("podSelector") or {}, "spec.podSelector")


def _default_match(match: Object) -> None:
    match["matchPolicy"] = match.get("matchPolicy") or "Equivalent"
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for rule in (*(match.get("resourceRules") or ()), *(match.get("excludeResourceRules") or ())):
        rule["scope"] = rule.get("scope") or "*"
