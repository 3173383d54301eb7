# SPDX-License-Identifier: BSD-2-Clause
"""Label selectors, by Kubernetes' own rule. Pure.

The rule is that of apimachinery's metav1.LabelSelectorAsSelector: nothing selects nothing, an empty one selects all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector selects an object with these labels."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(expression_holds(each, labels) for each in selector.get("matchExpressions") or ())


def expression_holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """``labels.Requirement.Matches``; Gt and Lt are only valid for nodes."""
    value, operator = labels.get(expression["key"]), expression["operator"]
    values: list[str] = expression.get("values") or []
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) is (operator == "Exists")
    if operator in ("Gt", "Lt"):
        try:
            found, bound = int(value or ""), int(values[0])
        except (ValueError, IndexError):
            return False
        return found > bound if operator == "Gt" else found < bound
    return (value in values) is (operator == "In")
