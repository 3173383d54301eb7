# SPDX-License-Identifier: BSD-2-Clause
"""Merging, comparing and pruning typed values.

Source: structured-merge-diff typed/{merge,compare,remove}.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kubesim.apply.fieldset import FieldSet, Path, elements, is_atomic
from kubesim.schema import ListType, Type, child


def merge(live: Any, config: Any, kind: Type) -> Any:
    """Live with the configuration laid over it: maps and associative lists merge, everything else is replaced."""
    if is_atomic(kind) or live is None or not isinstance(config, (dict, list)):
        return config
    if isinstance(config, list):
        assert isinstance(kind, ListType)
        return _merge_lists(live, config, kind)
    merged = dict(live)
    for key, value in config.items():
        merged[key] = merge(live.get(key), value, child(kind, key))
    return merged


def _merge_lists(live: list[Any], config: list[Any], kind: ListType) -> list[Any]:
    """mergeListItems: entries of both in the configuration's order, those of live alone where they were."""
    ours, theirs = elements(config, kind), elements(live, kind)
    left, right = list(theirs), list(ours)
    shared = [key for key in right if key in theirs]
    out: list[Any] = []
    done: set[str] = set()
    i = j = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right):
            key = left[i]
            if key == right[j]:
                out.append(merge(theirs[key], ours[key], kind.item))
                done.add(key)
                i, j, shared = i + 1, j + 1, shared[1:]
                continue
            if key in ours and shared and shared[0] != key:  # shared, but its turn comes later
                i += 1
                continue
        if i < len(left):
            key = left[i]
            if key not in ours:
                out.append(theirs[key])
                i += 1
                continue
            if key in done:
                i += 1
        if j < len(right):
            key = right[j]
            out.append(merge(theirs.get(key), ours[key], kind.item))
            done.add(key)
            j += 1
            if shared and shared[0] == key:
                shared = shared[1:]
    return out


@dataclass
class Comparison:
    added: FieldSet = field(default_factory=set)
    modified: FieldSet = field(default_factory=set)
    removed: FieldSet = field(default_factory=set)


_ABSENT: Any = object()


def compare(old: Any, new: Any, kind: Type) -> Comparison:
    """What a change adds, modifies and removes: leaves, and the maps and entries that come or go with them."""
    found = Comparison()
    _compare(old, new, kind, (), found)
    return found


def _compare(old: Any, new: Any, kind: Type, path: Path, found: Comparison) -> None:
    if old is new:
        return
    both = [value for value in (old, new) if value is not _ABSENT and value is not None]
    containers = [value for value in both if isinstance(value, (dict, list))]
    leaf = is_atomic(kind) or not containers or not any(containers)
    if leaf:
        if old is _ABSENT:
            found.added.add(path)
        elif new is _ABSENT:
            found.removed.add(path)
        elif old != new:
            found.modified.add(path)
        return
    if isinstance(kind, ListType):
        before, after = elements(_list(old), kind), elements(_list(new), kind)
        for name in {**before, **after}:
            _compare(before.get(name, _ABSENT), after.get(name, _ABSENT), kind.item, (*path, name), found)
    else:
        before, after = _dict(old), _dict(new)
        for key in {**before, **after}:
            here = (*path, "f:" + key)
            _compare(before.get(key, _ABSENT), after.get(key, _ABSENT), child(kind, key), here, found)
    if old is _ABSENT:
        found.added.add(path)
    elif new is _ABSENT:
        found.removed.add(path)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def remove(value: Any, paths: FieldSet, kind: Type) -> Any:
    """The value without the fields at `paths`; None when nothing is left of it."""
    if not paths or is_atomic(kind) or not isinstance(value, (dict, list)):
        return value
    below: dict[str, FieldSet] = {}
    for path in paths:
        below.setdefault(path[0], set()).add(path[1:])
    if isinstance(value, list):
        assert isinstance(kind, ListType)
        kept = [
            remove(item, below.get(name, set()), kind.item)
            for name, item in elements(value, kind).items()
            if () not in below.get(name, ())
        ]
        return kept or None
    out = {}
    for key, item in value.items():
        inner = below.get("f:" + key, set())
        if () not in inner:
            out[key] = remove(item, inner, child(kind, key))
    return out or None
