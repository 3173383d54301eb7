# SPDX-License-Identifier: BSD-2-Clause
"""What the specs of Deployments, ReplicaSets, StatefulSets and DaemonSets have in common.

Source: pkg/apis/apps/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import NOT_NEGATIVE, label_selector, selector_matches
from kubesim.kinds.pod_validation import validate_template

Object = dict[str, Any]


def validate_selector(spec: Object, empty: str) -> Iterator[FieldError]:
    """`empty`: what is said of a selector that selects everything."""
    selector = spec.get("selector")
    if selector is None:
        yield field.required("spec.selector")
        return
    yield from label_selector(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield field.invalid("spec.selector", selector, empty)


def labels_match(spec: Object) -> Iterator[FieldError]:
    """An empty selector is reported as such and matches everything; a missing one matches nothing."""
    selector, labels = spec.get("selector"), spec["template"]["metadata"].get("labels") or {}
    if selector != {} and not selector_matches(selector, labels):
        yield field.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def validate_replica_template(spec: Object, owner: str) -> Iterator[FieldError]:
    """ValidatePodTemplateSpecForReplicaSet."""
    yield from labels_match(spec)
    yield from validate_template(spec["template"], "spec.template")
    pod = spec["template"]["spec"]
    if pod.get("restartPolicy") != "Always":
        yield field.not_supported("spec.template.spec.restartPolicy", pod.get("restartPolicy", ""), ("Always",))
    if "activeDeadlineSeconds" in pod:
        text = f"activeDeadlineSeconds in {owner} is not Supported"
        yield field.forbidden("spec.template.spec.activeDeadlineSeconds", text)


def int_or_percent(value: int | str, path: str) -> Iterator[FieldError]:
    """ValidatePositiveIntOrPercent."""
    if isinstance(value, str):
        for text in names.percent(value):
            yield field.invalid(path, value, text)
    elif value < 0:
        yield field.invalid(path, value, NOT_NEGATIVE)


def at_most_100_percent(value: int | str, path: str) -> Iterator[FieldError]:
    if isinstance(value, str) and not names.percent(value) and int(value[:-1]) > 100:
        yield field.invalid(path, value, "must not be greater than 100%")


def is_zero(value: int | str) -> bool:
    return value in (0, "0%")
