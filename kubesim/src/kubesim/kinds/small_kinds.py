# SPDX-License-Identifier: BSD-2-Clause
"""Kinds with few rules: service accounts, leases, events, endpoints, disruption budgets, RBAC and the like.

Sources: pkg/apis/<group>/v1/defaults.go and pkg/apis/<group>/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import label_selector, not_negative, object_meta_update
from kubesim.kinds.strategy import Object, Strategy
from kubesim.kinds.workload_validation import int_or_percent


class ServiceAccountStrategy(Strategy):
    kind = "ServiceAccount"


class LeaseStrategy(Strategy):
    kind = "Lease"
    allows_unconditional_update = False

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        seconds = spec.get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            yield field.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
        yield from not_negative(spec, "leaseTransitions", "spec")
        if spec.get("preferredHolder") and not spec.get("strategy"):
            text = "preferredHolder may only be specified if strategy is defined"
            yield field.forbidden("spec.preferredHolder", text)


class EventStrategy(Strategy):
    kind = "Event"

    def validate(self, obj: Object) -> list[FieldError]:
        """legacyValidateEvent: an event lies where the object lies that it is about."""
        namespace = (obj.get("involvedObject") or {}).get("namespace", "")
        errors = []
        if namespace != obj["metadata"].get("namespace") and (
            namespace or obj["metadata"].get("namespace") != "default"
        ):
            errors.append(field.invalid("involvedObject.namespace", namespace, "does not match event.namespace"))
        return errors + super().validate(obj)

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from self.validate(obj)


class EndpointsStrategy(Strategy):
    kind = "Endpoints"
    namespaced = True

    def default(self, obj: Object) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port["protocol"] = port.get("protocol") or "TCP"

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        for index, subset in enumerate(obj.get("subsets") or ()):
            path = f"subsets[{index}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                yield field.required(path, "must specify `addresses` or `notReadyAddresses`")
            for key in ("addresses", "notReadyAddresses"):
                for position, address in enumerate(subset.get(key) or ()):
                    for text in names.ip(address.get("ip", "")):
                        yield field.invalid(f"{path}.{key}[{position}].ip", address.get("ip", ""), text)


class EndpointSliceStrategy(Strategy):
    kind = "EndpointSlice"
    generation_of = "endpoints"

    def default(self, obj: Object) -> None:
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")


class PodDisruptionBudgetStrategy(Strategy):
    kind = "PodDisruptionBudget"
    allows_unconditional_update = False
    generation_of = "spec"
    has_status = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        if "minAvailable" in spec and "maxUnavailable" in spec:
            text = "minAvailable and maxUnavailable cannot be both set"
            shown = field.Struct(
                MinAvailable=spec["minAvailable"],
                Selector=spec.get("selector"),
                MaxUnavailable=spec["maxUnavailable"],
                UnhealthyPodEvictionPolicy=spec.get("unhealthyPodEvictionPolicy"),
            )
            yield field.invalid("spec", shown, text)
        for key in ("minAvailable", "maxUnavailable"):
            if key in spec:
                yield from int_or_percent(spec[key], f"spec.{key}")
        if selector := spec.get("selector"):
            yield from label_selector(selector, "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
            yield field.not_supported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))


class ControllerRevisionStrategy(Strategy):
    kind = "ControllerRevision"

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        if obj.get("data") is None:
            yield field.required("data", "data is mandatory")
        yield from not_negative({"revision": obj.get("revision", 0)}, "revision", "")


class StorageClassStrategy(Strategy):
    kind = "StorageClass"
    namespaced = False

    def default(self, obj: Object) -> None:
        """pkg/apis/storage/v1/defaults.go"""
        obj["reclaimPolicy"] = obj.get("reclaimPolicy") or "Delete"
        obj["volumeBindingMode"] = obj.get("volumeBindingMode") or "Immediate"

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        if not obj.get("provisioner"):
            yield field.required("provisioner", "")


class RuntimeClassStrategy(Strategy):
    kind = "RuntimeClass"
    namespaced = False

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        for text in names.dns_label(obj.get("handler") or ""):
            yield field.invalid("handler", obj.get("handler") or "", text)


class RoleStrategy(Strategy):
    kind = "Role"
    name_rule = staticmethod(names.path_segment)

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        for index, rule in enumerate(obj.get("rules") or ()):
            yield from _policy_rule(rule, f"rules[{index}]", self.namespaced)


class ClusterRoleStrategy(RoleStrategy):
    kind = "ClusterRole"
    namespaced = False


class RoleBindingStrategy(Strategy):
    kind = "RoleBinding"
    name_rule = staticmethod(names.path_segment)
    role_kinds: tuple[str, ...] = ("Role", "ClusterRole")

    def default(self, obj: Object) -> None:
        group = "rbac.authorization.k8s.io"
        ref = obj.setdefault("roleRef", {})
        ref["apiGroup"] = ref.get("apiGroup") or group
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = group

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        ref = obj["roleRef"]
        if ref["apiGroup"] != "rbac.authorization.k8s.io":
            yield field.not_supported("roleRef.apiGroup", ref["apiGroup"], ("rbac.authorization.k8s.io",))
        if ref.get("kind", "") not in self.role_kinds:
            yield field.not_supported("roleRef.kind", ref.get("kind", ""), self.role_kinds)
        if name := ref.get("name"):
            for text in names.path_segment(name):
                yield field.invalid("roleRef.name", name, text)
        else:
            yield field.required("roleRef.name")
        for index, subject in enumerate(obj.get("subjects") or ()):
            yield from _subject(subject, f"subjects[{index}]", self.namespaced)

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from self.validate(obj)
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        if obj["roleRef"] != old["roleRef"]:
            yield field.invalid("roleRef", obj["roleRef"], "cannot change roleRef")


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    kind = "ClusterRoleBinding"
    namespaced = False
    role_kinds = ("ClusterRole",)


def _policy_rule(rule: Object, path: str, namespaced: bool) -> Iterator[FieldError]:
    if not rule.get("verbs"):
        yield field.required(f"{path}.verbs", "verbs must contain at least one value")
    if rule.get("nonResourceURLs"):
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            yield field.invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield field.invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text)
        return
    if not rule.get("apiGroups"):
        yield field.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield field.required(f"{path}.resources", "resource rules must supply at least one resource")


def _subject(subject: Object, path: str, namespaced: bool) -> Iterator[FieldError]:
    kind, name, group = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        yield field.required(f"{path}.name")
    if kind == "ServiceAccount":
        for text in names.dns_subdomain(name) if name else []:
            yield field.invalid(f"{path}.name", name, text)
        if group:
            yield field.not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield field.required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group != "rbac.authorization.k8s.io":
            yield field.not_supported(f"{path}.apiGroup", group, ("rbac.authorization.k8s.io",))
    else:
        yield field.not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))
