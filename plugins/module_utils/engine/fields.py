# SPDX-License-Identifier: BSD-2-Clause
"""Which fields an apply would change, by the rules of server-side apply. Pure.

A field changes if the desired object has another value for it, or if we applied it before and the desired object no
longer has it (the server removes it then). What others set, and what the server filled in, is ignored.

The rules are those of Kubernetes' structured merge: lists of objects merge by a key where the API declares one
(``x-kubernetes-list-map-keys``), every other list is one value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ..quantity import QuantityError, parse, stored

Key = tuple[tuple[str, Any], ...]
Path = tuple["str | Key", ...]


class Change(NamedTuple):
    """One field, with its value before and after; ``ABSENT`` if there is none."""

    path: Path
    before: Any
    after: Any

    def __str__(self) -> str:
        """``spec.template.spec.containers[main].image``; label keys are in brackets too."""
        text = ""
        for step in self.path:
            if isinstance(step, tuple):
                text += f"[{','.join(str(value) for dummy, value in step)}]"
            elif "." in step or "/" in step:
                text += f"[{step}]"
            else:
                text += f".{step}" if text else step
        return text


ABSENT = object()


def changes(desired: Mapping[str, Any], live: Mapping[str, Any], manager: str) -> tuple[Change, ...]:
    """What an apply of ``desired`` by ``manager`` would change in ``live``, in the order of the desired object."""
    found = list(_differences(desired, live, ()))
    found += _dropped(owned_fields(live, manager), desired, live, ())
    return tuple(found)


def owned_fields(live: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """The ``fieldsV1`` tree that ``manager`` holds by server-side apply; empty if it never applied the object."""
    for entry in live.get("metadata", {}).get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            fields: dict[str, Any] = entry.get("fieldsV1") or {}
            return fields
    return {}


def applied_by(manager: str, live: Mapping[str, Any]) -> dict[str, Any]:
    """The object as ``manager`` last applied it: its identity and the fields that the manager holds."""
    identity, fields = identity_of(live), _extract(owned_fields(live, manager), live)
    return {**identity, **fields, "metadata": {**identity["metadata"], **fields.get("metadata", {})}}


def identity_of(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The object without anything but its kind, name and namespace."""
    metadata = {name: obj["metadata"][name] for name in ("name", "namespace") if name in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


def value_at(obj: Any, path: Path) -> Any:
    """The value at a path, or ABSENT."""
    for step in path:
        if isinstance(step, tuple):
            obj = _entry(obj, dict(step))
        else:
            obj = obj.get(step, ABSENT) if isinstance(obj, dict) else ABSENT
    return obj


def with_value_at(obj: Any, path: Path, value: Any) -> Any:
    """A copy of the object with another value at a path, or without it (ABSENT), and then without what gets empty."""
    if not path:
        return value
    step = path[0]
    below = with_value_at(value_at(obj, (step,)), path[1:], value)
    if value is ABSENT and len(path) > 1 and below in ({}, []):
        below = ABSENT
    if isinstance(step, str):
        fields = {**({} if obj is ABSENT else obj), step: below}
        return {name: field for name, field in fields.items() if field is not ABSENT}
    items = [] if obj is ABSENT else obj
    entries = [below if _has(item, dict(step)) else item for item in items]
    if not any(_has(item, dict(step)) for item in items):
        entries.append(below)
    return [entry for entry in entries if entry is not ABSENT]


def is_owned(live: Mapping[str, Any], path: Path, manager: str) -> bool:
    """Whether ``manager`` holds a field at the path, or below it, by server-side apply."""
    fields = owned_fields(live, manager)
    for step in path:
        name = name_of_step(fields, step)
        if name not in fields:
            return False
        fields = fields[name]
    return True


def name_of_step(fields: Mapping[str, Any], step: str | Key) -> str:
    """What a ``fieldsV1`` tree calls a step of a path; "" for an entry of a list that it does not have."""
    if isinstance(step, str):
        return f"f:{step}"
    return next((name for name in fields if name.startswith("k:") and key_of_entry(name) == dict(step)), "")


# Lists that merge by key, by field name (unique among the kinds that we build, except ``ports``). All other lists are
# atomic: command, args, tolerations, metrics, rules ...
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
_KEY_DEFAULTS = {"protocol": "TCP"}  # a key that the server fills in before it merges
_FILLED_IN = {"apiVersion": "v1", "divisor": "0"}  # in atomic maps, by the server: fieldRef, resourceFieldRef

# Maps within atomic lists (a LimitRange's ``limits``) into which the server fills nothing if we set both. Further keys
# are from our own earlier apply; ``managedFields`` does not show that, because it has the list as one value.
_COMPLETE_MAPS = frozenset({"default", "defaultRequest"})

# Their values are quantities: "1" and "1000m" are equal.
_RESOURCE_LISTS = frozenset({"requests", "limits", "hard", "default", "defaultRequest"})
_QUANTITY_FIELDS = frozenset({"sizeLimit", "averageValue"})

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


def _key(keys: tuple[str, ...], item: Mapping[str, Any]) -> Key:
    return tuple((name, item.get(name, _KEY_DEFAULTS.get(name))) for name in keys)


def _differences(desired: Any, live: Any, path: Path) -> Iterator[Change]:
    if isinstance(desired, dict) and isinstance(live, dict):
        for name, value in desired.items():
            live_value = live.get(name, ABSENT)
            if not (isinstance(value, str) and value == live_value):  # The common case: equal strings.
                yield from _differences(value, live_value, (*path, name))
        if path and path[-1] in _COMPLETE_MAPS:
            yield from (Change((*path, name), live[name], ABSENT) for name in live.keys() - desired.keys())
    elif isinstance(desired, list) and isinstance(live, list) and desired and _merge_keys(path[-1], desired[0]):
        keys = _merge_keys(path[-1], desired[0])
        present = {_key(keys, item): item for item in live}
        for item in desired:
            key = _key(keys, item)
            yield from _differences(item, present.get(key, ABSENT), (*path, key))
    elif not _same(desired, live, path):
        yield Change(path, live, desired)


def _same(desired: Any, live: Any, path: Path) -> bool:
    """Whether two values are equal, not counting what the server filled into the entries of an atomic list."""
    if live is ABSENT:
        # The server drops empty values when it decodes an object (Go's omitempty).
        return desired in (None, "", [], {}) or (desired is False and path[-1] not in _KEPT_WHEN_FALSE)
    if isinstance(desired, list) and isinstance(live, list):
        return len(desired) == len(live) and all(
            not any(_differences(desired_value, live_value, (*path, "*")))
            for desired_value, live_value in zip(desired, live, strict=True)
        )
    if desired == live and isinstance(desired, bool) == isinstance(live, bool):
        return True
    try:
        if len(path) > 1 and path[-2] in _RESOURCE_LISTS:
            return stored(desired) == stored(live)
        return path[-1] in _QUANTITY_FIELDS and parse(desired) == parse(live)
    except QuantityError:
        return False


def _dropped(fields: Mapping[str, Any], desired: Any, live: Any, path: Path) -> Iterator[Change]:
    """What we hold by an earlier apply and the desired object no longer has."""
    held_keys = {key[0] for key in path[-1]} if path and isinstance(path[-1], tuple) else set()
    for step, below in fields.items():
        name, desired_value, live_value = _descend(step, desired, live)
        if name is None or live_value is ABSENT or name in held_keys:
            continue
        if desired_value is ABSENT:
            yield Change((*path, name), live_value, ABSENT)
        elif below:
            yield from _dropped(below, desired_value, live_value, (*path, name))
        elif isinstance(desired_value, dict) and isinstance(live_value, dict):
            # An atomic map (``x-kubernetes-map-type``: nodeSelector, secretKeyRef) has one owner until others add to it
            for key, value in live_value.items():
                if key not in desired_value and _FILLED_IN.get(key) != value:
                    yield Change((*path, name, key), value, ABSENT)


def _descend(step: str, desired: Any, live: Any) -> tuple[str | Key | None, Any, Any]:
    """Follow one step of a ``fieldsV1`` tree: ``f:<field>`` or ``k:<key of an entry>`` (we apply no sets, ``v:``)."""
    if step.startswith("f:"):
        name = step[2:]
        return name, value_at(desired, (name,)), value_at(live, (name,))
    if step.startswith("k:"):
        wanted = key_of_entry(step)
        return tuple(wanted.items()), _entry(desired, wanted), _entry(live, wanted)
    return None, ABSENT, ABSENT


@lru_cache(maxsize=1024)
def key_of_entry(step: str) -> Mapping[str, Any]:
    """The key of a list's entry in a ``fieldsV1`` tree. Cached, as every job has ``k:{"name":"main"}``."""
    key: dict[str, Any] = json.loads(step[2:])
    return key


def _entry(value: Any, wanted: Mapping[str, Any]) -> Any:
    return next((item for item in value if _has(item, wanted)), ABSENT) if isinstance(value, list) else ABSENT


def _has(item: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    return all(item.get(name, _KEY_DEFAULTS.get(name)) == expected for name, expected in keys.items())


def _extract(fields: Mapping[str, Any], live: Any) -> Any:
    """The part of ``live`` that a ``fieldsV1`` tree selects."""
    below = {step: children for step, children in fields.items() if step != "."}
    if not below:
        return live
    if isinstance(live, list):
        # In the order of the list, not of the tree: a variable may only refer to earlier ones.
        held = [(key_of_entry(step), children) for step, children in below.items()]
        return [
            {**keys, **_extract(children, item)} if children else item
            for item in live
            for keys, children in held
            if _has(item, keys)
        ]
    extracted = {}
    for step, children in below.items():
        name, _ours, value = _descend(step, None, live)
        if isinstance(name, str) and value is not ABSENT:
            extracted[name] = _extract(children, value)
    return extracted
