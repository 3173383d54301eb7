# SPDX-License-Identifier: BSD-2-Clause
"""What looks further than a task of jobs has to, handed in by the module: predictions.

A task without advisers does the same work. One that fails is a warning: the jobs matter more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..cluster.read_jobs import JobId
from ..engine.dry_run import Blocker
from ..engine.plan import Plan
from ..kube.errors import KubeError
from ..task import Task

if TYPE_CHECKING:
    from .job_options import JobOptions
    from .select import SelectedJob

T = TypeVar("T")
Fits = Mapping[JobId, Mapping[str, Any]]


@dataclass(frozen=True)
class Advised:
    """The task that an adviser looks at. ``builds_objects``: its jobs come from manifests as a whole."""

    task: Task[JobOptions]
    jobs: Sequence[SelectedJob]
    builds_objects: bool


class Adviser:
    """One adviser of one task. ``unknown`` is what its failure leaves open, as the beginning of a sentence."""

    unknown = "what predictions say of the jobs is not known"

    def before(self, plans: Sequence[Plan]) -> list[Blocker]:
        """Look at plans before they are applied; called again for those that are planned again. What blocks some."""
        return []

    def fits(self) -> Fits:
        """For the field ``fit`` of each result, once all is applied."""
        return {}


MakeAdviser = Callable[[Advised], Adviser]


class Advisers:
    """All of a task. They are made once there is something for them to look at: not for unchanged jobs."""

    def __init__(self, advised: Advised) -> None:
        self._advised = advised

    def before(self, plans: Sequence[Plan]) -> list[Blocker]:
        found: list[Blocker] = []
        if any(plan.changed for plan in plans):
            self._ask_advisers(lambda adviser: found.extend(adviser.before(plans)))
        return found

    def fits(self, plans: Iterable[Plan]) -> Fits:
        """``plans``: what was applied."""
        found: dict[JobId, Mapping[str, Any]] = {}
        if any(plan.changed for plan in plans):
            self._ask_advisers(lambda adviser: found.update(adviser.fits()))
        return found

    def _ask_advisers(self, ask: Callable[[Adviser], None]) -> None:
        for adviser in self._all_advisers:
            without_failing(self._advised.task, adviser.unknown, partial(ask, adviser), None)

    @cached_property
    def _all_advisers(self) -> list[Adviser]:
        advised = self._advised
        none: list[Adviser] = []
        return without_failing(
            advised.task, Adviser.unknown, lambda: [make(advised) for make in advised.task.advisers], none
        )


def without_failing(task: Task[Any], unknown: str, advise: Callable[[], T], otherwise: T) -> T:
    """What ``advise`` returns; if it fails, that is a warning."""
    try:
        return advise()
    except KubeError as error:
        task.warn(f"{unknown}: {error}")
    except Exception as bug:  # Its text may quote a secret.
        task.warn(f"{unknown}. This is a bug; please report it: {type(bug).__name__}")
    return otherwise
