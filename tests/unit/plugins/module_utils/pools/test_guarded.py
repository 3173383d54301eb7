# SPDX-License-Identifier: BSD-2-Clause
"""When a plan is applied under the Lease, made again, or given up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import (
    ApiError,
    ConcurrentChange,
    KubeError,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.guarded import apply_under_lease, permission_hint
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.lease import (
    AbandonedLease,
    Fence,
    PoolLease,
    Versions,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import TaskFailed


@dataclass(frozen=True)
class Plan:
    decisions: str

    @property
    def changed(self) -> bool:
        return self.decisions != "nothing"

    @property
    def planned_on(self) -> Versions:
        return {}


class ScriptedLease:
    """Each attempt to hold it fails with the next problem, until none is left."""

    def __init__(self, *problems: KubeError, exists: bool = True) -> None:
        self.problems = list(problems)
        self.exists = exists
        self.is_held = False

    def observe(self) -> bool:
        return self.exists

    def create(self) -> None:
        self.exists = True

    @contextmanager
    def held(self, planned_on: Versions) -> Iterator[None]:
        if self.problems:
            raise self.problems.pop(0)
        self.is_held = True
        yield

    def last_change(self) -> ConcurrentChange:
        return ConcurrentChange("run 7 was first")

    def check(self) -> None:
        assert self.is_held


CONFLICT = ConcurrentChange("run 5 was first")
ABANDONED = AbandonedLease("run 6 stopped renewing")


def apply(lease: ScriptedLease, *plans: str | TaskFailed, create_lease: bool = True) -> tuple[str, bool, list[str]]:
    """The plan that is applied, whether under the Lease, and the warnings; fails if a plan is left."""
    left, warnings = list(plans), list[str]()

    def make_plan() -> Plan:
        plan = left.pop(0)
        if isinstance(plan, TaskFailed):
            raise plan
        return Plan(plan)

    def write(plan: Plan, fence: Fence) -> str:
        fence.check()
        return plan.decisions

    applied = apply_under_lease(
        cast(PoolLease, lease),
        make_plan,
        write,
        create_lease=create_lease,
        warn=warnings.append,
        sleep=lambda seconds: None,
    )
    assert left == []
    return applied, lease.is_held, warnings


def test_a_plan_is_applied_under_the_lease() -> None:
    assert apply(ScriptedLease(), "a") == ("a", True, [])


def test_a_plan_without_changes_needs_no_lease() -> None:
    assert apply(ScriptedLease(CONFLICT), "nothing") == ("nothing", False, [])


def test_after_a_change_of_other_pools_the_same_plan_is_applied() -> None:
    assert apply(ScriptedLease(CONFLICT, CONFLICT), "a", "a", "a") == ("a", True, [])


def test_after_the_same_change_by_another_run_nothing_is_left_to_do() -> None:
    assert apply(ScriptedLease(CONFLICT), "a", "nothing") == ("nothing", False, [])


def test_another_plan_after_a_conflict_is_not_applied() -> None:
    with pytest.raises(TaskFailed, match=r"^run 5 was first. Nothing was changed. Run the task again.$"):
        apply(ScriptedLease(CONFLICT), "a", "b")


def test_blockers_after_a_conflict_name_the_other_run_and_keep_the_result() -> None:
    with pytest.raises(TaskFailed, match=r"^run 5 was first.\nnode n is in pool p.$") as raised:
        apply(ScriptedLease(CONFLICT), "a", TaskFailed("node n is in pool p.", results=["n"]))
    assert raised.value.result == {"results": ["n"]}


def test_conflicts_without_end_are_given_up() -> None:
    with pytest.raises(
        TaskFailed, match=r"^run 5 was first. The Lease for pools could not be acquired in 20 attempts."
    ):
        apply(ScriptedLease(*[CONFLICT] * 30), *["a"] * 20)


def test_a_missing_lease_is_created_and_the_plan_made_again() -> None:
    assert apply(ScriptedLease(exists=False), "a", "a") == ("a", True, [])


def test_a_change_while_the_lease_was_created_is_a_conflict() -> None:
    with pytest.raises(TaskFailed, match="run 7 was first"):
        apply(ScriptedLease(exists=False), "a", "b")


def test_without_a_lease_the_plan_can_be_applied_unguarded() -> None:
    assert apply(ScriptedLease(exists=False), "a", create_lease=False) == ("a", False, [])


def test_after_an_abandoned_lease_any_plan_is_applied_with_a_warning() -> None:
    applied, is_held, warnings = apply(ScriptedLease(ABANDONED), "a", "b")
    assert (applied, is_held) == ("b", True)
    assert len(warnings) == 1
    assert warnings[0].startswith("run 6 stopped renewing, so its changes may be incomplete.")


@pytest.mark.parametrize(("status", "error"), [(403, TaskFailed), (500, ApiError)])
def test_a_missing_permission_is_explained(status: int, error: type[Exception]) -> None:
    with pytest.raises(error) as raised, permission_hint():
        raise ApiError(
            "GET",
            "/api/v1/nodes",
            status,
            {"message": 'nodes is forbidden: User "jane" cannot list nodes', "reason": "Forbidden"},
        )
    assert ("requires permission to list, get and patch nodes" in str(raised.value)) is (status == 403)
