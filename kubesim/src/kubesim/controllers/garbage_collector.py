# SPDX-License-Identifier: BSD-2-Clause
"""The garbage collector: what has no owner left goes; owners wait for dependents or let go of them.

Source: pkg/controller/garbagecollector/garbagecollector.go (attemptToDeleteItem, processDeletingDependentsItem,
orphanDependents).
"""

from __future__ import annotations

from typing import Any

from kubesim import resources
from kubesim.errors import ApiError

from .base import Controller, Object
from .owners import Reference, drop_owners, owner_index

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class GarbageCollector(Controller):
    name = "garbage-collector-controller"
    watches = tuple(resources.stored_kinds())

    def __init__(self, registry: Any, collect_seconds: float = 0.0) -> None:
        super().__init__(registry)
        self.index = owner_index(registry)
        self.collect_seconds = collect_seconds  #: until dependents of a deleted object are looked at

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        metadata = obj["metadata"]
        if event == "DELETED":
            for reference in self.index.references(metadata["uid"]):
                self.enqueue(reference, self.collect_seconds)
            for owner in metadata.get("ownerReferences") or ():  # one that may wait for this one to go
                self._enqueue_owner(owner, metadata.get("namespace", ""))
            return
        owners = metadata.get("ownerReferences")
        waits = waits_for_collector(obj)
        if waits or (
            owners and (event == "ADDED" or owners != ((old or {}).get("metadata") or {}).get("ownerReferences"))
        ):
            self.enqueue((kind, metadata.get("namespace", ""), metadata["name"]))

    def _enqueue_owner(self, owner: Object, namespace: str) -> None:
        for place in {namespace, ""}:
            live = self._get(owner["kind"], place, owner["name"])
            if live is not None and waits_for_collector(live):
                self.enqueue((owner["kind"], place, owner["name"]))

    def reconcile(self, key: Reference) -> None:
        obj = self._get(*key)
        if obj is None:
            return
        if waits_for_collector(obj):
            if ORPHAN in obj["metadata"]["finalizers"]:
                self._let_go(key, obj)
            else:
                self._wait_for_dependents(key, obj)
        elif "deletionTimestamp" not in obj["metadata"]:
            self._collect(key, obj)

    def _let_go(self, key: Reference, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        for dependent in list(self.index.dependents(uid)):
            drop_owners(self.registry, dependent, {uid})
        self._drop_finalizer(key, ORPHAN)

    def _wait_for_dependents(self, key: Reference, obj: Object) -> None:
        """Dependents are deleted, each in its turn; the owner goes when none is left that blocks it."""
        uid, blocked = obj["metadata"]["uid"], False
        for dependent in list(self.index.dependents(uid)):
            blocks = any(
                o["uid"] == uid and o.get("blockOwnerDeletion") for o in dependent["metadata"]["ownerReferences"]
            )
            if "deletionTimestamp" not in dependent["metadata"]:
                namespace, name = dependent["metadata"].get("namespace", ""), dependent["metadata"]["name"]
                self.enqueue((dependent["kind"], namespace, name), self.collect_seconds)
            blocked = blocked or blocks
        if not blocked:
            self._drop_finalizer(key, FOREGROUND)

    def _drop_finalizer(self, key: Reference, finalizer: str) -> None:
        def drop(copied: Object) -> None:
            left = [name for name in copied["metadata"].get("finalizers") or () if name != finalizer]
            copied["metadata"].pop("finalizers", None)
            if left:
                copied["metadata"]["finalizers"] = left

        self.registry.modify(*key, drop)

    def _collect(self, key: Reference, obj: Object) -> None:
        """Delete an object none of whose owners is left (or is only waiting for it); else forget the absent ones."""
        solid, waiting, gone = self._owners_by_state(obj)
        if solid is None:
            return
        if solid:
            if gone or waiting:
                drop_owners(self.registry, obj, gone | waiting)
            return
        if not gone and not waiting:
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        if waiting and next(self.index.dependents(obj["metadata"]["uid"]), None) is not None:
            propagation = "Foreground"
        elif ORPHAN in finalizers:
            propagation = "Orphan"
        else:
            propagation = "Foreground" if FOREGROUND in finalizers else "Background"
        try:
            self.registry.delete(*key, propagation=propagation, preconditions={"uid": obj["metadata"]["uid"]})
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _owners_by_state(self, obj: Object) -> tuple[set[str] | None, set[str], set[str]]:
        """The uids of owners that are there, that wait for their dependents, that are gone. None: not to be known."""
        solid: set[str] = set()
        waiting: set[str] = set()
        gone: set[str] = set()
        for owner in obj["metadata"].get("ownerReferences") or ():
            if owner["kind"] not in self.watches:
                return None, waiting, gone  # of a kind that is not served: the real one cannot look it up either
            resource = resources.by_kind(owner["kind"])
            namespace = obj["metadata"].get("namespace", "") if resource.namespaced else ""
            live = self._get(owner["kind"], namespace, owner["name"])
            if live is None or live["metadata"]["uid"] != owner["uid"]:
                gone.add(owner["uid"])
            elif "deletionTimestamp" in live["metadata"] and FOREGROUND in (live["metadata"].get("finalizers") or ()):
                waiting.add(owner["uid"])
            else:
                solid.add(owner["uid"])
        return solid, waiting, gone

    def _get(self, kind: str, namespace: str, name: str) -> Object | None:
        return self.registry.get(kind, namespace or None, name)


def waits_for_collector(obj: Object) -> bool:
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or ()
    return "deletionTimestamp" in metadata and (FOREGROUND in finalizers or ORPHAN in finalizers)
