# SPDX-License-Identifier: BSD-2-Clause
"""Defaults that came with a later version of the collection: alone, they replace no running pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..labels import FIELD_MANAGER
from .fields import ABSENT, Path, changes, is_owned, value_at, with_value_at


class LaterDefault(NamedTuple):
    """What former versions applied at a path of a kind of workload: ``former``, or nothing."""

    kind: str
    path: Path
    former: Any = ABSENT


def as_formerly_built(
    desired: dict[str, Any], live: Mapping[str, Any], defaults: Iterable[LaterDefault]
) -> dict[str, Any]:
    """The desired workload without the defaults that the live one was built before, unless its pods change anyway.

    A default that somebody has removed from the live workload looks the same, and stays removed as long.
    """
    former = desired
    for default in defaults:
        if default.kind == desired["kind"] and _was_built_before(live, default):
            former = with_value_at(former, default.path, default.former)
    found = changes(former, live, FIELD_MANAGER)
    return desired if any(change.path[:2] == ("spec", "template") for change in found) else former


def _was_built_before(live: Mapping[str, Any], default: LaterDefault) -> bool:
    if default.former is ABSENT:
        return not is_owned(live, default.path, FIELD_MANAGER)
    name = str(default.path[-1])
    return not changes({name: default.former}, {name: value_at(live, default.path)}, FIELD_MANAGER)
