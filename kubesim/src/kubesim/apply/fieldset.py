# SPDX-License-Identifier: BSD-2-Clause
"""Sets of fields: which ones a value has, how they are written as FieldsV1, how a path is shown to a person.

A path is a tuple of elements as FieldsV1 writes them: `f:spec`, `k:{"name":"main"}`, `v:"finalizer"`.
Source: structured-merge-diff fieldpath/{set,serialize,serialize-pe,element}.go, typed/tofieldset.go.
"""

from __future__ import annotations

import json
from typing import Any

from kubesim.schema import ListType, MapType, Struct, Type, child

Path = tuple[str, ...]
FieldSet = set[Path]

#: Defaults that the OpenAPI schema gives to keys of associative lists (ports of containers and services).
KEY_DEFAULTS = {"protocol": "TCP"}


class MissingKey(ValueError):
    """An entry of an associative list lacks a key that has no default."""


def is_atomic(kind: Type) -> bool:
    """Whether a value is owned as a whole."""
    if isinstance(kind, ListType):
        return kind.list_type not in ("map", "set")
    return kind.atomic if isinstance(kind, (Struct, MapType)) else True


def element(item: Any, kind: ListType) -> str:
    """The path element of an entry of an associative list or a set."""
    if kind.list_type == "set":
        return "v:" + _json(item)
    keys: dict[str, Any] = {}
    for key in kind.keys:
        value = item.get(key) if isinstance(item, dict) else None
        if value is None:
            value = KEY_DEFAULTS.get(key)
        if value is None:
            raise MissingKey(key)
        keys[key] = value
    return "k:" + _json(dict(sorted(keys.items())))


def elements(items: list[Any], kind: ListType) -> dict[str, Any]:
    """The entries of an associative list by path element; the first of several alike."""
    found: dict[str, Any] = {}
    for item in items:
        found.setdefault(element(item, kind), item)
    return found


def of_value(value: Any, kind: Type, path: Path = ()) -> FieldSet:
    """The fields that a value sets: leaves, atomic wholes, entries of maps and associative lists, empty maps."""
    if is_atomic(kind) or not isinstance(value, (dict, list)):
        return {path}
    found: FieldSet = set()
    if isinstance(value, list):
        assert isinstance(kind, ListType)
        for name, item in elements(value, kind).items():
            found |= of_value(item, kind.item, (*path, name))
            found.add((*path, name))
        return found
    declared = kind.fields if isinstance(kind, Struct) else {}
    for key, item in value.items():
        here = (*path, "f:" + key)
        found |= of_value(item, child(kind, key), here)
        if item is None or item == {} or key not in declared:
            found.add(here)
    return found


def with_named_parents(fields: FieldSet, root: Type) -> FieldSet:
    """The set with every declared struct field on the way to its members (EnsureNamedFieldsAreMembers)."""
    found = set(fields)
    for path in fields:
        kind = root
        for depth, step in enumerate(path[:-1]):
            if step.startswith("f:"):
                name = step[2:]
                if isinstance(kind, Struct) and name in kind.fields:
                    found.add(path[: depth + 1])
                kind = child(kind, name)
            elif isinstance(kind, ListType):
                kind = kind.item
    return found


def without_below(fields: FieldSet, roots: FieldSet) -> FieldSet:
    """The set without the given paths and everything under them (RecursiveDifference)."""
    if not roots:
        return fields
    depths = {len(root) for root in roots}
    return {path for path in fields if not any(path[:depth] in roots for depth in depths if depth <= len(path))}


def encode(fields: FieldSet) -> dict[str, Any]:
    """FieldsV1: nested objects; "." where a path is a member and has members below it."""
    root: dict[str, Any] = {}
    for path in sorted(fields):
        node = root
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}
    _drop_lone_dots(root)
    return root


def _drop_lone_dots(node: dict[str, Any]) -> None:
    for key, below in node.items():
        if key == ".":
            continue
        if len(below) == 1 and "." in below:
            del below["."]
        else:
            _drop_lone_dots(below)


def decode(fields: dict[str, Any], path: Path = ()) -> FieldSet:
    """The set that FieldsV1 describes."""
    found: FieldSet = set()
    for key, below in fields.items():
        if key == ".":
            found.add(path)
        elif below:
            found |= decode(below, (*path, key))
        else:
            found.add((*path, key))
    return found


def in_order(fields: FieldSet) -> list[Path]:
    """Set.Iterate: at each level the members of the set, then what is below each of them."""
    members = sorted({path[0] for path in fields if len(path) == 1}, key=_rank)
    below: dict[str, FieldSet] = {}
    for path in fields:
        if len(path) > 1:
            below.setdefault(path[0], set()).add(path[1:])
    children = sorted(below, key=_rank)
    return [(step,) for step in members] + [(step, *rest) for step in children for rest in in_order(below[step])]


def _rank(step: str) -> tuple[Any, ...]:
    """PathElement.Compare: fields by name, then entries of lists by their keys, then values."""
    mark, _, rest = step.partition(":")
    if mark == "f":
        return (0, rest)
    value = json.loads(rest)
    if mark == "k":
        return (1, [(name, *_value_rank(key)) for name, key in sorted(value.items())])
    return (2, *_value_rank(value))


def _value_rank(value: Any) -> tuple[int, Any]:
    """value.Compare: numbers before texts before booleans."""
    if isinstance(value, bool):
        return 2, value
    return (0, value) if isinstance(value, (int, float)) else (1, str(value))


def describe(path: Path) -> str:
    """fieldpath.Path.String: .spec.containers[name="main"].image"""
    text = ""
    for step in path:
        mark, _, rest = step.partition(":")
        if mark == "f":
            text += f".{rest}"
        elif mark == "k":
            text += "[" + ",".join(f"{k}={_json(v)}" for k, v in json.loads(rest).items()) + "]"
        else:
            text += f"[={rest}]"
    return text


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
