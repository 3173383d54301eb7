# SPDX-License-Identifier: BSD-2-Clause
"""Plan and apply a change of pools under their Lease, and plan again after a conflict with another run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Protocol, TypeVar

from ..kube.errors import ApiError, ConcurrentChange
from ..task import TaskFailed
from ..wait.polling import backoff
from .lease import AbandonedLease, Fence, PoolLease, Versions

_ATTEMPTS = 20  # Each conflict means that another run was done, so that many can be busy at once.
_DELAYS = (0.1, 1.3, 2.0)


class GuardedPlan(Protocol):
    """``decisions`` are equal in two plans that write the same, whatever the versions of the objects read, which
    ``planned_on`` has."""

    @property
    def changed(self) -> bool: ...

    @property
    def decisions(self) -> object: ...

    @property
    def planned_on(self) -> Versions: ...


P = TypeVar("P", bound=GuardedPlan)
R = TypeVar("R")


def apply_under_lease(
    lease: PoolLease,
    make_plan: Callable[[], P],
    apply: Callable[[P, Fence], R],
    *,
    create_lease: bool,
    warn: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> R:
    """Return what ``apply`` returns for the plan and the fence that its writes have to pass.

    After a conflict, plans again: a plan with the same decisions is applied, because the other run changed other pools.
    Without a Lease (no pool was ever declared) the plan is applied unguarded, unless ``create_lease``. Raises
    TaskFailed if the plan is another one after a conflict or if conflicts do not end, and LeaseTimeout; then nothing
    was changed.
    """
    previous: P | None = None  # the plan before another run may have changed pools
    conflict: ConcurrentChange | None = None
    for delay in islice(backoff(*_DELAYS), _ATTEMPTS):
        has_lease = lease.observe()
        try:
            plan = make_plan()
        except TaskFailed as failure:
            if previous is None:
                raise
            raise TaskFailed(f"{conflict or lease.last_change()}.\n{failure}", **failure.result) from failure
        if plan.changed and previous is not None and plan.decisions != previous.decisions:
            raise TaskFailed(f"{conflict or lease.last_change()}. Nothing was changed. Run the task again.")
        if not plan.changed or not (has_lease or create_lease):
            return apply(plan, Fence())
        previous = plan
        try:
            if has_lease:
                with lease.held(plan.planned_on):
                    return apply(plan, lease)
            lease.create()
        except ConcurrentChange as problem:
            conflict = problem
            sleep(delay)
        except AbandonedLease as problem:
            previous = None
            warn(f"{problem}, so its changes may be incomplete. This run released the Lease and took over.")
    raise TaskFailed(
        f"{conflict or lease.last_change()}. The Lease for pools could not be acquired in {_ATTEMPTS} attempts. "
        f"Nothing was changed. Run the task again."
    )


@contextmanager
def permission_hint() -> Iterator[None]:
    """Say which permissions a change of pools requires, when one of them is missing."""
    try:
        yield
    except ApiError as error:
        if not error.is_forbidden:
            raise
        raise TaskFailed(
            f"{error}. Changing pools requires permission to list, get and patch nodes, and to get, list, create, "
            f"patch and delete configmaps and leases in the namespace gpuctl-system."
        ) from None
