# SPDX-License-Identifier: BSD-2-Clause
"""v1 Pod.

Sources: pkg/registry/core/pod/strategy.go, ValidatePodCreate/Update of pkg/apis/core/validation/validation.go,
pkg/apis/core/helper/qos/qos.go.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from kubesim import field
from kubesim.clock import rfc3339
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import object_meta, object_meta_update
from kubesim.kinds.pod_validation import MAX_INT32, pod_annotations, validate_pod_spec
from kubesim.kinds.pod_warnings import pod_warnings
from kubesim.kinds.podspec import default_pod_only, default_pod_spec
from kubesim.kinds.scheduling_validation import validate_tolerations
from kubesim.kinds.strategy import Context, Object, Strategy
from kubesim.quantity import Quantity

UPDATABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class PodStrategy(Strategy):
    kind = "Pod"
    generation_of = "spec"
    has_status = True
    graceful_deletion = True

    def default(self, obj: Object) -> None:
        default_pod_spec(obj.setdefault("spec", {}))
        default_pod_only(obj["spec"])

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}

    def prepare_create(self, obj: Object, ctx: Context) -> None:
        super().prepare_create(obj, ctx)
        if obj["spec"].get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": rfc3339(ctx.clock.now()),
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]

    def prepare_status_update(self, obj: Object, old: Object, ctx: Context) -> None:
        super().prepare_status_update(obj, old, ctx)
        if references := old["metadata"].get("ownerReferences"):
            obj["metadata"]["ownerReferences"] = references

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        yield from _metadata_and_spec(obj)
        if obj["spec"].get("ephemeralContainers"):
            yield field.forbidden("spec.ephemeralContainers", "cannot be set on create")
        if obj["spec"].get("nodeName") and obj["spec"].get("schedulingGates"):
            yield field.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        yield from object_meta(obj["metadata"], "metadata", self.name_rule, self.namespaced)
        yield from _metadata_and_spec(obj)
        yield from _spec_update(obj["spec"], old["spec"])

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        if old is not None:
            return []
        texts = []
        if wrong := names.dns_label(obj["metadata"].get("name", "")):
            text = "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            texts.append(f"{text}a DNS label is recommended: [{' '.join(wrong)}]")
        return texts + pod_warnings(obj)


def qos_class(spec: Object) -> str:
    """ComputePodQOS: only cpu and memory count."""
    every = [
        container.get("resources") or {}
        for key in ("containers", "initContainers")
        for container in spec.get(key) or ()
    ]
    if spec.get("resources"):
        every = [spec["resources"]]
    requests, limits = _positive(every, "requests"), _positive(every, "limits")
    if not any(requests) and not any(limits):
        return "BestEffort"
    guaranteed = all(set(limit) == {"cpu", "memory"} for limit in limits) and all(
        all(limit[name] == amount for name, amount in request.items())
        for request, limit in zip(requests, limits, strict=True)
    )
    complete = all(set(request) == {"cpu", "memory"} for request in requests)
    return "Guaranteed" if guaranteed and complete else "Burstable"


def _positive(every: list[Object], kind: str) -> list[dict[str, Quantity]]:
    parsed = [
        {
            name: Quantity.parse(value)
            for name, value in (resources.get(kind) or {}).items()
            if name in ("cpu", "memory")
        }
        for resources in every
    ]
    return [{name: amount for name, amount in one.items() if amount} for one in parsed]


def _metadata_and_spec(pod: Object) -> Iterator[FieldError]:
    """validatePodMetadataAndSpec, without ObjectMeta."""
    spec = pod["spec"]
    yield from pod_annotations(pod["metadata"].get("annotations") or {}, spec, "metadata.annotations")
    yield from validate_pod_spec(spec, "spec", is_pod=True)


def _spec_update(spec: Object, old: Object) -> Iterator[FieldError]:
    """ValidatePodUpdate: hardly anything may change."""
    for key in ("containers", "initContainers"):
        if len(spec.get(key) or ()) != len(old.get(key) or ()):
            yield field.forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
    deadline = list(_deadline_update(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")))
    yield from deadline
    if deadline and spec.get("activeDeadlineSeconds") is not None:
        return
    yield from _tolerations_update(spec.get("tolerations") or [], old.get("tolerations") or [])
    yield from _gates_update(spec.get("schedulingGates") or [], old.get("schedulingGates") or [])
    yield from _rest_of_spec(spec, old)


def _deadline_update(new: int | None, old: int | None) -> Iterator[FieldError]:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield field.invalid(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= MAX_INT32:
        yield field.invalid(path, new, f"must be between 0 and {MAX_INT32}, inclusive")
    elif old is not None and old < new:
        yield field.invalid(path, new, "must be less than or equal to previous value")


def _tolerations_update(new: list[Object], old: list[Object]) -> Iterator[FieldError]:
    present = [_without_seconds(toleration) for toleration in new]
    if any(_without_seconds(toleration) not in present for toleration in old):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield field.forbidden("spec.tolerations", text)
    else:
        yield from validate_tolerations(new, "spec.tolerations")


def _without_seconds(toleration: Object) -> Object:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _gates_update(new: list[Object], old: list[Object]) -> Iterator[FieldError]:
    known = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        if gate.get("name") not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            yield field.forbidden(f"spec.schedulingGates[{index}].name", text)


def _rest_of_spec(spec: Object, old: Object) -> Iterator[FieldError]:
    munged = copy.deepcopy(spec)
    for key in ("containers", "initContainers"):
        for container, before in zip(munged.get(key) or (), old.get(key) or (), strict=True):
            container["image"] = before.get("image")
    for key in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _restore(munged, old, key)
    if old.get("terminationGracePeriodSeconds", 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        _restore(munged, old, "terminationGracePeriodSeconds")
    if old.get("schedulingGates"):
        yield from _gated_update(munged, old)
    if munged != old:
        # Kubernetes adds a diff in Go syntax; the keys that differ say as much.
        changed = sorted(key for key in {*munged, *old} if munged.get(key) != old.get(key))
        yield field.forbidden("spec", f"{UPDATABLE}\n  changed: {', '.join(changed)}\n")


def _gated_update(munged: Object, old: Object) -> Iterator[FieldError]:
    """While gates hold the pod back, node selectors may be added and node affinity narrowed."""
    selector, before = munged.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if not before.items() <= selector.items():
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield field.invalid("spec.nodeSelector", selector, text)
    _restore(munged, old, "nodeSelector")
    if (munged.get("affinity") or {}).get("nodeAffinity") != (old.get("affinity") or {}).get("nodeAffinity"):
        _restore(munged, old, "affinity")


def _restore(target: dict[str, Any], source: dict[str, Any], key: str) -> None:
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)
