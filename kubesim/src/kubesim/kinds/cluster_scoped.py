# SPDX-License-Identifier: BSD-2-Clause
"""v1 Namespace and Node, scheduling.k8s.io/v1 PriorityClass.

Sources: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go,
pkg/registry/core/{namespace,node}/strategy.go, pkg/apis/scheduling/{v1/defaults.go,validation/validation.go}.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import object_meta_update
from kubesim.kinds.pod_warnings import node_label_warnings
from kubesim.kinds.resources import resource_amount
from kubesim.kinds.scheduling_validation import validate_taints
from kubesim.kinds.strategy import Context, Object, Strategy
from kubesim.quantity import parse_list

NAME_LABEL = "kubernetes.io/metadata.name"
HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
#: What the API server itself creates when it starts (pkg/apis/scheduling/v1/helpers.go).
SYSTEM_PRIORITY_CLASSES = tuple(
    {"metadata": {"name": name}, "value": SYSTEM_PRIORITIES[name], "description": description}
    for name, description in (
        (
            "system-node-critical",
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            "Used for system critical pods that must run in the cluster, but "
            "can be moved to another node if necessary.",
        ),
    )
)


class NamespaceStrategy(Strategy):
    kind = "Namespace"
    namespaced = False
    has_status = True
    name_rule = staticmethod(names.dns_label)

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        status["phase"] = status.get("phase") or "Active"
        _label_with_name(obj)

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"phase": "Active"}

    def prepare_create(self, obj: Object, ctx: Context) -> None:
        super().prepare_create(obj, ctx)
        _label_with_name(obj)  # a generated name came after the defaults
        finalizers = obj["spec"].setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")

    def prepare_update(self, obj: Object, old: Object, ctx: Context) -> None:
        super().prepare_update(obj, old, ctx)
        obj["spec"] = dict(old["spec"])

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from self.validate(obj)
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")


class NodeStrategy(Strategy):
    kind = "Node"
    namespaced = False

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        if "capacity" in status:
            status.setdefault("allocatable", dict(status["capacity"]))

    def prepare_update(self, obj: Object, old: Object, ctx: Context) -> None:
        obj["status"] = old.get("status", {})

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        yield from validate_taints(obj["spec"].get("taints") or [], "metadata.taints")
        yield from _node_resources(obj)

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        # The strategy runs ValidateNode and then ValidateNodeUpdate.
        yield from self.validate(obj)
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        yield from _node_resources(obj)
        provider = old["spec"].get("providerID")
        if provider and provider != obj["spec"].get("providerID"):
            text = 'node updates may not change providerID except from "" to valid'
            yield field.forbidden("spec.providerID", text)
        yield from validate_taints(obj["spec"].get("taints") or [], "metadata.taints")

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        return node_label_warnings(obj["metadata"].get("labels") or {}) if old is None else []


class PriorityClassStrategy(Strategy):
    kind = "PriorityClass"
    namespaced = False
    generation_of = "value"

    def default(self, obj: Object) -> None:
        obj.setdefault("value", 0)
        obj["preemptionPolicy"] = obj.get("preemptionPolicy") or "PreemptLowerPriority"

    def prepare_update(self, obj: Object, old: Object, ctx: Context) -> None:
        """The generation of a class never moves: nothing that counts can change."""
        obj["metadata"]["generation"] = old["metadata"].get("generation", 1)

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        name, value = obj["metadata"].get("name", ""), obj["value"]
        if name.startswith("system-"):
            if why := _not_the_system_class(obj):
                text = f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
                yield field.forbidden("metadata.name", text)
        elif value > HIGHEST_USER_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            yield field.forbidden("value", text)
        if obj["preemptionPolicy"] not in ("PreemptLowerPriority", "Never"):
            policy = obj["preemptionPolicy"]
            yield field.not_supported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        if obj["value"] != old["value"]:
            yield field.forbidden("value", "may not be changed in an update.")
        if obj["preemptionPolicy"] != old["preemptionPolicy"]:
            text = "field is immutable"
            yield field.invalid("preemptionPolicy", obj["preemptionPolicy"], text)


def _label_with_name(namespace: Object) -> None:
    meta = namespace["metadata"]
    if name := meta.get("name"):
        meta["labels"] = (meta.get("labels") or {}) | {NAME_LABEL: name}


def _node_resources(node: Object) -> Iterator[FieldError]:
    for part in ("capacity", "allocatable"):
        for name, amount in parse_list((node.get("status") or {}).get(part)).items():
            yield from resource_amount(name, amount, f"status.{part}.{name}")


def _not_the_system_class(obj: Object) -> str:
    """IsKnownSystemPriorityClass: what tells it from the class of that name which Kubernetes itself makes."""
    name = obj["metadata"]["name"]
    if name not in SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if obj["value"] != SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
    if obj.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""
