# SPDX-License-Identifier: BSD-2-Clause
"""The namespace controller: empties a namespace that is being deleted, says what is left, then lets it go.

Source: pkg/controller/namespace/deletion/namespaced_resources_deleter.go, status_condition_utils.go.
"""

from __future__ import annotations

from collections import Counter

from kubesim import resources
from kubesim.clock import rfc3339
from kubesim.errors import ApiError

from .base import Controller, Object, set_condition

FINALIZER = "kubernetes"
#: Kinds that live in namespaces; events go last, as what is deleted may still cause some.
NAMESPACED = sorted(
    (kind for kind in resources.stored_kinds() if resources.by_kind(kind).namespaced), key=lambda kind: kind == "Event"
)


class NamespaceController(Controller):
    name = "namespace-controller"
    watches = ("Namespace", *NAMESPACED)

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "Namespace":
            if event != "DELETED" and "deletionTimestamp" in obj["metadata"]:
                self.enqueue(obj["metadata"]["name"])
        elif event == "DELETED":
            namespace = self.registry.get("Namespace", None, obj["metadata"]["namespace"])
            if namespace is not None and "deletionTimestamp" in namespace["metadata"]:
                self.enqueue(namespace["metadata"]["name"])

    def reconcile(self, key: str) -> None:
        namespace = self.registry.get("Namespace", None, key)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return
        if FINALIZER not in (namespace["spec"].get("finalizers") or ()):
            return
        for kind in NAMESPACED:
            for obj in self.registry.list(kind, key):
                if "deletionTimestamp" not in obj["metadata"]:
                    self._delete(kind, key, obj["metadata"]["name"])
        left = {kind: found for kind in NAMESPACED if (found := self.registry.list(kind, key))}
        if left:
            self._say_what_is_left(key, left)
        else:
            self._finalize(key)

    def _delete(self, kind: str, namespace: str, name: str) -> None:
        try:
            self.registry.delete(kind, namespace, name, propagation="Background")
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _finalize(self, name: str) -> None:
        def drop(namespace: Object) -> None:
            left = [one for one in namespace["spec"].get("finalizers") or () if one != FINALIZER]
            namespace["spec"].pop("finalizers", None)
            if left:
                namespace["spec"]["finalizers"] = left

        self.registry.modify("Namespace", None, name, drop, subresource="finalize")

    def _say_what_is_left(self, name: str, left: dict[str, list[Object]]) -> None:
        now = rfc3339(self.clock.now())

        def write(namespace: Object) -> None:
            conditions = namespace["status"].setdefault("conditions", [])
            for kind, (status, reason, message) in conditions_of(left).items():
                new = {"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}
                set_condition(conditions, new)

        self.registry.modify("Namespace", None, name, write, subresource="status")


def conditions_of(left: dict[str, list[Object]]) -> dict[str, tuple[str, str, str]]:
    """The conditions of a namespace in which these objects, by kind, are left: (status, reason, message) by type."""
    counts = []
    for kind, objects in left.items():
        resource = resources.by_kind(kind)
        counts.append(f"{resource.plural}.{resource.group} has {len(objects)} resource instances")
    finalizers = Counter(
        finalizer
        for objects in left.values()
        for obj in objects
        for finalizer in obj["metadata"].get("finalizers") or ()
    )
    held = [f"{finalizer} in {number} resource instances" for finalizer, number in finalizers.items()]
    content = "Some resources are remaining: " + ", ".join(sorted(counts))
    holding = "Some content in the namespace has finalizers remaining: " + ", ".join(sorted(held))
    deleted = "All content successfully deleted, may be waiting on finalization"
    return {
        "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered", "All resources successfully discovered"),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False", "ParsedGroupVersions", "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": ("False", "ContentDeleted", deleted),
        "NamespaceContentRemaining": (
            ("True", "SomeResourcesRemain", content) if counts
            else ("False", "ContentRemoved", "All content successfully removed")
        ),
        "NamespaceFinalizersRemaining": (
            ("True", "SomeFinalizersRemain", holding) if held
            else ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished")
        ),
    }  # fmt: skip
