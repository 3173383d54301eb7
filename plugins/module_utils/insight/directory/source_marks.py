# SPDX-License-Identifier: BSD-2-Clause
"""What a plan does only to record the source of objects that former versions have written. Pure."""

from __future__ import annotations

from ...declared_source import PATH
from ...engine.paths import ABSENT, Change
from ...engine.plan import Action, Plan
from ...manifest.problems import number_of


def only_annotates(plan: Plan) -> bool:
    """Whether a plan does nothing but record a source on objects that had none."""
    actions = {step.action for step in (*plan.prerequisites, *plan.steps)} - {Action.UNCHANGED}
    return actions == {Action.ANNOTATE}


def is_mark(change: Change) -> bool:
    """Whether a change records a source where there was none."""
    return change.path == PATH and change.before is ABSENT


def unmarked_text(number: int) -> str:
    """The sentence about the manifests whose objects do not record their source yet, empty if there are none."""
    records = "records" if number == 1 else "record"
    return f"{number_of(number, 'manifest')} {records} no source yet." if number else ""
