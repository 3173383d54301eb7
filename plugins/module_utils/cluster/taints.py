# SPDX-License-Identifier: BSD-2-Clause
"""Which taints keep a pod off a node, by Kubernetes' own rule. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .nodes import Taint

# PreferNoSchedule only lowers the score of a node.
_KEEP_OFF = ("NoSchedule", "NoExecute")


def untolerated_taints(taints: Iterable[Taint], tolerations: Iterable[Mapping[str, Any]]) -> Iterator[Taint]:
    """Those that no toleration accepts, and that keep new pods off."""
    tolerations = list(tolerations)
    for taint in taints:
        if taint.effect in _KEEP_OFF and not any(is_tolerated(taint, one) for one in tolerations):
            yield taint


def is_tolerated(taint: Taint, toleration: Mapping[str, Any]) -> bool:
    """``Toleration.ToleratesTaint`` (api/core/v1/toleration.go)."""
    if toleration.get("effect") and toleration["effect"] != taint.effect:
        return False
    if toleration.get("key") and toleration["key"] != taint.key:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator in ("Exists", "Equal"):
        return operator == "Exists" or (toleration.get("value") or "") == taint.value
    return _compares(operator, taint.value, toleration.get("value") or "")


def _compares(operator: str, found: str, bound: str) -> bool:
    """A taint whose value is below, or above, that of the toleration (since 1.35, where it is switched on)."""
    try:
        return int(found) < int(bound) if operator == "Lt" else operator == "Gt" and int(found) > int(bound)
    except ValueError:
        return False
