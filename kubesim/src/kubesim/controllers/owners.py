# SPDX-License-Identifier: BSD-2-Clause
"""Ownership: an index from owner to dependents, and how controllers adopt and release by their selector.

Source: pkg/controller/controller_ref_manager.go (claim, adopt, release), apimachinery metav1.GetControllerOf.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from kubesim.selectors import matches_label_selector

from .base import Object

if TYPE_CHECKING:
    from kubesim.registry import Registry

Reference = tuple[str, str, str]  # kind, namespace, name


class OwnerIndex:
    """For each uid the objects that name it as an owner; for each namespace those that no controller has."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._dependents: dict[str, dict[Reference, None]] = {}
        self._orphans: dict[tuple[str, ...], dict[str, None]] = {}  # see _orphan_keys
        registry.subscribe(self._observe)

    def count(self, uid: str) -> int:
        return len(self._dependents.get(uid, ()))

    def references(self, uid: str) -> list[Reference]:
        return list(self._dependents.get(uid, ()))

    def dependents(self, uid: str, kind: str | None = None) -> Iterator[Object]:
        for reference in self.references(uid):
            if kind is None or reference[0] == kind:
                obj = self._registry.get(*reference)
                if obj is not None:
                    yield obj

    def orphans(self, kind: str, namespace: str, selector: Object) -> Iterator[Object]:
        """The objects without a controller that a label selector matches."""
        label = next(iter((selector.get("matchLabels") or {}).items()), ())
        for name in list(self._orphans.get((kind, namespace, *label), ())):
            obj = self._registry.get(kind, namespace, name)
            if obj is not None and matches_label_selector(selector, obj["metadata"].get("labels") or {}):
                yield obj

    def _observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind in ADOPTABLE:
            self._note_orphan(event, obj, old)
        metadata = obj["metadata"]
        owners = metadata.get("ownerReferences") or ()
        before = (old or {}).get("metadata", {}).get("ownerReferences") or ()
        if event == "MODIFIED" and owners == before:
            return
        reference = (kind, metadata.get("namespace", ""), metadata["name"])
        for owner in before if event != "DELETED" else (*before, *owners):
            self._forget(owner["uid"], reference)
        if event != "DELETED":
            for owner in owners:
                self._dependents.setdefault(owner["uid"], {})[reference] = None

    def _forget(self, uid: str, reference: Reference) -> None:
        known = self._dependents.get(uid)
        if known is not None:
            known.pop(reference, None)
            if not known:
                del self._dependents[uid]

    def _note_orphan(self, event: str, obj: Object, old: Object | None) -> None:
        name = obj["metadata"]["name"]
        before = _orphan_keys(old) if old is not None else []
        now = _orphan_keys(obj) if event != "DELETED" else []
        if before == now:
            return
        for key in before:
            names = self._orphans.get(key, {})
            names.pop(name, None)
            if not names:
                self._orphans.pop(key, None)
        for key in now:
            self._orphans.setdefault(key, {})[name] = None


def _orphan_keys(obj: Object) -> list[tuple[str, ...]]:
    """Where an object is found that has no controller: in its namespace, and under each of its labels there."""
    if controller_of(obj) is not None:
        return []
    metadata = obj["metadata"]
    place = (obj["kind"], metadata.get("namespace", ""))
    return [place, *((*place, *label) for label in (metadata.get("labels") or {}).items())]


ADOPTABLE = ("Pod", "ReplicaSet", "ControllerRevision")
_indexes: WeakKeyDictionary[Registry, OwnerIndex] = WeakKeyDictionary()


def owner_index(registry: Registry) -> OwnerIndex:
    """The one index of a registry; made when first asked for, which must be before objects are written."""
    index = _indexes.get(registry)
    if index is None:
        index = _indexes[registry] = OwnerIndex(registry)
    return index


def controller_of(obj: Object) -> Object | None:
    owner: Object
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner
    return None


def is_controlled_by(obj: Object, owner: Object) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == owner["metadata"]["uid"]


def controller_reference(owner: Object) -> Object:
    """metav1.NewControllerRef."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def claimed(registry: Registry, owner: Object, kind: str) -> list[Object]:
    """The objects of a kind that `owner` controls, by name; strays that match its selector are adopted, its own that
    no longer match are released."""
    index, selector = owner_index(registry), owner["spec"]["selector"]
    namespace = owner["metadata"]["namespace"]
    kept: list[Object] = []
    for obj in index.dependents(owner["metadata"]["uid"], kind):
        if not is_controlled_by(obj, owner):
            continue
        if matches_label_selector(selector, obj["metadata"].get("labels") or {}):
            kept.append(obj)
        else:
            release(registry, obj, owner)
    if "deletionTimestamp" not in owner["metadata"]:
        for obj in index.orphans(kind, namespace, selector):
            if "deletionTimestamp" not in obj["metadata"]:
                adopted = adopt(registry, obj, owner)
                if adopted is not None:
                    kept.append(adopted)
    return sorted(kept, key=lambda obj: obj["metadata"]["name"])


def adopt(registry: Registry, obj: Object, owner: Object) -> Object | None:
    def add(copy: Object) -> None:
        copy["metadata"].setdefault("ownerReferences", []).append(controller_reference(owner))

    return registry.modify(obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"], add)


def release(registry: Registry, obj: Object, owner: Object) -> Object | None:
    return drop_owners(registry, obj, {owner["metadata"]["uid"]})


def drop_owners(registry: Registry, obj: Object, uids: set[str]) -> Object | None:
    """Take owner references off an object."""

    def drop(copy: Object) -> None:
        left = [owner for owner in copy["metadata"].get("ownerReferences") or () if owner["uid"] not in uids]
        if left:
            copy["metadata"]["ownerReferences"] = left
        else:
            copy["metadata"].pop("ownerReferences", None)

    metadata = obj["metadata"]
    return registry.modify(obj["kind"], metadata.get("namespace", ""), metadata["name"], drop)
