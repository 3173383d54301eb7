# SPDX-License-Identifier: BSD-2-Clause
"""v1 LimitRange and ResourceQuota. Sources: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import IMMUTABLE
from kubesim.kinds.resources import (
    container_resource_name,
    is_overcommit_allowed,
    is_standard_quota,
    quota_resource_name,
    resource_amount,
    resource_name,
)
from kubesim.kinds.strategy import Object, Strategy
from kubesim.quantity import Quantity, parse_list

LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")

SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_ONLY_EXISTS = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_POD_COMPUTE = {
    name if prefix == "" else f"{prefix}.{name}" for prefix in ("", "limits", "requests") for name in ("cpu", "memory")
}
#: Which of the standard resources a scope may be about; other scopes are about all.
_SCOPE_RESOURCES = {
    "Terminating": {"pods"} | _POD_COMPUTE,
    "NotTerminating": {"pods"} | _POD_COMPUTE,
    "NotBestEffort": {"pods"} | _POD_COMPUTE,
    "PriorityClass": {"pods"} | _POD_COMPUTE,
    "CrossNamespacePodAffinity": {"pods"} | _POD_COMPUTE,
    "BestEffort": {"pods"},
    "VolumeAttributesClass": {"persistentvolumeclaims", "requests.storage"},
}


class LimitRangeStrategy(Strategy):
    kind = "LimitRange"

    def default(self, obj: Object) -> None:
        """SetDefaults_LimitRangeItem: limits default to the maximum, requests to the limit, then to the minimum."""
        for item in obj.setdefault("spec", {}).get("limits") or ():
            for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
                for name, value in item.get(key, {}).items():
                    item[key][name] = str(Quantity.parse(value).round_up_to_milli())
            if item.get("type") == "Container":
                item["default"] = item.get("max", {}) | item.get("default", {})
                item["defaultRequest"] = item.get("min", {}) | item["default"] | item.get("defaultRequest", {})

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        seen: set[str] = set()
        for index, item in enumerate(obj["spec"].get("limits") or ()):
            path, kind = f"spec.limits[{index}]", item.get("type", "")
            yield from _limit_type(kind, f"{path}.type")
            if kind in seen:
                yield field.duplicate(f"{path}.type", kind)
            seen.add(kind)
            yield from _limit_item(item, kind, path)

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        # The strategy runs ValidateLimitRange, and nothing about the change.
        yield from self.validate(obj)


class ResourceQuotaStrategy(Strategy):
    kind = "ResourceQuota"
    has_status = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})
        for part in ("spec", "status"):
            for key in ("hard", "used"):
                for name, value in ((obj.get(part) or {}).get(key) or {}).items():
                    obj[part][key][name] = str(Quantity.parse(value).round_up_to_milli())

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        for name, amount in parse_list(spec.get("hard")).items():
            yield from quota_resource_name(name, f"spec.hard[{name}]")
            yield from resource_amount(name, amount, f"spec.hard[{name}]")
        yield from _scopes(spec)
        if selector := spec.get("scopeSelector"):
            yield from _scope_selector(spec, selector, "spec.scopeSelector.matchExpressions")

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from super().validate_changes(obj, old)
        scopes = obj["spec"].get("scopes") or []
        if {*scopes} != {*(old["spec"].get("scopes") or ())}:
            yield field.invalid("spec.scopes", scopes, IMMUTABLE)


def _limit_type(kind: str, path: str) -> Iterator[FieldError]:
    wrong = names.label_key(kind)
    for text in wrong:
        yield field.invalid(path, kind, text)
    if not wrong and "/" not in kind and kind not in LIMIT_TYPES:
        yield field.invalid(path, kind, "must be a standard limit type or fully qualified")


def _limit_item(item: Object, kind: str, path: str) -> Iterator[FieldError]:
    name_rule = container_resource_name if kind in ("Pod", "Container") else resource_name
    defaults = ("default", "defaultRequest")
    for key in ("max", "min"):
        yield from _limit_names(item, key, path, name_rule)
    for key in defaults:
        if kind == "Pod":
            if item.get(key):
                yield field.forbidden(f"{path}.{key}", "may not be specified when `type` is 'Pod'")
        else:
            yield from _limit_names(item, key, path, name_rule)
    if kind == "PersistentVolumeClaim" and "storage" not in {*item.get("min", {}), *item.get("max", {})}:
        text = "either minimum or maximum storage value is required, but neither was provided"
        yield field.required(f"{path}.limits", text)
    yield from _limit_names(item, "maxLimitRequestRatio", path, name_rule)
    skipped = defaults if kind == "Pod" else ()
    amounts = {
        key: parse_list(item.get(key)) if key not in skipped else {}
        for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    }
    for name in sorted({name for values in amounts.values() for name in values}):
        yield from _consistent(name, {key: values.get(name) for key, values in amounts.items()}, path)


def _limit_names(item: Object, key: str, path: str, name_rule: Any) -> Iterator[FieldError]:
    for name in item.get(key) or ():
        yield from name_rule(name, f"{path}.{key}[{name}]")


def _consistent(name: str, amounts: dict[str, Quantity | None], path: str) -> Iterator[FieldError]:
    """min <= defaultRequest <= default <= max; the unexpected values shown are those that Kubernetes shows."""
    low, high, ratio = amounts["min"], amounts["max"], amounts["maxLimitRequestRatio"]
    limit, request = amounts["default"], amounts["defaultRequest"]
    for smaller, larger, key, shown, text in (
        (low, high, "min", low, f"min value {low} is greater than max value {high}"),
        (low, request, "defaultRequest", request, f"min value {low} is greater than default request value {request}"),
        (request, high, "defaultRequest", request, f"default request value {request} is greater than max value {high}"),
        (request, limit, "defaultRequest", request,
         f"default request value {request} is greater than default limit value {limit}"),
        (low, limit, "default", low, f"min value {low} is greater than default value {limit}"),
        (limit, high, "default", high, f"default value {limit} is greater than max value {high}"),
    ):  # fmt: skip
        if smaller is not None and larger is not None and smaller > larger:
            yield field.invalid(f"{path}.{key}[{name}]", str(shown), text)
    if ratio is not None:
        yield from _ratio(ratio, low, high, f"{path}.maxLimitRequestRatio[{name}]")
    if not is_overcommit_allowed(name) and limit is not None and request is not None and limit != request:
        text = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        yield field.invalid(f"{path}.defaultRequest[{name}]", str(request), text)


def _ratio(ratio: Quantity, low: Quantity | None, high: Quantity | None, path: str) -> Iterator[FieldError]:
    if ratio < Quantity.of(1):
        yield field.invalid(path, str(ratio), f"ratio {ratio} is less than 1")
    if low and high is not None:
        greatest = high.amount / low.amount
        if ratio.amount > greatest:
            yield field.invalid(path, str(ratio), f"ratio {ratio} is greater than max/min = {float(greatest):f}")


def _scopes(spec: Object) -> Iterator[FieldError]:
    scopes, path = spec.get("scopes") or [], "spec.scopes"
    for scope in scopes:
        if scope not in SCOPES:
            yield field.invalid(path, scopes, "unsupported scope")
        yield from _scope_fits(spec, scope, path, scopes)
    yield from _conflicts(scopes, path, scopes)


def _scope_selector(spec: Object, selector: Object, path: str) -> Iterator[FieldError]:
    scopes = []
    for requirement in selector.get("matchExpressions") or ():
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        values = requirement.get("values") or []
        scopes.append(scope)
        if scope not in SCOPES:
            yield field.invalid(f"{path}.scopeName", scope, "unsupported scope")
        yield from _scope_fits(spec, scope, path, selector)
        if scope in _ONLY_EXISTS and operator != "Exists":
            text = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort "
                "or ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            yield field.invalid(f"{path}.operator", operator, text)
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield field.required(f"{path}.values", text)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield field.invalid(f"{path}.values", values, text)
        else:
            yield field.invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from _conflicts(scopes, path, spec.get("scopes") or [])


def _scope_fits(spec: Object, scope: str, path: str, shown: Any) -> Iterator[FieldError]:
    allowed = _SCOPE_RESOURCES.get(scope)
    for name in sorted(spec.get("hard") or ()):
        if allowed is not None and is_standard_quota(name) and name not in allowed:
            yield field.invalid(path, shown, "unsupported scope applied to resource")


def _conflicts(scopes: list[str], path: str, shown: Any) -> Iterator[FieldError]:
    for pair in ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}):
        if pair <= {*scopes}:
            yield field.invalid(path, shown, "conflicting scopes")
