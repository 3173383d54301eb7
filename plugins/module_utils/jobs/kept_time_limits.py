# SPDX-License-Identifier: BSD-2-Clause
"""The time limits of jobs that run: what of them a manifest changes, and what it must not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ..cluster.status import ENDED, is_terminating, status_of
from ..cluster.time_limits import ends_at, limit_text, noted_seconds, period_start
from ..engine.paths import ABSENT, value_at, with_value_at
from ..engine.plan import Action, Plan
from ..kube.times import time_as_text
from ..labels import EXTENDED_LIMIT, TIME_LIMIT, TIME_LIMIT_OF

_DEADLINE = ("spec", "activeDeadlineSeconds")
_LIMIT, _POOL, _EXTENDED = (("metadata", "annotations", name) for name in (TIME_LIMIT, TIME_LIMIT_OF, EXTENDED_LIMIT))


def keep_time_limit(
    objects: tuple[dict[str, Any], ...], live: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], ...]:
    """The objects of a training, the workload first, with the limit of the live one where only its pool has another,
    or where that was extended for longer.

    An administrator who gives a pool a limit must not stop what runs. A later run gets it. Those of other jobs are as
    they are: what extends them is no field of their manifests.
    """
    workload = objects[0]
    if workload["kind"] != "Job":
        return objects
    running = (job for job in live if job["kind"] == "Job" and not is_terminating(job))
    job = next((job for job in running if status_of(job) not in ENDED), None)
    if job is None:
        return objects
    kept: tuple[tuple[str, ...], ...] = ()
    if value_at(workload, _POOL) is not ABSENT:
        kept = (_DEADLINE, _LIMIT, _POOL, _EXTENDED)
    elif noted_seconds(job, EXTENDED_LIMIT) and _is_longer(value_at(job, _DEADLINE), value_at(workload, _DEADLINE)):
        kept = (_DEADLINE, _EXTENDED)
    for path in kept:
        workload = with_value_at(workload, path, value_at(job, path))
    return (workload, *objects[1:])


def _is_longer(deadline: Any, other: Any) -> bool:
    """Of two deadlines; none is the longest."""
    return deadline is not ABSENT and other is not ABSENT and bool(deadline > other)


def stopped_at_once(plan: Plan, now: datetime) -> str | None:
    """Why the limit of a plan must not be applied: the job has run for longer, and would be stopped at once.

    That of a pool may be: it ends no training that runs, and gpuctl_expire warns of the end of others first.
    """
    step = plan.steps[0] if plan.steps else None
    if step is None or step.action is not Action.UPDATE or value_at(step.desired, _POOL) is not ABSENT:
        return None
    after = step.live
    for path in (_DEADLINE,) if step.kind == "Job" else (_LIMIT, _POOL):
        after = with_value_at(after, path, value_at(step.desired, path))
    if all(value_at(step.live, path) == value_at(after, path) for path in (_DEADLINE, _LIMIT)):
        return None
    end = ends_at(after, now)
    if end is None or end > now:
        return None
    if step.kind == "Job":
        since, hint = step.live["status"]["startTime"], "To stop it, use O(state=absent)."
    else:
        since = time_as_text(period_start(step.live, now))
        hint = "To give it a new start, pause and resume it first."
    return (
        f"the {plan.kind} has run since {since}, and a limit of {limit_text(after)} would stop it at once. Use a "
        f"longer one. {hint}"
    )
