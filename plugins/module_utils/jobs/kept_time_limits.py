# SPDX-License-Identifier: BSD-2-Clause
"""The time limits of trainings that run: what of them a manifest changes, and what it must not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ..cluster.status import ENDED, is_terminating, status_of
from ..cluster.time_limits import ends_at, limit_text
from ..engine.paths import ABSENT, value_at, with_value_at
from ..engine.plan import Action, Plan
from ..labels import TIME_LIMIT, TIME_LIMIT_OF

_DEADLINE = ("spec", "activeDeadlineSeconds")
_LIMIT, _POOL = (("metadata", "annotations", name) for name in (TIME_LIMIT, TIME_LIMIT_OF))


def keep_time_limit(
    objects: tuple[dict[str, Any], ...], live: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], ...]:
    """The objects of a training, the workload first, with the limit of the live one where only its pool has another.

    An administrator who gives a pool a limit must not stop what runs. A later run gets it.
    """
    workload = objects[0]
    if workload["kind"] != "Job" or value_at(workload, _POOL) is ABSENT:
        return objects
    running = (job for job in live if job["kind"] == "Job" and not is_terminating(job))
    job = next((job for job in running if status_of(job) not in ENDED), None)
    if job is None:
        return objects
    for path in (_DEADLINE, _LIMIT, _POOL):
        workload = with_value_at(workload, path, value_at(job, path))
    return (workload, *objects[1:])


def stopped_at_once(plan: Plan, now: datetime) -> str | None:
    """Why the limit of a plan must not be applied: the training has run for longer, and would be stopped at once."""
    step = plan.steps[0] if plan.steps else None
    if step is None or step.action is not Action.UPDATE or all(each.path != _DEADLINE for each in step.changes):
        return None
    after = with_value_at(step.live, _DEADLINE, value_at(step.desired, _DEADLINE))
    end = ends_at(after)
    if end is None or end > now:
        return None
    return (
        f"the training has run since {step.live['status']['startTime']}, and a limit of "
        f"{limit_text(after)} would stop it at once. Use a longer one. To stop it, use O(state=absent)."
    )
