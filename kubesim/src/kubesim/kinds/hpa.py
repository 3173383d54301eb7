# SPDX-License-Identifier: BSD-2-Clause
"""autoscaling/v2 HorizontalPodAutoscaler.

Sources: pkg/apis/autoscaling/v2/defaults.go, pkg/apis/autoscaling/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import object_meta_update
from kubesim.kinds.resources import container_resource_name
from kubesim.kinds.strategy import Object, Strategy
from kubesim.quantity import ZERO, Quantity

MAX_PERIOD_SECONDS = 1800
MAX_STABILIZATION_SECONDS = 3600
SOURCE_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")

_NO_TARGET = "must set either a target raw value or a target utilization"
_TWO_TARGETS = "may not set both a target raw value and a target utilization"


class HorizontalPodAutoscalerStrategy(Strategy):
    kind = "HorizontalPodAutoscaler"
    has_status = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        if (behavior := spec.get("behavior")) is not None:
            behavior["scaleUp"] = _scale_up_rules() | behavior.get("scaleUp", {})
            behavior["scaleDown"] = _scale_down_rules() | behavior.get("scaleDown", {})

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"desiredReplicas": 0, "currentMetrics": None}

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        return _spec(obj["spec"], lower_bound=1)

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        yield from _spec(obj["spec"], lower_bound=0 if old["spec"].get("minReplicas") == 0 else 1)


def _scale_up_rules() -> Object:
    policies = [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]
    return {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": policies}


def _scale_down_rules() -> Object:
    """The window is not filled in: the controller has a flag for its default."""
    return {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def _spec(spec: Object, lower_bound: int) -> Iterator[FieldError]:
    low, high = spec["minReplicas"], spec.get("maxReplicas", 0)
    if low < lower_bound:
        yield field.invalid("spec.minReplicas", low, f"must be greater than or equal to {lower_bound}")
    if high < 1:
        yield field.required("spec.maxReplicas", "must be set and greater than 0")
    if high < low:
        yield field.invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    yield from _reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
    for index, metric in enumerate(spec["metrics"]):
        yield from _metric(metric, f"spec.metrics[{index}]")
    if low == 0 and not {metric.get("type") for metric in spec["metrics"]} & {"Object", "External"}:
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield field.forbidden("spec.metrics", text)
    for key, rules in (spec.get("behavior") or {}).items():
        yield from _scaling_rules(rules, f"spec.behavior.{key}")


def _reference(ref: Object, path: str, needs_group: bool = True) -> Iterator[FieldError]:
    """ValidateCrossVersionObjectReference."""
    for key in ("kind", "name"):
        if value := ref.get(key):
            for text in names.path_segment(value):
                yield field.invalid(f"{path}.{key}", value, text)
        else:
            yield field.required(f"{path}.{key}")
    version = ref.get("apiVersion", "")
    if version.count("/") > 1:
        yield field.invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif needs_group and "/" not in version and (version, ref.get("kind")) != ("v1", "ReplicationController"):
        # The one kind without a group that has a scale is the ReplicationController.
        yield field.invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _metric(metric: Object, path: str) -> Iterator[FieldError]:
    kind = metric.get("type", "")
    if not kind:
        yield field.required(f"{path}.type", "must specify a metric source type")
    if kind not in SOURCE_TYPES:
        yield field.not_supported(f"{path}.type", kind, SOURCE_TYPES)
    given = [source for source in _SOURCES if source in metric]
    if given:
        yield from _SOURCES[given[0]](metric[given[0]], f"{path}.{given[0]}")
    expected = kind[:1].lower() + kind[1:]
    if kind not in SOURCE_TYPES:
        # Said again, as Kubernetes does: once up front, once where the source is picked by type.
        yield field.not_supported(f"{path}.type", kind, SOURCE_TYPES)
    elif expected not in metric:
        yield field.required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(given) != 1:
        for source in given:
            if source != expected:
                yield field.forbidden(f"{path}.{source}", "must populate the given metric source only")


def _object(source: Object, path: str) -> Iterator[FieldError]:
    yield from _reference(source.get("describedObject") or {}, f"{path}.describedObject", needs_group=False)
    yield from _identifier(source, path)
    target = source.get("target") or {}
    yield from _target(target, f"{path}.target")
    if "value" not in target and "averageValue" not in target:
        yield field.required(f"{path}.target.averageValue", "must set either a target value or averageValue")


def _external(source: Object, path: str) -> Iterator[FieldError]:
    yield from _identifier(source, path)
    target = source.get("target") or {}
    yield from _target(target, f"{path}.target")
    if "value" not in target and "averageValue" not in target:
        text = "must set either a target value for metric or a per-pod target"
        yield field.required(f"{path}.target.averageValue", text)
    if "value" in target and "averageValue" in target:
        text = "may not set both a target value for metric and a per-pod target"
        yield field.forbidden(f"{path}.target.value", text)


def _pods(source: Object, path: str) -> Iterator[FieldError]:
    yield from _identifier(source, path)
    target = source.get("target") or {}
    yield from _target(target, f"{path}.target")
    if "averageValue" not in target:
        yield field.required(f"{path}.target.averageValue", "must specify a positive target averageValue")


def _resource(source: Object, path: str) -> Iterator[FieldError]:
    if not source.get("name"):
        yield field.required(f"{path}.name", "must specify a resource name")
    yield from _resource_target(source.get("target") or {}, f"{path}.target")


def _container_resource(source: Object, path: str) -> Iterator[FieldError]:
    if name := source.get("name"):
        yield from container_resource_name(name, f"{path}.name")
    else:
        yield field.required(f"{path}.name", "must specify a resource name")
    if container := source.get("container"):
        for text in names.dns_label(container):
            yield field.invalid(f"{path}.container", container, text)
    else:
        yield field.required(f"{path}.container", "must specify a container")
    yield from _resource_target(source.get("target") or {}, f"{path}.target")


#: In the order in which they are looked at.
_SOURCES: dict[str, Callable[[Object, str], Iterator[FieldError]]] = {
    "object": _object,
    "external": _external,
    "pods": _pods,
    "resource": _resource,
    "containerResource": _container_resource,
}


def _resource_target(target: Object, path: str) -> Iterator[FieldError]:
    yield from _target(target, path)
    if "averageUtilization" not in target and "averageValue" not in target:
        yield field.required(f"{path}.averageUtilization", _NO_TARGET)
    if "averageUtilization" in target and "averageValue" in target:
        yield field.forbidden(f"{path}.averageValue", _TWO_TARGETS)


def _target(target: Object, path: str) -> Iterator[FieldError]:
    kind = target.get("type", "")
    if not kind:
        yield field.required(f"{path}.type", "must specify a metric target type")
    if kind not in ("Utilization", "Value", "AverageValue"):
        yield field.invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for key in ("value", "averageValue"):
        if key in target and Quantity.parse(target[key]) <= ZERO:
            yield field.invalid(f"{path}.{key}", target[key], "must be positive")
    if target.get("averageUtilization", 1) < 1:
        yield field.invalid(f"{path}.averageUtilization", target["averageUtilization"], "must be greater than 0")


def _identifier(source: Object, path: str) -> Iterator[FieldError]:
    name = (source.get("metric") or {}).get("name")
    if not name:
        yield field.required(f"{path}.metric.name", "must specify a metric name")
    else:
        for text in names.path_segment(name):
            yield field.invalid(f"{path}.metric.name", name, text)


def _scaling_rules(rules: Object, path: str) -> Iterator[FieldError]:
    window, select = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    if window is not None and window < 0:
        yield field.invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if window is not None and window > MAX_STABILIZATION_SECONDS:
        text = f"must be less than or equal to {MAX_STABILIZATION_SECONDS}"
        yield field.invalid(f"{path}.stabilizationWindowSeconds", window, text)
    if select is not None and select not in ("Disabled", "Max", "Min"):
        yield field.not_supported(f"{path}.selectPolicy", select, ("Disabled", "Max", "Min"))
    policies = rules.get("policies") or []
    if not policies:
        yield field.required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        here, period = f"{path}.policies[{index}]", policy.get("periodSeconds", 0)
        if policy.get("type") not in ("Percent", "Pods"):
            yield field.not_supported(f"{here}.type", policy.get("type", ""), ("Percent", "Pods"))
        if policy.get("value", 0) <= 0:
            yield field.invalid(f"{here}.value", policy.get("value", 0), "must be greater than zero")
        if period <= 0:
            yield field.invalid(f"{here}.periodSeconds", period, "must be greater than zero")
        if period > MAX_PERIOD_SECONDS:
            yield field.invalid(f"{here}.periodSeconds", period, f"must be less than or equal to {MAX_PERIOD_SECONDS}")
