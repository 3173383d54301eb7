# SPDX-License-Identifier: BSD-2-Clause
"""metadata.managedFields: the owner of each field, and how writes move fields between managers.

Source: apimachinery pkg/util/managedfields/internal/{managedfields,managedfieldsupdater,stripmeta,skipnonapplied,
capmanagers}.go, structured-merge-diff merge/update.go; the reset fields are those of pkg/registry/*/strategy.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from kubesim import schema
from kubesim.apply import fieldset
from kubesim.apply.fieldset import FieldSet, Path
from kubesim.apply.merge import compare
from kubesim.schema import Struct

Object = dict[str, Any]
#: Update managers beyond this number are merged into one, oldest first (capmanagers.go).
MAX_UPDATE_MANAGERS = 10
ANCIENT = "ancient-changes"
BEFORE_FIRST_APPLY = "before-first-apply"


def _path(text: str) -> Path:
    return tuple("f:" + step for step in text.split("."))


#: Never owned by anybody (stripmeta.go).
STRIPPED: FieldSet = {
    _path(text)
    for text in (
        *("apiVersion", "kind", "metadata", "metadata.name", "metadata.namespace", "metadata.creationTimestamp"),
        *("metadata.selfLink", "metadata.uid", "metadata.clusterName", "metadata.generation"),
        *("metadata.managedFields", "metadata.resourceVersion"),
    )
}
#: What a write of /status resets beside spec, by kind (GetResetFields of the status strategies).
_STATUS_RESETS = {
    "Deployment": ("metadata.labels",),
    "Pod": ("metadata.deletionTimestamp", "metadata.ownerReferences"),
}


@dataclass(frozen=True)
class Manager:
    """The identity of an entry; appliers are the same whatever the version."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    @property
    def identity(self) -> Manager:
        return replace(self, api_version="") if self.operation == "Apply" else self


@dataclass
class Owned:
    api_version: str
    fields: FieldSet
    time: str | None = None


@dataclass
class Managers:
    """The managedFields of an object, by identity."""

    entries: dict[Manager, Owned] = field(default_factory=dict)

    @classmethod
    def of(cls, obj: Object) -> Managers:
        found = cls()
        for entry in obj["metadata"].get("managedFields") or ():
            version = entry.get("apiVersion", "")
            key = Manager(entry.get("manager", ""), entry["operation"], version, entry.get("subresource", ""))
            fields = fieldset.decode(entry.get("fieldsV1", {}))
            found.entries[key.identity] = Owned(version, fields, entry.get("time"))
        return found

    def write_to(self, obj: Object) -> None:
        """Put the entries into an object, in the server's order."""
        ordered = sorted(
            self.entries.items(),
            key=lambda e: (e[0].operation, e[1].time or "", e[0].name, e[1].api_version, e[0].subresource),
        )
        listed = []
        for manager, owned in ordered:
            entry: Object = {"manager": manager.name, "operation": manager.operation, "apiVersion": owned.api_version}
            if owned.time:
                entry["time"] = owned.time
            entry["fieldsType"], entry["fieldsV1"] = "FieldsV1", fieldset.encode(owned.fields)
            if manager.subresource:
                entry["subresource"] = manager.subresource
            listed.append(entry)
        if listed:
            obj["metadata"]["managedFields"] = listed
        else:
            obj["metadata"].pop("managedFields", None)

    def take(self, manager: Manager, fields: FieldSet) -> None:
        """Take fields away from everybody else; entries without fields go."""
        for key, owned in list(self.entries.items()):
            if key != manager:
                owned.fields = owned.fields - fields
        self.drop_empty()

    def drop_empty(self) -> None:
        self.entries = {key: owned for key, owned in self.entries.items() if owned.fields}

    def cap(self) -> None:
        """Merge the oldest Update managers of a version once there are too many."""
        updates = sorted(
            ((key, owned) for key, owned in self.entries.items() if key.operation == "Update"),
            key=lambda item: item[1].time or "",
        )
        for key, owned in updates[: max(0, len(updates) - MAX_UPDATE_MANAGERS)]:
            ancient = Manager(ANCIENT, "Update", owned.api_version)
            into = self.entries.setdefault(ancient, Owned(owned.api_version, set()))
            if key != ancient:
                into.fields, into.time = into.fields | owned.fields, owned.time
                del self.entries[key]


def reset_fields(kind: str, subresource: str, has_status: bool) -> FieldSet:
    """What a write cannot set, and hence no manager owns by it."""
    if subresource == "status":
        return {_path(text) for text in ("spec", *_STATUS_RESETS.get(kind, ()))}
    return {_path("status")} if has_status else set()


def track_update(old: Object | None, new: Object, manager: str, now: str, subresource: str = "") -> None:
    """Give `manager` the fields that a write (not an apply) sets or changes. `old` None: a create."""
    given = new["metadata"].pop("managedFields", None)
    kind = schema.of_object(new["apiVersion"], new["kind"])
    if old is None:
        managers = Managers.of({"metadata": {"managedFields": given}}) if given and any(given) else Managers()
    else:
        managers = _live_or_given(old, given, subresource)
        if not managers.entries:  # skipnonapplied.go: an object without owners stays without
            return
    try:
        _update(managers, old, new, kind, Manager(manager, "Update", new["apiVersion"], subresource), now)
    except fieldset.MissingKey:  # FieldManager.UpdateNoErrors: no owners rather than no write; validation comes later
        return
    managers.write_to(new)


def _live_or_given(old: Object, given: Any, subresource: str) -> Managers:
    """A write may edit managedFields; [{}] empties them; nothing given keeps them."""
    if subresource or not given:
        return Managers.of(old)
    if given == [{}] or not any(entry.get("operation") for entry in given):
        return Managers()
    return Managers.of({"metadata": {"managedFields": given}})


def _update(managers: Managers, old: Object | None, new: Object, kind: Struct, manager: Manager, now: str) -> None:
    change = compare(_body(old if old is not None else kind.empty()), _body(new), kind)
    ignored = reset_fields(new["kind"], manager.subresource, "status" in kind.fields)
    changed = fieldset.without_below(change.added | change.modified, ignored)
    removed = fieldset.without_below(change.removed, ignored)
    for owned in managers.entries.values():
        owned.fields = owned.fields - changed - removed
    taken = changed - STRIPPED
    if taken:
        mine = managers.entries.setdefault(manager, Owned(manager.api_version, set()))
        mine.fields, mine.time = mine.fields | taken, now
    managers.drop_empty()
    managers.cap()


def _body(obj: Object) -> Object:
    """The object without the owners themselves."""
    if "managedFields" not in obj["metadata"]:
        return obj
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}


def adopt_unowned(live: Object, managers: Managers, now: str) -> None:
    """Before the first apply to an object without owners: everything belongs to "before-first-apply"."""
    kind = schema.of_object(live["apiVersion"], live["kind"])
    _update(managers, None, live, kind, Manager(BEFORE_FIRST_APPLY, "Update", live["apiVersion"]), now)


def without_times(obj: Object) -> Object:
    """The object with the times of its managedFields left out: what two versions are compared by."""
    listed = obj["metadata"].get("managedFields")
    if not listed:
        return obj
    timeless = [{k: v for k, v in entry.items() if k != "time"} for entry in listed]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": timeless}}
