# SPDX-License-Identifier: BSD-2-Clause
"""v1 PersistentVolumeClaim.

Sources: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go; the finalizer is that of the admission
plugin StorageObjectInUseProtection (plugin/pkg/admission/storage/storageobjectinuseprotection).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import immutable, label_selector, object_meta, object_meta_update
from kubesim.kinds.podspec import default_claim_spec
from kubesim.kinds.resources import resource_amount
from kubesim.kinds.strategy import Context, Object, Strategy
from kubesim.quantity import ZERO, Quantity

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
IMMUTABLE_SPEC = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
PROTECTION = "kubernetes.io/pvc-protection"


def default_claim(claim: Object) -> None:
    """A claim, or a claim template of a StatefulSet."""
    claim.setdefault("metadata", {})
    default_claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"


class PersistentVolumeClaimStrategy(Strategy):
    kind = "PersistentVolumeClaim"
    has_status = True

    def default(self, obj: Object) -> None:
        default_claim(obj)

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}

    def prepare_create(self, obj: Object, ctx: Context) -> None:
        super().prepare_create(obj, ctx)
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if PROTECTION not in finalizers:
            finalizers.append(PROTECTION)

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        yield from validate_claim_spec(obj["spec"], "spec")

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        # The strategy runs ValidatePersistentVolumeClaim, and so does ValidatePersistentVolumeClaimUpdate.
        yield from self.validate(obj)
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        yield from object_meta(obj["metadata"], "metadata", self.name_rule, self.namespaced)
        yield from self.validate_spec(obj)
        yield from _spec_update(obj, old)


def validate_claim_spec(spec: Object, path: str) -> Iterator[FieldError]:
    """ValidatePersistentVolumeClaimSpec."""
    modes = spec.get("accessModes") or []
    if not modes:
        yield field.required(f"{path}.accessModes", "at least 1 access mode is required")
    if selector := spec.get("selector"):
        yield from label_selector(selector, f"{path}.selector")
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield field.not_supported(f"{path}.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and {*modes} & {*ACCESS_MODES} != {"ReadWriteOncePod"}:
        yield field.forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")
    yield from _storage(spec, f"{path}.resources[storage]")
    if name := spec.get("storageClassName"):
        for text in names.dns_subdomain(name):
            yield field.invalid(f"{path}.storageClassName", name, text)
    if spec.get("volumeMode") not in ("Block", "Filesystem"):
        yield field.not_supported(f"{path}.volumeMode", spec.get("volumeMode", ""), ("Block", "Filesystem"))


def _storage(spec: Object, path: str) -> Iterator[FieldError]:
    asked = (spec["resources"].get("requests") or {}).get("storage")
    if asked is None:
        yield field.required(path)
        return
    amount = Quantity.parse(asked)
    if amount <= ZERO:
        yield field.invalid(path, str(amount), "must be greater than zero")
    else:
        yield from resource_amount("storage", amount, path)


def _spec_update(claim: Object, old: Object) -> Iterator[FieldError]:
    spec, before = copy.deepcopy(claim["spec"]), copy.deepcopy(old["spec"])
    sizes = [Quantity.parse((one["resources"].get("requests") or {}).get("storage", "0")) for one in (spec, before)]
    if not before.get("volumeName"):
        before.pop("volumeName", None)
        spec.pop("volumeName", None)
    if "storageClassName" not in before and "storageClassName" in spec:
        before["storageClassName"] = spec["storageClassName"]
    if (claim.get("status") or {}).get("phase") == "Bound":
        for one in (spec, before):
            one["resources"].get("requests", {}).pop("storage", None)
            one.pop("volumeAttributesClassName", None)
    if spec != before:
        # Kubernetes adds a diff in Go syntax; the keys that differ say as much.
        changed = sorted(key for key in {*spec, *before} if spec.get(key) != before.get(key))
        yield field.forbidden("spec", f"{IMMUTABLE_SPEC}\n  changed: {', '.join(changed)}\n")
    capacity = Quantity.parse(((old.get("status") or {}).get("capacity") or {}).get("storage", "0"))
    if sizes[0] < sizes[1] and sizes[0] <= capacity:
        yield field.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    yield from immutable(claim["spec"], old["spec"], "volumeMode", "")
