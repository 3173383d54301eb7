# SPDX-License-Identifier: BSD-2-Clause
"""Where a pod may go: affinity, tolerations and taints, topology spread.

Source: pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import label_name, label_selector

Object = dict[str, Any]

NOT_POSITIVE = "must be greater than zero"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_affinity(affinity: Object, path: str) -> Iterator[FieldError]:
    if node := affinity.get("nodeAffinity"):
        yield from _node_affinity(node, f"{path}.nodeAffinity")
    for key in ("podAffinity", "podAntiAffinity"):
        if pods := affinity.get(key):
            yield from _pod_affinity(pods, f"{path}.{key}")


def validate_tolerations(tolerations: list[Object], path: str) -> Iterator[FieldError]:
    for index, toleration in enumerate(tolerations):
        here = f"{path}[{index}]"
        key, operator, value = (toleration.get(name, "") for name in ("key", "operator", "value"))
        effect = toleration.get("effect", "")
        if key:
            yield from label_name(key, f"{here}.key")
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield field.invalid(f"{here}.operator", operator, text)
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            yield field.invalid(f"{here}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        if operator in ("", "Equal"):
            if wrong := names.label_value(value):
                yield field.invalid(f"{here}.operator", value, ";".join(wrong))
        elif operator == "Exists":
            if value:
                yield field.invalid(f"{here}.operator", value, "value must be empty when `operator` is 'Exists'")
        else:
            yield field.not_supported(f"{here}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in EFFECTS:
            yield field.not_supported(f"{here}.effect", effect, EFFECTS)


def validate_taints(taints: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here, key, effect = f"{path}[{index}]", taint.get("key", ""), taint.get("effect", "")
        yield from label_name(key, f"{here}.key")
        if wrong := names.label_value(taint.get("value", "")):
            yield field.invalid(f"{here}.value", taint["value"], ";".join(wrong))
        if not effect:
            yield field.required(f"{here}.effect")
        elif effect not in EFFECTS:
            yield field.not_supported(f"{here}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            yield field.duplicate(here, taint, "taints must be unique by key and effect pair")
        seen.add((key, effect))


def validate_topology_spread(constraints: list[Object], path: str) -> Iterator[FieldError]:
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        skew, key, action = (
            constraint.get("maxSkew", 0),
            constraint.get("topologyKey", ""),
            constraint.get("whenUnsatisfiable", ""),
        )
        if skew <= 0:
            yield field.invalid(f"{here}.maxSkew", skew, NOT_POSITIVE)
        if not key:
            yield field.required(f"{here}.topologyKey", "can not be empty")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            yield field.not_supported(f"{here}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
        if any(
            (o.get("topologyKey", ""), o.get("whenUnsatisfiable", "")) == (key, action)
            for o in constraints[index + 1 :]
        ):
            yield field.duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        if (domains := constraint.get("minDomains")) is not None:
            if domains <= 0:
                yield field.invalid(f"{here}.minDomains", domains, NOT_POSITIVE)
            if action != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                yield field.invalid(f"{here}.minDomains", domains, text)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.get(policy, "Honor") not in ("Honor", "Ignore"):
                yield field.not_supported(f"{here}.{policy}", constraint[policy], ("Honor", "Ignore"))
        if selector := constraint.get("labelSelector"):
            yield from label_selector(selector, f"{here}.labelSelector")


def validate_node_selector(terms: list[Object], path: str) -> Iterator[FieldError]:
    if not terms:
        yield field.required(path, "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _node_term(term, f"{path}[{index}]", check_values=True)


def _node_affinity(affinity: Object, path: str) -> Iterator[FieldError]:
    if (required := affinity.get(_REQUIRED)) is not None:
        yield from validate_node_selector(
            required.get("nodeSelectorTerms") or [], f"{path}.{_REQUIRED}.nodeSelectorTerms"
        )
    for index, preferred in enumerate(affinity.get(_PREFERRED) or ()):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(preferred, here)
        yield from _node_term(preferred.get("preference") or {}, f"{here}.preference", check_values=False)


def _node_term(term: Object, path: str, check_values: bool) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        yield from _node_requirement(requirement, f"{path}.matchExpressions[{index}]", check_values)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        yield from _node_field(requirement, f"{path}.matchFields[{index}]")


def _node_requirement(requirement: Object, path: str, check_values: bool) -> Iterator[FieldError]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            yield field.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield field.forbidden(
                f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield field.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield field.invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from label_name(requirement.get("key", ""), f"{path}.key")
    if check_values:
        for index, value in enumerate(values):
            for text in names.label_value(value):
                yield field.invalid(f"{path}.values[{index}]", value, text)


def _node_field(requirement: Object, path: str) -> Iterator[FieldError]:
    operator, values, key = requirement.get("operator", ""), requirement.get("values") or [], requirement.get("key", "")
    if operator not in ("In", "NotIn"):
        yield field.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield field.required(f"{path}.values", text)
    if key != "metadata.name":
        yield field.invalid(f"{path}.key", key, "not a valid field selector key")
    else:
        for index, value in enumerate(values):
            for text in names.dns_subdomain(value):
                yield field.invalid(f"{path}.values[{index}]", value, text)


def _pod_affinity(affinity: Object, path: str) -> Iterator[FieldError]:
    for index, term in enumerate(affinity.get(_REQUIRED) or ()):
        yield from _pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, preferred in enumerate(affinity.get(_PREFERRED) or ()):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(preferred, here)
        yield from _pod_term(preferred.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")


def _pod_term(term: Object, path: str) -> Iterator[FieldError]:
    for key in ("labelSelector", "namespaceSelector"):
        if selector := term.get(key):
            yield from label_selector(selector, f"{path}.{key}")
    for namespace in term.get("namespaces") or ():
        for text in names.dns_label(namespace):
            yield field.invalid(f"{path}.namespace", namespace, text)
    topology_key = term.get("topologyKey", "")
    if not topology_key:
        yield field.required(f"{path}.topologyKey", "can not be empty")
    yield from label_name(topology_key, f"{path}.topologyKey")


def _weight(preferred: Object, path: str) -> Iterator[FieldError]:
    weight = preferred.get("weight", 0)
    if not 1 <= weight <= 100:
        yield field.invalid(f"{path}.weight", weight, "must be in the range 1-100")
