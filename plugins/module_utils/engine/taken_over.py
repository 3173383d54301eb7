# SPDX-License-Identifier: BSD-2-Clause
"""Fields that are one value to the server and that others have taken over, by changing a part of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..labels import KUEUE_QUEUE
from .paths import Path, is_tree, key_of_entry

# In atomic maps and lists, by the server: fieldRef, resourceFieldRef; what admission policies match
_FILLED_IN = {"apiVersion": "v1", "divisor": "0", "scope": "*", "matchPolicy": "Equivalent"}


def fields_taken_over(live: Mapping[str, Any], manager: str, owned: Mapping[str, Any]) -> frozenset[Path]:
    """The fields that others hold as one value, and ``manager`` does not, which holds the tree ``owned``."""
    metadata = live["metadata"]
    if live.get("kind") == "Job" and KUEUE_QUEUE in (metadata.get("labels") or {}):
        return frozenset()  # Kueue adds node labels and tolerations of flavors to Jobs that it starts.
    whole: set[Path] = set()
    in_parts: set[Path] = set()
    for entry in metadata.get("managedFields") or ():
        is_ours = (entry.get("manager"), entry.get("operation")) == (manager, "Apply")
        if not entry.get("subresource") and not is_ours:
            _add_paths(entry.get("fieldsV1"), (), whole, in_parts)
    _add_paths(owned, (), in_parts, in_parts)
    return frozenset(whole - in_parts)


def _add_paths(fields: Any, path: Path, whole: set[Path], in_parts: set[Path]) -> None:
    """Add the leaves of a ``fieldsV1`` tree to ``whole``, and what is above them to ``in_parts``."""
    for step, below in fields.items() if is_tree(fields) else ():
        if step.startswith(("f:", "k:")):
            name = step[2:] if step.startswith("f:") else tuple(key_of_entry(step).items())
            (in_parts if below else whole).add((*path, name))
            _add_paths(below, (*path, name), whole, in_parts)


def has_more(live: Any, desired: Any) -> bool:
    """Whether a live value has keys that the desired one lacks, except those that the server fills in."""
    if isinstance(live, dict) and isinstance(desired, dict):
        return any(
            has_more(value, desired[key])
            if key in desired
            else value not in (None, "", [], {}) and _FILLED_IN.get(key) != value
            for key, value in live.items()
        )
    if isinstance(live, list) and isinstance(desired, list):
        return any(has_more(*pair) for pair in zip(live, desired, strict=False))
    return False
