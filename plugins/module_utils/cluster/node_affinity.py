# SPDX-License-Identifier: BSD-2-Clause
"""What the required node affinity of a pod asks for and a node lacks, by Kubernetes' own rule. Pure.

The rule is that of component-helpers/scheduling/corev1/nodeaffinity and apimachinery's labels.Requirement.Matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Expression = Mapping[str, Any]


def unmet_expressions(spec: Mapping[str, Any], labels: Mapping[str, str]) -> list[Expression]:
    """The expressions that a node with these labels does not match; empty if it matches one of the terms.

    Of several terms, those of the one of which it lacks least. Fields of nodes, such as their names, are not judged.
    """
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    unmet = [[each for each in term.get("matchExpressions") or () if not _matches(each, labels)] for term in terms]
    return min(unmet, key=len, default=[])


def _matches(expression: Expression, labels: Mapping[str, str]) -> bool:
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
