# SPDX-License-Identifier: BSD-2-Clause
"""resource.k8s.io/v1 DeviceClass, ResourceClaim and ResourceClaimTemplate.

Sources: pkg/apis/resource/{v1/defaults.go,validation/validation.go}, pkg/registry/resource/*/strategy.go.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kubesim import device_cel, field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import IMMUTABLE, object_meta, object_meta_update, validate_annotations, validate_labels
from kubesim.kinds.resources import is_extended
from kubesim.kinds.strategy import Context, Object, Strategy

MAX_REQUESTS = MAX_SELECTORS = MAX_CONSTRAINTS = MAX_CONFIGS = 32
MAX_ALTERNATIVES = 8
MAX_USERS = 256
MAX_RESULTS = 32
MAX_IDENTIFIER = 32
EFFECTS = ("NoExecute", "NoSchedule", "None")
NOT_A_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_ONE_WAY = "exactly one of `exactly` or `firstAvailable` is required"

Check = Callable[[Any, str], Iterator[FieldError]]


# -- strategies --------------------------------------------------------------------------------------------------------


class DeviceClassStrategy(Strategy):
    kind = "DeviceClass"
    namespaced = False
    generation_of = "spec"

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        yield from every(spec.get("selectors"), MAX_SELECTORS, _selector, "spec.selectors")
        yield from every(spec.get("config"), MAX_CONFIGS, _configuration, "spec.config")
        name = spec.get("extendedResourceName")
        if name is not None and not is_extended(name):
            yield field.invalid("spec.extendedResourceName", name, "must be a valid extended resource name")


class ResourceClaimStrategy(Strategy):
    kind = "ResourceClaim"
    has_status = True

    def default(self, obj: Object) -> None:
        default_claim_spec(obj.setdefault("spec", {}))
        obj.setdefault("status", {})

    def prepare_status_update(self, obj: Object, old: Object, ctx: Context) -> None:
        """Nothing of metadata is changed by a status (ResetObjectMetaForStatus)."""
        super().prepare_status_update(obj, old, ctx)
        for key in ("labels", "annotations", "finalizers", "ownerReferences"):
            obj["metadata"].pop(key, None)
            if key in old["metadata"]:
                obj["metadata"][key] = old["metadata"][key]
        _drop_deallocated(obj["status"], old["status"])

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        yield from validate_claim_spec(obj["spec"], "spec")

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from object_meta(obj["metadata"], "metadata", self.name_rule, self.namespaced)
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        if obj["spec"] != old["spec"]:
            yield field.invalid("spec", go_claim_spec(obj["spec"]), IMMUTABLE)

    def validate_status(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        yield from _claim_status(obj, old)


class ResourceClaimTemplateStrategy(Strategy):
    kind = "ResourceClaimTemplate"

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("metadata", {})
        default_claim_spec(spec.setdefault("spec", {}))

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        meta = obj["spec"].get("metadata") or {}
        yield from validate_annotations(meta.get("annotations"), "spec.metadata.annotations")
        yield from validate_labels(meta.get("labels"), "spec.metadata.labels")
        for key in sorted(meta.keys() - {"annotations", "labels", "creationTimestamp"}):
            yield field.forbidden(f"spec.metadata.{key}", "cannot be set")
        yield from validate_claim_spec(obj["spec"]["spec"], "spec.spec")

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        if obj["spec"] != old["spec"]:
            meta = obj["spec"].get("metadata") or {}
            kept = {key: meta[key] for key in ("name", "generateName", "labels", "annotations") if key in meta}
            shown = field.Struct({**kept, "Spec": go_claim_spec(obj["spec"]["spec"])})
            yield field.invalid("spec", shown, IMMUTABLE)


def default_claim_spec(spec: Object) -> None:
    """SetDefaults_ExactDeviceRequest, SetDefaults_DeviceSubRequest."""
    for request in spec.setdefault("devices", {}).get("requests") or ():
        for wanted in alternatives(request):
            wanted["allocationMode"] = wanted.get("allocationMode") or "ExactCount"
            if wanted["allocationMode"] == "ExactCount":
                wanted["count"] = wanted.get("count") or 1


def alternatives(request: Object) -> list[Object]:
    """What a request asks for: one thing, or several of which the first that is available is taken."""
    return [*([request["exactly"]] if "exactly" in request else []), *(request.get("firstAvailable") or ())]


# -- claims ------------------------------------------------------------------------------------------------------------


def validate_claim_spec(spec: Object, path: str) -> Iterator[FieldError]:
    devices, here = spec["devices"], f"{path}.devices"
    known = _request_names(devices)

    def constraint(one: Object, at: str) -> Iterator[FieldError]:
        yield from _constraint(one, at, known)

    def configuration(one: Object, at: str) -> Iterator[FieldError]:
        yield from _references(one.get("requests"), f"{at}.requests", known)
        yield from _configuration(one, at)

    yield from every(devices.get("requests"), MAX_REQUESTS, _request, f"{here}.requests", _name_of)
    yield from every(devices.get("constraints"), MAX_CONSTRAINTS, constraint, f"{here}.constraints")
    yield from every(devices.get("config"), MAX_CONFIGS, configuration, f"{here}.config")


def _request_names(devices: Object) -> set[str]:
    found: set[str] = set()
    for request in devices.get("requests") or ():
        name = request.get("name", "")
        found |= {name, *(f"{name}/{one.get('name', '')}" for one in request.get("firstAvailable") or ())}
    return found


def _request(request: Object, path: str) -> Iterator[FieldError]:
    yield from label(request.get("name", ""), f"{path}.name")
    exactly, first = request.get("exactly"), request.get("firstAvailable")
    if exactly is None and not first:
        yield field.required(path, _ONE_WAY)
    elif exactly is not None and first:
        yield field.invalid(path, None, f"{_ONE_WAY}, but multiple fields are set")
    elif first:
        yield from every(first, MAX_ALTERNATIVES, _alternative, f"{path}.firstAvailable", _name_of)
    elif exactly is not None:
        yield from _wanted(exactly, f"{path}.exactly")


def _alternative(wanted: Object, path: str) -> Iterator[FieldError]:
    yield from label(wanted.get("name", ""), f"{path}.name")
    yield from _wanted(wanted, path)


def _wanted(wanted: Object, path: str) -> Iterator[FieldError]:
    yield from _required_name(wanted.get("deviceClassName", ""), f"{path}.deviceClassName")
    yield from every(wanted.get("selectors"), MAX_SELECTORS, _selector, f"{path}.selectors")
    mode, count = wanted.get("allocationMode", ""), wanted.get("count", 0)
    if mode == "All":
        if count:
            yield field.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode != "ExactCount":
        yield field.not_supported(f"{path}.allocationMode", mode, ("All", "ExactCount"))
    elif count <= 0:
        yield field.invalid(f"{path}.count", count, "must be greater than zero")
    for index, toleration in enumerate(wanted.get("tolerations") or ()):
        yield from _toleration(toleration, f"{path}.tolerations[{index}]")


def _selector(selector: Object, path: str) -> Iterator[FieldError]:
    cel = selector.get("cel")
    if cel is None:
        yield field.required(f"{path}.cel")
        return
    here, expression = f"{path}.cel.expression", cel.get("expression", "")
    if len(expression.encode()) > device_cel.MAX_LENGTH:
        yield field.too_long(here, device_cel.MAX_LENGTH)
    elif problem := device_cel.compile_problem(expression):
        yield field.invalid(here, expression, problem)


def _toleration(toleration: Object, path: str) -> Iterator[FieldError]:
    key, value, effect = (toleration.get(name, "") for name in ("key", "value", "effect"))
    operator = toleration.get("operator", "")
    if key:
        for text in names.label_key(key):
            yield field.invalid(f"{path}.key", key, text)
    if operator == "Exists":
        if value:
            yield field.invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator in ("", "Equal"):
        for text in names.label_value(value):
            yield field.invalid(f"{path}.value", value, text)
    else:
        yield field.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in EFFECTS:
        yield field.not_supported(f"{path}.effect", effect, EFFECTS)


def _constraint(constraint: Object, path: str, known: set[str]) -> Iterator[FieldError]:
    yield from _references(constraint.get("requests"), f"{path}.requests", known)
    for key in ("matchAttribute", "distinctAttribute"):
        if key in constraint:
            yield from _qualified(constraint[key], f"{path}.{key}", domain_needed=True)
            return
    text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    yield field.required(path, text)


def _references(requests: list[str] | None, path: str, known: set[str]) -> Iterator[FieldError]:
    def reference(name: str, at: str) -> Iterator[FieldError]:
        yield from _reference(name, at, known)

    yield from every(requests, MAX_REQUESTS, reference, path, lambda name: name)


def _reference(name: str, path: str, known: set[str]) -> Iterator[FieldError]:
    parts = name.split("/")
    if len(parts) <= 2:
        for part in parts:
            yield from label(part, path)
    if name not in known:
        yield field.invalid(path, name, NOT_A_REQUEST)


def _configuration(config: Object, path: str) -> Iterator[FieldError]:
    opaque = config.get("opaque")
    if opaque is None:
        yield field.required(f"{path}.opaque")
        return
    yield from driver_name(opaque.get("driver", ""), f"{path}.opaque.driver")


# -- the status of a claim ---------------------------------------------------------------------------------------------


def device_ids(allocation: Object | None) -> set[tuple[str, ...]]:
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    return {_device_id(result) for result in results}


def _device_id(one: Object) -> tuple[str, ...]:
    return one.get("driver", ""), one.get("pool", ""), one.get("device", ""), one.get("shareID", "")


def _drop_deallocated(status: Object, old: Object) -> None:
    """What drivers said of devices goes with their allocation."""
    gone = device_ids(old.get("allocation")) - device_ids(status.get("allocation"))
    if "devices" in status:
        status["devices"] = [device for device in status["devices"] if _device_id(device) not in gone]


def _claim_status(obj: Object, old: Object) -> Iterator[FieldError]:
    status, before = obj["status"], old["status"]
    users, allocation = status.get("reservedFor"), status.get("allocation")
    yield from every(users, MAX_USERS, _user, "status.reservedFor", lambda user: user.get("uid", ""))
    allocated = device_ids(allocation)
    for index, device in enumerate(status.get("devices") or ()):
        if _device_id(device) not in allocated:
            shown = field.Struct(zip(("Driver", "Pool", "Device", "ShareID"), _device_id(device), strict=True))
            text = "must be an allocated device in the claim"
            yield field.invalid(f"status.devices[{index}]", shown, text)
    if users and allocation is None:
        yield field.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif users and obj["metadata"].get("deletionTimestamp"):
        known = [user.get("uid") for user in before.get("reservedFor") or ()]
        if any(user.get("uid") not in known for user in users):
            text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            yield field.forbidden("status.reservedFor", text)
    if allocation is not None and before.get("allocation") is None:
        yield from _allocation(allocation, "status.allocation", _request_names(obj["spec"]["devices"]))
    elif allocation is not None and allocation != before["allocation"]:
        yield field.invalid("status.allocation", _go_allocation(allocation), IMMUTABLE)


def _user(user: Object, path: str) -> Iterator[FieldError]:
    for key in ("resource", "name", "uid"):
        if not user.get(key):
            yield field.required(f"{path}.{key}")


def _allocation(allocation: Object, path: str, known: set[str]) -> Iterator[FieldError]:
    def result(one: Object, at: str) -> Iterator[FieldError]:
        yield from _reference(one.get("request", ""), f"{at}.request", known)
        yield from driver_name(one.get("driver", ""), f"{at}.driver")
        yield from pool_name(one.get("pool", ""), f"{at}.pool")
        yield from label(one.get("device", ""), f"{at}.device")
        if "shareID" in one and not _is_uid(one["shareID"]):
            yield field.invalid(f"{at}.shareID", one["shareID"], "error validating uid: invalid UUID")

    yield from every(allocation["devices"].get("results"), MAX_RESULTS, result, f"{path}.devices.results")


def _is_uid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


# -- what several kinds share ------------------------------------------------------------------------------------------


def every(
    items: Iterable[Any] | None, most: int, check: Check, path: str, key: Callable[[Any], str] | None = None
) -> Iterator[FieldError]:
    """validateSlice, and with a key validateSet: not too many, each as it should be, none twice."""
    items = list(items or ())
    if len(items) > most:
        yield field.too_many(path, len(items), most)
        return
    for index, item in enumerate(items):
        yield from check(item, f"{path}[{index}]")
    seen: set[str] = set()
    for index, item in enumerate(items if key else ()):
        name = key(item) if key else ""
        if name in seen:
            yield field.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _name_of(item: Object) -> str:
    return str(item.get("name", ""))


def label(value: str, path: str) -> Iterator[FieldError]:
    for text in names.dns_label(value):
        yield field.invalid(path, value, text)


def _required_name(value: str, path: str) -> Iterator[FieldError]:
    if not value:
        yield field.required(path)
        return
    for text in names.dns_subdomain(value):
        yield field.invalid(path, value, text)


def driver_name(value: str, path: str) -> Iterator[FieldError]:
    """ValidateCSIDriverName."""
    if not value:
        yield field.required(path)
        return
    if len(value) > 63:
        yield field.too_long(path, 63)
    for text in names.dns_subdomain(value.lower()):
        yield field.invalid(path, value, text)


def pool_name(value: str, path: str) -> Iterator[FieldError]:
    if not value:
        yield field.required(path)
        return
    if len(value) > 253:
        yield field.too_long(path, 253)
    for part in value.split("/"):
        for text in names.dns_subdomain(part):
            yield field.invalid(path, part, text)


def qualified_name(value: str, path: str) -> Iterator[FieldError]:
    yield from _qualified(value, path, domain_needed=False)


def _qualified(value: str, path: str, *, domain_needed: bool) -> Iterator[FieldError]:
    """validateQualifiedName: a C identifier, after a domain and a slash or by itself."""
    domain, slash, name = value.rpartition("/")
    if slash and not domain:
        yield field.invalid(path, "", "the domain must not be empty")
    elif slash:
        yield from driver_name(domain, path)
    if slash and not name:
        yield field.invalid(path, "", "the name must not be empty")
    else:
        if len(name) > MAX_IDENTIFIER:
            yield field.too_long(path, MAX_IDENTIFIER)
        for text in names.c_identifier(name):
            yield field.invalid(path, name, text)
    if domain_needed and not slash:
        yield field.invalid(path, value, "a fully qualified name must be a domain and a name separated by a slash")


# -- Go values, as errors about immutable fields print them ------------------------------------------------------------

_GO: dict[str, tuple[tuple[str, str], ...]] = {
    "claim": (("devices", "DeviceClaim"),),
    "DeviceClaim": (("requests", "Request"), ("constraints", "Constraint"), ("config", "Config")),
    "Request": (("name", ""), ("exactly", "Exactly"), ("firstAvailable", "Alternative")),
    "Exactly": (
        ("deviceClassName", ""), ("selectors", "Selector"), ("allocationMode", ""), ("count", "0"),
        ("adminAccess", "?"), ("tolerations", "Toleration"), ("capacity", "Capacity"),
    ),
    "Alternative": (
        ("name", ""), ("deviceClassName", ""), ("selectors", "Selector"), ("allocationMode", ""), ("count", "0"),
        ("tolerations", "Toleration"), ("capacity", "Capacity"),
    ),
    "Selector": (("cel", "CEL"),),
    "CEL": (("expression", ""),),
    "Toleration": (("key", ""), ("operator", ""), ("value", ""), ("effect", ""), ("tolerationSeconds", "?")),
    "Capacity": (("requests", "?"),),
    "Constraint": (("requests", "?"), ("matchAttribute", "?"), ("distinctAttribute", "?")),
    "Config": (("requests", "?"), ("opaque", "Opaque")),
    "Opaque": (("driver", ""), ("parameters", "?")),
    "allocation": (("devices", "Results"), ("nodeSelector", "NodeSelector"), ("allocationTimestamp", "?")),
    "Results": (("results", "Result"), ("config", "Config")),
    "Result": (
        ("request", ""), ("driver", ""), ("pool", ""), ("device", ""), ("adminAccess", "?"),
        ("tolerations", "Toleration"), ("bindingConditions", "?"), ("bindingFailureConditions", "?"),
        ("shareID", "?"), ("consumedCapacity", "?"),
    ),
    "NodeSelector": (("nodeSelectorTerms", "Term"),),
    "Term": (("matchExpressions", "Requirement"), ("matchFields", "Requirement")),
    "Requirement": (("key", ""), ("operator", ""), ("values", "?")),
}  # fmt: skip


def go_claim_spec(spec: Object) -> field.Struct:
    return _go(spec, "claim")


def _go_allocation(allocation: Object) -> field.Struct:
    return _go(allocation, "allocation")


def _go(value: Object, kind: str) -> field.Struct:
    """A struct without JSON names: all its fields in order, null where nothing is set."""
    shown = field.Struct()
    for name, inner in _GO[kind]:
        item = value.get(name)
        if inner in _GO and isinstance(item, list):
            item = [_go(one, inner) for one in item] or None
        elif inner in _GO and item is not None:
            item = _go(item, inner)
        elif item is None:
            item = {"": "", "0": 0}.get(inner)
        shown["CEL" if name == "cel" else name[0].upper() + name[1:]] = item
    return shown
