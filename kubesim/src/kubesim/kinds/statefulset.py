# SPDX-License-Identifier: BSD-2-Clause
"""apps/v1 StatefulSet.

Sources: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation/validation.go,
pkg/registry/apps/statefulset/strategy.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import not_negative, object_meta_update
from kubesim.kinds.pod_validation import validate_template
from kubesim.kinds.pod_warnings import template_warnings
from kubesim.kinds.podspec import default_template
from kubesim.kinds.pvc import default_claim, validate_claim_spec
from kubesim.kinds.strategy import Object, Strategy
from kubesim.kinds.workload_validation import (
    at_most_100_percent,
    int_or_percent,
    is_zero,
    labels_match,
    validate_selector,
)

#: What may change, in the order in which the refusal names it.
MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


class StatefulSetStrategy(Strategy):
    kind = "StatefulSet"
    generation_of = "spec"
    has_status = True
    name_rule = staticmethod(names.dns_label)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        for claim in spec.get("volumeClaimTemplates") or ():
            claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
            default_claim(claim)
        spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
        update = spec.setdefault("updateStrategy", {})
        if not update.get("type"):
            update["type"] = "RollingUpdate"
        if update["type"] == "RollingUpdate":
            update.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        policy = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for key in ("whenDeleted", "whenScaled"):
            policy[key] = policy.get(key) or "Retain"
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"replicas": 0, "availableReplicas": 0}

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        yield from self._validate_spec(obj["spec"], is_new=True)

    def _validate_spec(self, spec: Object, is_new: bool) -> Iterator[FieldError]:
        """ValidateStatefulSetSpec; what cannot change is not checked again."""
        yield from _policies(spec)
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or () if is_new else ()):
            yield from validate_claim_spec(claim["spec"], f"spec.volumeClaimTemplates[{index}].spec")
        for key in ("replicas", "minReadySeconds"):
            yield from not_negative(spec, key, "spec")
        yield from not_negative(spec.get("ordinals") or {}, "start", "spec.ordinals")
        if is_new:
            yield from _service_name(spec)
        yield from validate_selector(spec, "empty selector is invalid for statefulset")
        yield from labels_match(spec)
        yield from validate_template(_with_claims_as_volumes(spec), "spec.template")
        pod = spec["template"]["spec"]
        if pod.get("restartPolicy") != "Always":
            yield field.not_supported("spec.template.spec.restartPolicy", pod.get("restartPolicy", ""), ("Always",))
        if "activeDeadlineSeconds" in pod:
            text = "activeDeadlineSeconds in StatefulSet is not Supported"
            yield field.forbidden("spec.template.spec.activeDeadlineSeconds", text)

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        yield from self._validate_spec(obj["spec"], is_new=False)
        if any(obj["spec"].get(key) != old["spec"].get(key) for key in {*obj["spec"], *old["spec"]} - {*MUTABLE}):
            listed = ", ".join(f"'{key}'" for key in MUTABLE[:-1]) + f" and '{MUTABLE[-1]}'"
            text = f"updates to statefulset spec for fields other than {listed} are forbidden"
            yield field.forbidden("spec", text)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        spec, old_template = obj["spec"], old["spec"]["template"] if old else None
        texts = template_warnings(spec["template"], "spec.template", old_template)
        if old is None and spec.get("revisionHistoryLimit", 0) < 0:
            text = "a negative value retains all historical revisions; a value >= 0 is recommended"
            texts.append(f"spec.revisionHistoryLimit: {text}")
        return texts


def _policies(spec: Object) -> Iterator[FieldError]:
    management, update = spec["podManagementPolicy"], spec["updateStrategy"]
    if management not in ("OrderedReady", "Parallel"):
        yield field.invalid("spec.podManagementPolicy", management, "must be 'OrderedReady' or 'Parallel'")
    path, rolling = "spec.updateStrategy", update.get("rollingUpdate")
    if update["type"] == "OnDelete":
        if rolling is not None:
            text = "only allowed for updateStrategy 'RollingUpdate'"
            yield field.invalid(f"{path}.rollingUpdate", rolling, text)
    elif update["type"] == "RollingUpdate":
        yield from _rolling_update(rolling, f"{path}.rollingUpdate")
    else:
        yield field.invalid(path, update, "must be 'RollingUpdate' or 'OnDelete'")
    for key, value in spec["persistentVolumeClaimRetentionPolicy"].items():
        if value not in ("Retain", "Delete"):
            here = f"spec.persistentVolumeClaimRetentionPolicy.{key}"
            yield field.not_supported(here, value, ("Retain", "Delete"))


def _rolling_update(rolling: Object, path: str) -> Iterator[FieldError]:
    yield from not_negative(rolling, "partition", path)
    if (unavailable := rolling.get("maxUnavailable")) is not None:
        here = f"{path}.maxUnavailable"
        yield from int_or_percent(unavailable, here)
        if is_zero(unavailable):
            yield field.invalid(here, unavailable, "cannot be 0")
        yield from at_most_100_percent(unavailable, here)


def _service_name(spec: Object) -> Iterator[FieldError]:
    if name := spec.get("serviceName"):
        for text in names.dns_label(name):
            yield field.invalid("spec.serviceName", name, text)


def _with_claims_as_volumes(spec: Object) -> Object:
    """Mounts may name claim templates: the controller turns each into a volume of the pod, over one of that name."""
    claims = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    template, pod = spec["template"], spec["template"]["spec"]
    volumes = [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
    volumes += [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return {**template, "spec": {**pod, "volumes": volumes}}
