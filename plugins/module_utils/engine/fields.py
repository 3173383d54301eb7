# SPDX-License-Identifier: BSD-2-Clause
"""Which fields an apply would change, by the rules of server-side apply. Pure.

A field changes if the desired object has another value for it, or if we applied it before and the desired object no
longer has it (the server removes it then). What others set, and what the server filled in, is ignored.

The rules are those of Kubernetes' structured merge: lists of objects merge by a key where the API declares one
(``x-kubernetes-list-map-keys``). Every other list is one value, and so is an atomic map (``x-kubernetes-map-type``),
such as nodeSelector and secretKeyRef: who changes a part of it takes all of it over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..kube.shapes import MalformedObject, UnreadableObject
from ..quantity import QuantityError, parse, stored
from .paths import (
    ABSENT,
    KEY_DEFAULTS,
    Change,
    Key,
    Path,
    has_keys,
    identity_of,
    is_tree,
    key_of_entry,
    list_entry,
    name_of_step,
)


def changes(desired: Mapping[str, Any], live: Mapping[str, Any], manager: str) -> tuple[Change, ...]:
    """What an apply of ``desired`` by ``manager`` would change in ``live``, in the order of the desired object."""
    found = _differences(desired, live, (), _taken_over(live, manager))
    return (*found, *_dropped(owned_fields(live, manager), desired, live, ()))


def owned_fields(live: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """The ``fieldsV1`` tree that ``manager`` holds by server-side apply; empty if it never applied the object."""
    fields = _applied_fields(live, manager)
    if not is_tree(fields):
        metadata, problem = live["metadata"], f"metadata.managedFields: malformed entry of {manager}"
        raise UnreadableObject(MalformedObject(live["kind"], metadata.get("namespace"), str(metadata["name"]), problem))
    return fields


def _applied_fields(live: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """The same, whatever it is made of."""
    # Our patches are an entry of their own ("Update"): the server removes only what an "Apply" entry no longer has.
    for entry in live.get("metadata", {}).get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            return entry.get("fieldsV1") or {}
    return {}


def applied_by(manager: str, live: Mapping[str, Any]) -> dict[str, Any]:
    """The object as ``manager`` last applied it: its identity and the fields that the manager holds."""
    identity, fields = identity_of(live), _extract(owned_fields(live, manager), live)
    return {**identity, **fields, "metadata": {**identity["metadata"], **fields.get("metadata", {})}}


def is_applied_alike(manager: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two states of an object have the same in the fields that ``manager`` holds."""
    fields = owned_fields(one, manager)
    if fields == _applied_fields(other, manager):  # Most often the spec is equal as a whole.
        fields = {step: below for step, below in fields.items() if one.get(step[2:]) != other.get(step[2:])}
        return not fields or _extract(fields, one) == _extract(fields, other)
    return applied_by(manager, one) == applied_by(manager, other)


def is_owned(live: Mapping[str, Any], path: Path, manager: str) -> bool:
    """Whether ``manager`` holds a field at the path, or below it, by server-side apply."""
    fields = owned_fields(live, manager)
    for step in path:
        name = name_of_step(fields, step)
        if name not in fields:
            return False
        fields = fields[name]
    return True


# Lists that merge by key, by field name (unique among the kinds that we build, except ``ports``). They are those with
# +listMapKey in core/v1/types.go, and in meta/v1/types.go for owners. All other lists are atomic: command, args,
# tolerations, metrics (autoscaling/v2), rules ...
_MERGE_KEYS = {
    "containers": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_FILLED_IN = {"apiVersion": "v1", "divisor": "0"}  # in atomic maps, by the server: fieldRef, resourceFieldRef

# Maps within atomic lists (a LimitRange's ``limits``) into which the server fills nothing if we set both. Further keys
# are from our own earlier apply; ``managedFields`` does not show that, because it has the list as one value.
_COMPLETE_MAPS = frozenset({"default", "defaultRequest"})

# Their values are quantities: "1" and "1000m" are equal, and the server returns the canonical form.
_RESOURCE_LISTS = frozenset({"requests", "limits", "hard", "default", "defaultRequest"})
_QUANTITY_FIELDS = frozenset({"sizeLimit", "averageValue"})
_SCALARS = frozenset({str, int, bool})  # Equal ones need no closer look; 1 and true are equal to Python.

# Pointers in Go (core/v1 types.go), of which nil, the default, is not false.
_KEPT_WHEN_FALSE = frozenset(
    {"allowPrivilegeEscalation", "automountServiceAccountToken", "enableServiceLinks", "runAsNonRoot"}
)


def _merge_keys(field: str | Key, item: Any) -> tuple[str, ...]:
    if not isinstance(item, dict) or not isinstance(field, str):
        return ()
    if field == "ports":
        return ("containerPort", "protocol") if "containerPort" in item else ("port", "protocol")
    return _MERGE_KEYS.get(field, ())


def _item_key(keys: tuple[str, ...], item: Any) -> Key:
    found = [(name, (item if isinstance(item, dict) else {}).get(name, KEY_DEFAULTS.get(name))) for name in keys]
    return tuple((name, value if isinstance(value, (str, int)) else None) for name, value in found)


def _differences(desired: Any, live: Any, path: Path, taken_over: frozenset[Path] = frozenset()) -> list[Change]:
    # One value to the server: an apply of a part of it would remove what others have put into the rest (KEP-555).
    if taken_over and path in taken_over and isinstance(live, type(desired)) and isinstance(desired, (dict, list)):
        from .taken_over import has_more

        return [Change(path, live, desired)] if _differences(desired, live, path) or has_more(live, desired) else []
    found: list[Change] = []
    if isinstance(desired, dict) and isinstance(live, dict):
        for name, value in desired.items():
            live_value = live.get(name, ABSENT)
            if value != live_value or type(value) not in _SCALARS or type(live_value) is not type(value):
                found += _differences(value, live_value, (*path, name), taken_over)
        if path and path[-1] in _COMPLETE_MAPS:
            found += [Change((*path, name), live[name], ABSENT) for name in live.keys() - desired.keys()]
    # Each entry has an owner of its own: entries that we do not have belong to others, such as injected sidecars.
    elif isinstance(desired, list) and isinstance(live, list) and desired and _merge_keys(path[-1], desired[0]):
        keys = _merge_keys(path[-1], desired[0])
        present = {_item_key(keys, item): item for item in live}
        for item in desired:
            key = _item_key(keys, item)
            found += _differences(item, present.get(key, ABSENT), (*path, key), taken_over)
    elif not _is_equal(desired, live, path):
        found.append(Change(path, live, desired))
    return found


def _is_equal(desired: Any, live: Any, path: Path) -> bool:
    """Whether two values are equal, not counting what the server filled into the entries of an atomic list."""
    if live is ABSENT:
        # The server drops empty values when it decodes an object (Go's omitempty).
        return desired in (None, "", [], {}) or (desired is False and path[-1] not in _KEPT_WHEN_FALSE)
    if isinstance(desired, list) and isinstance(live, list):
        pairs = zip(desired, live, strict=False)
        return len(desired) == len(live) and not any(_differences(*pair, (*path, "*")) for pair in pairs)
    if desired == live and isinstance(desired, bool) == isinstance(live, bool):
        return True
    try:
        if len(path) > 1 and path[-2] in _RESOURCE_LISTS:
            return stored(desired) == stored(live)  # rounded up to thousandths (SetDefaults_ResourceList)
        return path[-1] in _QUANTITY_FIELDS and parse(desired) == parse(live)
    except QuantityError:
        return False


def _taken_over(live: Mapping[str, Any], manager: str) -> frozenset[Path]:
    """The fields that others hold as one value, and ``manager`` does not."""
    entries = live.get("metadata", {}).get("managedFields") or ()
    if all(each.get("subresource") or each.get("manager") == manager for each in entries):
        return frozenset()
    from .taken_over import fields_taken_over  # Here: most objects have one writer.

    return fields_taken_over(live, manager, owned_fields(live, manager))


def _dropped(fields: Mapping[str, Any], desired: Any, live: Any, path: Path) -> list[Change]:
    """What we hold by an earlier apply and the desired object no longer has."""
    found: list[Change] = []
    # The tree lists the keys of an entry as fields of it, too.
    held_keys = {key[0] for key in path[-1]} if path and isinstance(path[-1], tuple) else set()
    for step, below in fields.items():
        if not below and isinstance(desired, dict) and type(desired.get(step[2:])) in _SCALARS:
            continue  # The common case: a scalar that the desired object has too.
        name, desired_value, live_value = _step_below(step, desired, live)
        if name is None or live_value is ABSENT or name in held_keys:
            continue
        if desired_value is ABSENT:
            found.append(Change((*path, name), live_value, ABSENT))
        elif below:
            found += _dropped(below, desired_value, live_value, (*path, name))
        elif isinstance(desired_value, dict) and isinstance(live_value, dict):
            # An atomic map (``x-kubernetes-map-type``: nodeSelector, secretKeyRef) has one owner until others add to it
            for key, value in live_value.items():
                if key not in desired_value and _FILLED_IN.get(key) != value:
                    found.append(Change((*path, name, key), value, ABSENT))
    return found


def _step_below(step: str, desired: Any, live: Any) -> tuple[str | Key | None, Any, Any]:
    """Follow one step of a ``fieldsV1`` tree: ``f:<field>`` or ``k:<key of an entry>`` (we apply no sets, ``v:``)."""
    if step.startswith("f:"):
        name = step[2:]
        ours = desired.get(name, ABSENT) if isinstance(desired, dict) else ABSENT
        return name, ours, live.get(name, ABSENT) if isinstance(live, dict) else ABSENT
    if step.startswith("k:"):
        wanted = key_of_entry(step)
        return tuple(wanted.items()), list_entry(desired, wanted), list_entry(live, wanted)
    return None, ABSENT, ABSENT


def _extract(fields: Mapping[str, Any], live: Any) -> Any:
    """The part of ``live`` that a ``fieldsV1`` tree selects."""
    below = {step: children for step, children in fields.items() if step != "."}  # "." is the item itself.
    # The tree ends here: a scalar, or a list or map that has one owner as a whole.
    if not below:
        return live
    if isinstance(live, list):
        # In the order of the list, not of the tree: a variable may only refer to earlier ones.
        held = [(key_of_entry(step), children) for step, children in below.items()]
        return [
            {**keys, **_extract(children, item)} if children else item
            for item in live
            for keys, children in held
            if has_keys(item, keys)
        ]
    extracted = {}
    for step, children in below.items():
        name, _ours, value = _step_below(step, None, live)
        if isinstance(name, str) and value is not ABSENT:
            extracted[name] = _extract(children, value)
    return extracted
