# SPDX-License-Identifier: BSD-2-Clause
"""Which nodes a pod selects, and what of its required node affinity a node lacks, by Kubernetes' own rule. Pure.

The rule is that of component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .label_selectors import expression_holds

Expression = Mapping[str, Any]


def selects_node(spec: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """Whether the node selector of a pod and its required node affinity admit a node."""
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = _required_terms(spec)
    return required is None or any(term_admits(term, name, labels) for term in required)


def term_admits(term: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """A node selector term; an empty one admits no node."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(expression_holds(each, labels) for each in expressions) and all(
        expression_holds(each, {"metadata.name": name}) for each in fields
    )


def unmet_expressions(spec: Mapping[str, Any], labels: Mapping[str, str]) -> list[Expression]:
    """The expressions that a node with these labels does not match; empty if it matches one of the terms.

    Of several terms, those of the one of which it lacks least. Fields of nodes, such as their names, are not judged.
    """
    unmet = [
        [each for each in term.get("matchExpressions") or () if not expression_holds(each, labels)]
        for term in _required_terms(spec) or ()
    ]
    return min(unmet, key=len, default=[])


def _required_terms(spec: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or []
