# SPDX-License-Identifier: BSD-2-Clause
"""Which reasons are final, as time passes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.declared import Declared
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pending_reason import PendingReason
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import ACCELERATORS_CONFIG_MAP
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait import feasibility
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.feasibility import GRACE, Feasibility

from ..cluster.live_objects import pod, with_container, workload

WEB = workload("Deployment")
CLAIM = PendingReason("PersistentVolumeClaim data not found", "Create it", needs_user=True)
NO_SHARES = PendingReason("no node has GPU shares", needs_user=True, needs_other_nodes=True)
PASSING = PendingReason("it needs 8 GPUs, but none is free")
ENDED = {"terminated": {"exitCode": 1, "reason": "Error"}}
CRASHED = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ENDED, "restartCount": 2}
RUNNING = {"state": {"running": {}}, "lastState": ENDED, "restartCount": 3}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Quotas:
    """A client of a cluster with one quota, and no events or policies."""

    def __init__(self, limit: str) -> None:
        self.limit = limit
        self.remembered = {ACCELERATORS_CONFIG_MAP: Declared()}

    def list_objects(self, resource: Any, namespace: str, **selectors: str) -> list[dict[str, Any]]:
        return (
            [{"spec": {"hard": {"cpu": self.limit}}, "status": {"used": {"cpu": "1"}}}]
            if "name" in str(selectors)
            else []
        )


@pytest.fixture
def clock() -> Clock:
    return Clock()


def of(
    checks: Feasibility, monkeypatch: pytest.MonkeyPatch, *reasons: PendingReason
) -> tuple[PendingReason | None, PendingReason | None]:
    """What is found for a job that these reasons keep from running."""
    monkeypatch.setattr(feasibility, "pending_reasons", lambda *unused: iter(reasons))
    return checks.of(WEB, [pod()], [], fresh=True)


def test_what_only_a_person_can_mend_is_final_after_a_grace(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = Feasibility(Quotas("1"), new_nodes=False, clock=clock)  # type: ignore[arg-type]
    assert checks.next_end_of_grace() == math.inf
    assert of(checks, monkeypatch, PASSING, CLAIM) == (None, PASSING)
    assert checks.next_end_of_grace() == GRACE
    clock.now += GRACE - 1
    assert of(checks, monkeypatch, PASSING, CLAIM) == (None, PASSING)
    assert checks.next_end_of_grace() == 1
    clock.now += 1
    assert of(checks, monkeypatch, PASSING, CLAIM) == (CLAIM, PASSING)
    assert checks.next_end_of_grace() == math.inf, "it is over, and needs no further check"


def test_the_grace_begins_again_after_it_was_mended(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = Feasibility(Quotas("1"), new_nodes=False, clock=clock)  # type: ignore[arg-type]
    of(checks, monkeypatch, CLAIM)
    clock.now += GRACE - 1
    of(checks, monkeypatch, PASSING)
    clock.now += 2
    assert of(checks, monkeypatch, CLAIM) == (None, CLAIM)


@pytest.mark.parametrize("new_nodes", [False, True])
def test_other_nodes_may_be_on_their_way(clock: Clock, monkeypatch: pytest.MonkeyPatch, *, new_nodes: bool) -> None:
    checks = Feasibility(Quotas("1"), new_nodes=new_nodes, clock=clock)  # type: ignore[arg-type]
    of(checks, monkeypatch, NO_SHARES)
    clock.now += GRACE
    assert of(checks, monkeypatch, NO_SHARES) == (None if new_nodes else NO_SHARES, NO_SHARES)


def test_a_quota_is_read_again_when_answers_are_forgotten(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    quotas = Quotas("2")
    checks = Feasibility(quotas, new_nodes=False, clock=clock)  # type: ignore[arg-type]
    refused = PendingReason(
        "refused", final=True, refusal="exceeded quota: q, requested: cpu=2, used: cpu=1, limited: cpu=2"
    )
    assert of(checks, monkeypatch, refused) == (refused, refused)
    quotas.limit = "4"
    assert of(checks, monkeypatch, refused) == (refused, refused)
    checks.forget_answers()
    assert of(checks, monkeypatch, refused) == (None, refused)


def seen(checks: Feasibility, name: str, container: dict[str, Any], *, ready: str = "False") -> str | None:
    status = {**with_container("Running", **container), "conditions": [{"type": "Ready", "status": ready}]}
    final, _blocker = checks.of(WEB, [pod(name, nodeName="n1", status=status)], [], fresh=True)
    return final.text if final else None


def test_a_crash_loop_is_not_forgotten_while_its_container_runs_once_more(clock: Clock) -> None:
    checks = Feasibility(Quotas("1"), new_nodes=False, clock=clock)  # type: ignore[arg-type]
    assert seen(checks, "x-1", RUNNING) is None, "it was not in a crash loop when it was looked at"
    crash_loop = seen(checks, "x-1", CRASHED)
    assert crash_loop is not None
    assert seen(checks, "x-1", RUNNING) == crash_loop
    assert seen(checks, "x-1", RUNNING, ready="True") is None
    assert seen(checks, "x-2", RUNNING) is None, "another pod has taken its place"


@pytest.mark.parametrize("raised", [False, True])
def test_a_policy_that_forbids_further_pods_is_read_again_before_it_is_final(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, raised: bool
) -> None:
    said, reads = "policy company: 4 GPUs in a job, more than team ml may use. Use at most 2", []

    def read_forbidden(_client: Any, workloads: Any, _pods: Any, *, again: bool = False) -> dict[str, str]:
        reads.append(again)
        return {} if again and raised else dict.fromkeys(workloads, said)

    monkeypatch.setattr(feasibility, "read_forbidden", read_forbidden)
    checks = Feasibility(Quotas("1"), new_nodes=False, clock=clock)  # type: ignore[arg-type]
    scaled = workload("Deployment", replicas=4)
    found = [checks.of(scaled, [], [], fresh=False)]
    clock.now += GRACE
    found.append(checks.of(scaled, [], [], fresh=False))
    texts = [[reason and reason.text for reason in each] for each in found]
    sentence = None if raised else f"no further pods can be created: {said}"
    assert texts == [[None, sentence], [sentence, sentence]]
    assert reads == [False, True, False, True]
