# SPDX-License-Identifier: BSD-2-Clause
"""Paths into objects, whose steps are fields or keys of entries in lists, and changes at them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

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

KEY_DEFAULTS = {"protocol": "TCP"}  # a key that the server fills in before it merges


def identity_of(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The object without anything but its kind, name and namespace."""
    metadata = {name: obj["metadata"][name] for name in ("name", "namespace") if name in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


def value_at(obj: Any, path: Path) -> Any:
    """The value at a path, or ABSENT."""
    for step in path:
        if isinstance(step, tuple):
            obj = list_entry(obj, dict(step))
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
    entries = [below if has_keys(item, dict(step)) else item for item in items]
    if not any(has_keys(item, dict(step)) for item in items):
        entries.append(below)
    return [entry for entry in entries if entry is not ABSENT]


def name_of_step(fields: Mapping[str, Any], step: str | Key) -> str:
    """What a ``fieldsV1`` tree calls a step of a path; "" for an entry of a list that it does not have."""
    if isinstance(step, str):
        return f"f:{step}"
    return next((name for name in fields if name.startswith("k:") and key_of_entry(name) == dict(step)), "")


@lru_cache(maxsize=1024)
def key_of_entry(step: str) -> Mapping[str, Any]:
    """The key of a list's entry in a ``fieldsV1`` tree. Cached, as every job has ``k:{"name":"main"}``."""
    key: dict[str, Any] = json.loads(step[2:])
    return key


def is_tree(fields: Any) -> bool:
    """Whether it is a ``fieldsV1`` tree."""
    trees = [fields]  # Recursion would take half of the time in which hundreds of objects are compared.
    try:
        while trees:
            for step, below in trees.pop().items():
                if below or not isinstance(below, dict):
                    trees.append(below)
                if step[:2] == "k:" and not isinstance(key_of_entry(step), dict):
                    return False
    except (AttributeError, ValueError):
        return False
    return True


def list_entry(value: Any, wanted: Mapping[str, Any]) -> Any:
    return next((item for item in value if has_keys(item, wanted)), ABSENT) if isinstance(value, list) else ABSENT


def has_keys(item: Any, keys: Mapping[str, Any]) -> bool:
    return isinstance(item, dict) and all(
        item.get(name, KEY_DEFAULTS.get(name)) == expected for name, expected in keys.items()
    )
