# SPDX-License-Identifier: BSD-2-Clause
"""resource.k8s.io/v1 ResourceSlice.

Sources: pkg/apis/resource/{v1/defaults.go,validation/validation.go}, pkg/registry/resource/resourceslice/strategy.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubesim import field
from kubesim.clock import rfc3339
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.devices import EFFECTS, driver_name, every, label, pool_name, qualified_name
from kubesim.kinds.metadata import immutable, label_name, object_meta_update
from kubesim.kinds.scheduling_validation import validate_node_selector
from kubesim.kinds.strategy import Context, Object, Strategy

MAX_DEVICES = 128
MAX_DEVICES_WITH_MORE = 64
MAX_COUNTER_SETS = 8
MAX_COUNTERS = 32
MAX_CONSUMED_SETS = 2
MAX_TAINTS = 16
MAX_ATTRIBUTES = 32
MAX_VALUE = 64
_WHERE = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_VALUES = (("int", "IntValue"), ("bool", "BoolValue"), ("string", "StringValue"), ("version", "VersionValue"))
_LISTS = ("IntValues", "BoolValues", "StringValues", "VersionValues")
_ONE_OF = f"exactly one of {', '.join(f'`{name}`' for name in _WHERE)} is required"
_NUMBER, _IDENTIFIER = r"(0|[1-9]\d*)", r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_IDENTIFIER}(\.{_IDENTIFIER})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
)


class ResourceSliceStrategy(Strategy):
    kind = "ResourceSlice"
    namespaced = False
    generation_of = "spec"

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def prepare_create(self, obj: Object, ctx: Context) -> None:
        super().prepare_create(obj, ctx)
        _stamp_taints(obj["spec"], ctx)

    def prepare_update(self, obj: Object, old: Object, ctx: Context) -> None:
        _stamp_taints(obj["spec"], ctx)
        super().prepare_update(obj, old, ctx)

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        yield from driver_name(spec.get("driver", ""), "spec.driver")
        yield from _pool(spec.get("pool") or {}, "spec.pool")
        yield from _nodes(spec)
        yield from _devices(spec)

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        new, before = obj["spec"], old["spec"]
        yield from driver_name(new.get("driver", ""), "spec.driver")
        yield from _pool(new.get("pool") or {}, "spec.pool")
        yield from immutable(new["pool"], before["pool"], "name", "spec.pool")
        yield from immutable(new, before, "driver", "spec")
        yield from immutable(new, before, "nodeName", "spec")
        yield from _nodes(new)
        yield from _devices(new)


def _stamp_taints(spec: Object, ctx: Context) -> None:
    """SetDefaults_DeviceTaint."""
    for device in spec.get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", rfc3339(ctx.clock.now()))


def _pool(pool: Object, path: str) -> Iterator[FieldError]:
    yield from pool_name(pool.get("name", ""), f"{path}.name")
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        yield field.invalid(f"{path}.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        yield field.invalid(f"{path}.generation", generation, "must be greater than or equal to zero")


def _nodes(spec: Object) -> Iterator[FieldError]:
    given = []
    if "nodeName" in spec:
        if spec["nodeName"]:
            given.append("nodeName")
            for text in names.dns_subdomain(spec["nodeName"]):
                yield field.invalid("spec.nodeName", spec["nodeName"], text)
        else:
            yield field.invalid("spec.nodeName", "", "must be either unset or set to a non-empty string")
    if "nodeSelector" in spec:
        given.append("nodeSelector")
        terms = spec["nodeSelector"].get("nodeSelectorTerms") or []
        yield from validate_node_selector(terms, "spec.nodeSelector.nodeSelectorTerms")
        if len(terms) != 1:
            text = "must have exactly one node selector term"
            yield field.invalid("spec.nodeSelector.nodeSelectorTerms", terms, text)
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name):
            given.append(name)
        elif name in spec:
            yield field.invalid(f"spec.{name}", False, "must be either unset or set to true")
    if not given:
        yield field.required("spec", _ONE_OF)
    elif len(given) > 1:
        shown = f"{{{', '.join(f'`{name}`' for name in given)}}}"
        yield field.invalid("spec", shown, f"{_ONE_OF}, but multiple fields are set")


def _devices(spec: Object) -> Iterator[FieldError]:
    devices, own_nodes = spec.get("devices") or [], bool(spec.get("perDeviceNodeSelection"))
    if spec.get("sharedCounters") and spec.get("devices"):
        yield field.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    more = any(device.get("taints") or device.get("consumesCounters") for device in devices)

    def check(device: Object, path: str) -> Iterator[FieldError]:
        yield from _device(device, path, own_nodes)

    yield from every(devices, MAX_DEVICES_WITH_MORE if more else MAX_DEVICES, check, "spec.devices", _name_of)
    yield from every(spec.get("sharedCounters"), MAX_COUNTER_SETS, _counter_set, "spec.sharedCounters", _name_of)


def _name_of(item: Object) -> str:
    return str(item.get("name", ""))


def _device(device: Object, path: str, own_nodes: bool) -> Iterator[FieldError]:
    yield from label(device.get("name", ""), f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    total = len(attributes) + len(capacity)
    if total > MAX_ATTRIBUTES:
        text = f"the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}"
        yield field.invalid(path, total, text)
    for name, value in attributes.items():
        yield from qualified_name(name, f"{path}.attributes")
        yield from _attribute(value, f"{path}.attributes[{name}]")
    for name, value in capacity.items():
        yield from qualified_name(name, f"{path}.capacity")
        if "requestPolicy" in value and not device.get("allowMultipleAllocations"):
            here = f"{path}.capacity[{name}].requestPolicy"
            yield field.forbidden(here, "allowMultipleAllocations must be true")
    yield from every(device.get("taints"), MAX_TAINTS, _taint, f"{path}.taints")
    consumed = device.get("consumesCounters")
    yield from every(
        consumed, MAX_CONSUMED_SETS, _consumption, f"{path}.consumesCounters", lambda one: one.get("counterSet", "")
    )
    yield from _nodes_of_device(device, path, own_nodes)


def _attribute(value: Object, path: str) -> Iterator[FieldError]:
    if len(value.get("string", "").encode()) > MAX_VALUE:
        yield field.too_long(f"{path}.string", MAX_VALUE)
    if "version" in value and not _SEMVER.fullmatch(value["version"]):
        text = "must be a string compatible with semver.org spec 2.0.0"
        yield field.invalid(f"{path}.version", value["version"], text)
    given = [name for name, _ in _VALUES if name in value]
    if not given:
        yield field.invalid(path, "", "exactly one value must be specified")
    elif len(given) > 1:
        shown = field.Struct({go: value.get(name) for name, go in _VALUES} | dict.fromkeys(_LISTS))
        yield field.invalid(path, shown, "exactly one value must be specified")


def _taint(taint: Object, path: str) -> Iterator[FieldError]:
    yield from label_name(taint.get("key", ""), f"{path}.key")
    for text in names.label_value(taint.get("value", "")):
        yield field.invalid(f"{path}.value", taint["value"], text)
    effect = taint.get("effect", "")
    if not effect:
        yield field.required(f"{path}.effect")
    elif effect not in EFFECTS:
        yield field.not_supported(f"{path}.effect", effect, EFFECTS)


def _counter_set(one: Object, path: str) -> Iterator[FieldError]:
    yield from _counters(one, path, "name")


def _consumption(one: Object, path: str) -> Iterator[FieldError]:
    yield from _counters(one, path, "counterSet")


def _counters(one: Object, path: str, key: str) -> Iterator[FieldError]:
    if not one.get(key):
        yield field.required(f"{path}.{key}")
    else:
        yield from label(one[key], f"{path}.{key}")
    counters = one.get("counters") or {}
    if not counters:
        yield field.required(f"{path}.counters")
    elif len(counters) > MAX_COUNTERS:
        yield field.too_many(f"{path}.counters", len(counters), MAX_COUNTERS)
    for name in counters:
        yield from label(name, f"{path}.counters")


def _nodes_of_device(device: Object, path: str, own_nodes: bool) -> Iterator[FieldError]:
    given = [name for name in _WHERE[:3] if device.get(name)]
    if not own_nodes:
        if given:
            text = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` "
                "is set to true in the ResourceSlice spec"
            )
            yield field.invalid(path, None, text)
        return
    text = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` "
        "is set to true in the ResourceSlice spec"
    )
    if not given:
        yield field.required(path, text)
    elif len(given) > 1:
        yield field.invalid(path, f"{{{', '.join(f'`{name}`' for name in given)}}}", text)
