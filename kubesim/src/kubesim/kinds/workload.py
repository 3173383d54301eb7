# SPDX-License-Identifier: BSD-2-Clause
"""kueue.x-k8s.io/v1beta2, as far as other programs than Kueue look at it: see controllers/kueue.py.

Source: kubernetes-sigs/kueue apis/kueue/v1beta2, the rules of the fields that do not change.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds.strategy import Object, Strategy

_MOST_CLUSTERS = 20


class WorkloadStrategy(Strategy):
    kind = "Workload"
    generation_of = "spec"
    has_status = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("active", True)


class ClusterQueueStrategy(Strategy):
    kind = "ClusterQueue"
    namespaced = False
    generation_of = "spec"
    has_status = True


class CohortStrategy(Strategy):
    kind = "Cohort"
    namespaced = False
    generation_of = "spec"
    has_status = True


class LocalQueueStrategy(Strategy):
    kind = "LocalQueue"
    generation_of = "spec"
    has_status = True

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from super().validate_changes(obj, old)
        queue = obj["spec"].get("clusterQueue")
        if queue != old["spec"].get("clusterQueue"):
            yield field.invalid("spec.clusterQueue", queue, "field is immutable")


class ResourceFlavorStrategy(Strategy):
    kind = "ResourceFlavor"
    namespaced = False
    generation_of = "spec"

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from super().validate_changes(obj, old)
        before = old.get("spec", {}).get("topologyName")
        if before and obj.get("spec", {}).get("topologyName") != before:
            yield field.invalid("spec", "object", "topologyName is immutable when topologyName is set")


class TopologyStrategy(Strategy):
    kind = "Topology"
    namespaced = False
    generation_of = "spec"


class AdmissionCheckStrategy(Strategy):
    kind = "AdmissionCheck"
    namespaced = False
    generation_of = "spec"
    has_status = True

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from super().validate_changes(obj, old)
        name = obj["spec"].get("controllerName")
        if name != old["spec"].get("controllerName"):
            yield field.invalid("spec.controllerName", name, "field is immutable")


class MultiKueueClusterStrategy(Strategy):
    kind = "MultiKueueCluster"
    namespaced = False
    generation_of = "spec"
    has_status = True

    def default(self, obj: Object) -> None:
        if found := ((obj.get("spec") or {}).get("clusterSource") or {}).get("kubeConfig"):
            found.setdefault("locationType", "Secret")

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate_spec(obj)
        if not ((obj.get("spec") or {}).get("clusterSource") or {}).get("kubeConfig"):
            yield field.required("spec.clusterSource", "")


class MultiKueueConfigStrategy(Strategy):
    kind = "MultiKueueConfig"
    namespaced = False
    generation_of = "spec"

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        """MinItems, MaxItems and the rule of the list (multikueue_types.go)."""
        yield from super().validate_spec(obj)
        names = (obj.get("spec") or {}).get("clusters") or []
        if not 1 <= len(names) <= _MOST_CLUSTERS or len(set(names)) < len(names):
            yield field.invalid("spec.clusters", names, "must be 1 to 20 different names")
