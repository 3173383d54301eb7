# SPDX-License-Identifier: BSD-2-Clause
"""Whether an update changes anything. Pure.

It does not where the server drops a field for a feature gate, or a mutating webhook sets its own value again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .plan import Action, Plan, Step

_NOT_ASKED = ("apiVersion", "kind", "metadata", "status")
_METADATA = ("uid", "labels", "annotations", "ownerReferences")


def plan_after(plan: Plan, step: Step, answer: Mapping[str, Any] | None) -> Plan:
    """The plan after one of its steps, by what the server answered to it or to its dry run."""
    done = step_after(step, answer)
    return plan if done is step else plan.with_steps(done if each is step else each for each in plan.steps)


def step_after(step: Step, answer: Mapping[str, Any] | None) -> Step:
    unchanged = bool(answer) and _requested_fields(answer or {}) == _requested_fields(step.live)
    return replace(step, action=Action.UNCHANGED, changes=()) if unchanged else step


def _requested_fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: obj["metadata"].get(name) or {} for name in _METADATA}
    return {**{name: part for name, part in obj.items() if name not in _NOT_ASKED}, "metadata": metadata}
