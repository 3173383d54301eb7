# SPDX-License-Identifier: BSD-2-Clause
"""ObjectMeta, labels and label selectors.

Sources: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go,
pkg/apis/meta/v1/validation/validation.go, and validateKubeFinalizerName of pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
MAX_ANNOTATIONS_BYTES = 256 * 1024

_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_IMMUTABLE_META = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def object_meta(meta: dict[str, Any], path: str, name_rule: names.Rule, namespaced: bool) -> Iterator[FieldError]:
    """ValidateObjectMeta, after names were generated."""
    if prefix := meta.get("generateName"):
        for text in name_rule(names.as_prefix(prefix)):
            yield field.invalid(f"{path}.generateName", prefix, text)
    if name := meta.get("name"):
        for text in name_rule(name):
            yield field.invalid(f"{path}.name", name, text)
    else:
        yield field.required(f"{path}.name", "name or generateName is required")
    namespace = meta.get("namespace", "")
    if namespaced and not namespace:
        yield field.required(f"{path}.namespace")
    elif namespaced:
        for text in names.dns_label(namespace):
            yield field.invalid(f"{path}.namespace", namespace, text)
    elif namespace:
        yield field.forbidden(f"{path}.namespace", "not allowed on this type")
    yield from _maps_and_lists(meta, path)
    for index, finalizer in enumerate(meta.get("finalizers", ())):
        yield from _legacy_finalizer(finalizer, f"{path}.finalizers[{index}]")


def object_meta_update(meta: dict[str, Any], old: dict[str, Any], path: str) -> Iterator[FieldError]:
    """ValidateObjectMetaUpdate."""
    if old.get("deletionTimestamp"):
        added = sorted(set(meta.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            listed = ", ".join(field.go_quote(name) for name in added)
            text = "no new finalizers can be added if the object is being deleted, found new finalizers "
            yield field.forbidden(f"{path}.finalizers", f"{text}[]string{{{listed}}}")
    if not meta.get("resourceVersion"):
        yield field.invalid(f"{path}.resourceVersion", "", "must be specified for an update")
    if meta.get("generation", 0) < old.get("generation", 0):
        yield field.invalid(f"{path}.generation", meta.get("generation", 0), "must not be decremented")
    for key in _IMMUTABLE_META:
        yield from immutable(meta, old, key, path)
    yield from _maps_and_lists(meta, path, update=True)
    for index, finalizer in enumerate(meta.get("finalizers", ())):
        yield from _legacy_finalizer(finalizer, f"{path}.finalizers[{index}]")


def immutable(new: dict[str, Any], old: dict[str, Any], key: str, path: str) -> Iterator[FieldError]:
    """ValidateImmutableField for one key of two structures; empty and absent are equal."""
    if (new.get(key) or None) != (old.get(key) or None):
        yield field.invalid(f"{path}.{key}" if path else key, new.get(key), IMMUTABLE)


def not_negative(parent: dict[str, Any], key: str, path: str) -> Iterator[FieldError]:
    """ValidateNonnegativeField; absent is zero."""
    value = parent.get(key)
    if isinstance(value, int) and value < 0:
        yield field.invalid(f"{path}.{key}", value, NOT_NEGATIVE)


def validate_labels(values: dict[str, str] | None, path: str) -> Iterator[FieldError]:
    """ValidateLabels: keys and values are reported under the same path."""
    for key, value in (values or {}).items():
        for text in names.label_key(key):
            yield field.invalid(path, key, text)
        for text in names.label_value(value):
            yield field.invalid(path, value, text)


def validate_annotations(values: dict[str, str] | None, path: str) -> Iterator[FieldError]:
    values = values or {}
    for key in values:
        for text in names.label_key(key.lower()):
            yield field.invalid(path, key, text)
    if sum(len(key.encode()) + len(value.encode()) for key, value in values.items()) > MAX_ANNOTATIONS_BYTES:
        yield field.too_long(path, MAX_ANNOTATIONS_BYTES)


def label_name(key: str, path: str) -> Iterator[FieldError]:
    for text in names.label_key(key):
        yield field.invalid(path, key, text)


def label_selector(selector: dict[str, Any], path: str) -> Iterator[FieldError]:
    """ValidateLabelSelector."""
    yield from validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions", ())):
        here = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                yield field.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                yield field.forbidden(
                    f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                )
        else:
            yield field.invalid(f"{here}.operator", operator, "not a valid selector operator")
        yield from label_name(expression.get("key", ""), f"{here}.key")
        for position, value in enumerate(values):
            for text in names.label_value(value):
                yield field.invalid(f"{here}.values[{position}]", value, text)


def selector_matches(selector: dict[str, Any] | None, values: dict[str, str] | None) -> bool:
    """LabelSelectorAsSelector(selector).Matches(values): no selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    values = values or {}
    if any(values.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression_matches(expression, values) for expression in selector.get("matchExpressions") or ())


def _expression_matches(expression: dict[str, Any], values: dict[str, str]) -> bool:
    key, allowed = expression.get("key", ""), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return key in values and values[key] in allowed
        case "NotIn":
            return values.get(key) not in allowed
        case "Exists":
            return key in values
        case "DoesNotExist":
            return key not in values
    return False


def _maps_and_lists(meta: dict[str, Any], path: str, update: bool = False) -> Iterator[FieldError]:
    if not update:
        yield from not_negative(meta, "generation", path)
    yield from validate_labels(meta.get("labels"), f"{path}.labels")
    yield from validate_annotations(meta.get("annotations"), f"{path}.annotations")
    yield from _owner_references(meta.get("ownerReferences") or [], f"{path}.ownerReferences")
    if not update:
        yield from _finalizers(meta.get("finalizers") or [], f"{path}.finalizers")


def _owner_references(references: list[dict[str, Any]], path: str) -> Iterator[FieldError]:
    controller = ""
    for reference in references:
        version = reference.get("apiVersion", "")
        if not version.rpartition("/")[2]:
            yield field.invalid(f"{path}.apiVersion", version, "version must not be empty")
        for key in ("kind", "name", "uid"):
            if not reference.get(key):
                yield field.invalid(f"{path}.{key}", reference.get(key, ""), "must not be empty")
        if (version, reference.get("kind")) == ("v1", "Event"):
            yield field.invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner")
        if reference.get("controller"):
            current = f"{reference.get('kind', '')}/{reference.get('name', '')}"
            if controller:
                text = "Only one reference can have Controller set to true. "
                text += f'Found "true" in references for {controller} and {current}'
                yield field.invalid(path, references, text)
            else:
                controller = current


def _finalizers(finalizers: list[str], path: str) -> Iterator[FieldError]:
    for finalizer in finalizers:
        for text in names.label_key(finalizer):
            yield field.invalid(path, finalizer, text)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield field.invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")


def _legacy_finalizer(finalizer: str, path: str) -> Iterator[FieldError]:
    if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        yield field.invalid(path, finalizer, text)
