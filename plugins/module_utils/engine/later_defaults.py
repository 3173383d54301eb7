# SPDX-License-Identifier: BSD-2-Clause
"""Defaults that came with a later version of the collection: alone, they change nothing that is live. Pure.

A workload carries the version that built its pods, in an annotation; 1.0 wrote none. So a default that came later is
not confused with one that was removed from the live object, which is restored like any other field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..labels import BUILT_BY, FIELD_MANAGER
from .fields import changes, is_owned
from .paths import ABSENT, Path, value_at, with_value_at


class LaterDefault(NamedTuple):
    """What versions before applied at a path of a kind of workload: ``former``, or nothing.

    A field of a manifest that sets what is at the path must show elsewhere in the object too, or its change is missed:
    the path is that of the default alone, and not of a block around it.
    """

    kind: str
    path: Path
    former: Any = ABSENT

    @property
    def replaces_pods(self) -> bool:
        return self.path[0] == "spec"


LaterDefaults = Mapping[str, Sequence[LaterDefault]]
"""By the version (``1.1``) that they came with."""

_BUILT_BY = ("metadata", "annotations", BUILT_BY)


def marked(workload: Mapping[str, Any], defaults: LaterDefaults) -> dict[str, Any]:
    """The desired workload with the version that builds it."""
    return dict(with_value_at(workload, _BUILT_BY, max(defaults, key=_version_number)))


def as_formerly_built(
    desired: dict[str, Any], live: Mapping[str, Any], defaults: LaterDefaults, *, only_pods: bool = False
) -> dict[str, Any]:
    """The desired workload without the defaults that the live one was built before.

    ``only_pods``: the defaults that replace no pods are there.
    """
    built_by = value_at(live, _BUILT_BY)
    if built_by == value_at(desired, _BUILT_BY):
        return desired
    former: dict[str, Any] = with_value_at(desired, _BUILT_BY, built_by)
    for version in sorted(defaults, key=_version_number, reverse=True):
        if built_by is not ABSENT and _version_number(version) <= _version_number(built_by):
            break
        for default in defaults[version]:
            wanted = default.kind == desired["kind"] and (default.replaces_pods or not only_pods)
            if wanted and _was_built_before(live, default):
                former = with_value_at(former, default.path, default.former)
    return former


def _was_built_before(live: Mapping[str, Any], default: LaterDefault) -> bool:
    if default.former is ABSENT:
        return not is_owned(live, default.path, FIELD_MANAGER)
    name = str(default.path[-1])
    return not changes({name: default.former}, {name: value_at(live, default.path)}, FIELD_MANAGER)


def _version_number(version: str) -> tuple[int, ...]:
    """``1.10`` is more than ``1.9``, and what is no version less than any."""
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()
