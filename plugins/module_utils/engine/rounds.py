# SPDX-License-Identifier: BSD-2-Clause
"""Plan, apply, and plan again to see whether another run has written at the same time.

A quota or the access of an account is several objects, and Kubernetes has no transactions: two concurrent runs could
each write some of them, and versions do not help where they write different ones. So each run looks again after its own
writes. Whichever writes last sees what all have written: if it succeeds, the result is its own, and not a mixture.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from ..kube.errors import ConcurrentChange, KubeError
from ..wait.polling import backoff
from .apply import ApplyResult
from .plan import Action, Step

P = TypeVar("P")

_ROUNDS = 4
_DELAYS = (0.2, 2.0)


def apply_in_rounds(
    plan: P,
    apply: Callable[[P], None],
    plan_again: Callable[[], P | None],
    *,
    subject: str,
    warn: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Apply the plan, and then what ``plan_again`` returns until it is None. ``subject`` is what messages name.

    ``apply`` may raise ConcurrentChange; so does this if other runs do not cease to write.
    """
    conflict: ConcurrentChange | None = None
    for delay in islice(backoff(*_DELAYS), _ROUNDS):
        last_conflict = conflict
        try:
            conflict = None
            apply(plan)
        except ConcurrentChange as problem:
            conflict = problem
            sleep(delay * random.uniform(0.5, 1.0))  # so that two runs do not meet again
        try:
            again = plan_again()
        except KubeError as error:
            if conflict:
                raise
            warn(f"it is not known whether another run changed {subject} at the same time: {error}")
            return
        if again is None:
            return
        if not conflict and not last_conflict:
            warn(f"another run or person changed {subject} at the same time; this run changes it back")
        plan = again
    raise conflict or ConcurrentChange(f"another run changes {subject} at the same time. Run the task again.")


def merged(results: Iterable[ApplyResult]) -> ApplyResult:
    """All that was done for one plan in several rounds."""
    first, *later = results
    for result in later:
        plan = replace(
            first.plan,
            prerequisites=(*first.plan.prerequisites, *_changing_steps(result.plan.prerequisites)),
            steps=(*first.plan.steps, *_changing_steps(result.plan.steps)),
        )
        objects = {**first.objects, **result.objects}
        first = replace(result, plan=plan, objects=objects, seconds=first.seconds + result.seconds)
    return first


def _changing_steps(steps: Iterable[Step]) -> tuple[Step, ...]:
    return tuple(step for step in steps if step.action is not Action.UNCHANGED)
