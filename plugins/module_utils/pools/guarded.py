# SPDX-License-Identifier: BSD-2-Clause
"""Plan and apply a change of pools under their Lease, and plan again after a conflict with another run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from ..kube.errors import ApiError, ConcurrentChange
from ..task import TaskFailed
from .lease import AbandonedLease, PoolLease


class GuardedPlan(Protocol):
    """``decisions`` are equal in two plans that write the same, whatever the versions of the objects read."""

    @property
    def changed(self) -> bool: ...

    @property
    def decisions(self) -> object: ...


P = TypeVar("P", bound=GuardedPlan)
R = TypeVar("R")


def apply_under_lease(
    lease: PoolLease,
    make_plan: Callable[[], P],
    apply: Callable[[P, Callable[[], None]], R],
    *,
    create_lease: bool,
    warn: Callable[[str], None],
) -> R:
    """Return what ``apply`` returns for the plan and a check to call before each write.

    After a conflict, plans again: a plan with the same decisions is applied, because the other run changed other pools.
    Without a Lease (no pool was ever declared) the plan is applied unguarded, unless ``create_lease``. Raises
    TaskFailed if the plan is another one after a conflict, and LeaseTimeout; then nothing was changed.
    """
    previous: P | None = None  # the plan before another run may have changed pools
    conflict: ConcurrentChange | None = None
    while True:
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
            return apply(plan, lambda: None)
        previous = plan
        try:
            if has_lease:
                with lease.held():
                    return apply(plan, lease.check)
            lease.create()
        except ConcurrentChange as problem:
            conflict = problem
        except AbandonedLease as problem:
            previous = None
            warn(f"{problem}, so its changes may be incomplete. This run released the Lease and took over.")


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
