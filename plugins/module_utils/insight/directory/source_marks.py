# SPDX-License-Identifier: BSD-2-Clause
"""What a plan does only to record the source of objects that former versions have written. Pure."""

from __future__ import annotations

from ...declared_source import PATH
from ...engine.paths import ABSENT, Change
from ...engine.plan import Action, Plan, Step
from ...manifest.problems import number_of


def only_marks(plan: Plan) -> bool:
    """Whether a plan does nothing but record a source on objects that had none."""
    changed = [step for step in (*plan.prerequisites, *plan.steps) if step.action is not Action.UNCHANGED]
    return bool(changed) and all(map(_only_marks, changed))


def _only_marks(step: Step) -> bool:
    return step.action is Action.UPDATE and len(step.changes) == 1 and is_mark(step.changes[0])


def is_mark(change: Change) -> bool:
    """Whether a change records a source where there was none."""
    return change.path == PATH and change.before is ABSENT and change.after is not ABSENT


def unmarked_text(number: int) -> str:
    """What is said of the manifests whose objects do not record their source yet."""
    them, do = ("them", "do") if number > 1 else ("it", "does")
    of = number_of(number, "manifest")
    return f" {of} {do} not record a source yet: applying {them} adds that, and restarts nothing." if number else ""
