# SPDX-License-Identifier: BSD-2-Clause
"""What a plan does to the pods of a job."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.paths import Change
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Plan, Step
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.directory.directory_plan import PlannedManifest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.plan.plan_capacity import (
    below_use,
    pool_rows_of,
    quota_rows_of,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.plan.plan_effects import PlanEffect, plan_effect

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc).timestamp()
TEN = "2026-01-01T10:00:00Z"
GPU = "nvidia.com/gpu"


def workload(kind: str, number: int, gpus: int = 2, **status: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}}}
    size = {"parallelism": number} if kind == "Job" else {"replicas": number}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "j", "namespace": "a", "uid": "w", "creationTimestamp": TEN},
        "spec": {**size, "template": {"spec": {"containers": [container]}}},
        "status": status,
    }


def pods(number: int, gpus: int = 2, phase: str = "Running", node: str | None = "node-1") -> list[dict[str, Any]]:
    container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}}}
    return [
        {
            "metadata": {"name": f"j-{each}", "namespace": "a", "uid": f"p{each}", "creationTimestamp": TEN},
            "spec": {"containers": [container], **({"nodeName": node} if node else {})},
            "status": {"phase": phase, "startTime": TEN},
        }
        for each in range(number)
    ]


TEMPLATE = Change(("spec", "template", "spec", "containers", (("name", "main"),), "image"), "a", "b")
REPLICAS = Change(("spec", "replicas"), 1, 2)
FITS = {"verdict": "now", "nodes": [{"node": "node-2", "pods": 1}]}
LACKS = {
    "verdict": "after_quota",
    "nodes": [],
    "quotas": [{"requested": "2", "used": "8", "hard": "8"}],
    "pods_wanted": 1,
}
HAS_SOME = {
    "verdict": "after_quota", "nodes": [{"node": "node-2", "pods": 3}], "pods_wanted": 4,
    "quotas": [{"requested": "8", "used": "3", "hard": "9"}],
}  # fmt: skip
NO_ROOM = {"verdict": "after_jobs", "nodes": []}
STUCK = {**NO_ROOM, "rollout": {"old": 2, "old_waiting": 0, "new_waiting": 1}}

Case = tuple[str, str, Action, int, int, tuple[Change, ...], Any, dict[str, Any]]
# kind, workload, action, pods that there are, pods wanted, changes, fit -> what is expected
CASES: dict[str, Case] = {
    "a new one that fits": (
        "training", "Job", Action.CREATE, 0, 1, (), FITS,
        {"pods_after": 1, "gpus_after": 2, "placed": {"node-2": 2}, "hours_lost": 0.0},
    ),
    "a new one that waits for others": (
        "training", "Job", Action.CREATE, 0, 1, (), NO_ROOM,
        {"pods_after": 1, "gpus_after": 0, "gpus_wanted": 2, "gpus_counted": 2, "placed": {}},
    ),
    "a new one that its quota refuses": (
        "training", "Job", Action.CREATE, 0, 1, (), LACKS,
        {"pods_after": 0, "gpus_after": 0, "gpus_wanted": 2, "gpus_counted": 0},
    ),
    "a training that is recreated": (
        "training", "Job", Action.RECREATE, 1, 1, (TEMPLATE,), FITS,
        {"ending": frozenset({"p0"}), "hours_lost": 2.0, "gpu_hours_lost": 4.0, "restarts": True},
    ),
    "a service that is rolled": (
        "compute", "Deployment", Action.UPDATE, 2, 2, (TEMPLATE,), FITS,
        {"ending": frozenset({"p0", "p1"}), "hours_lost": 0.0, "restarts": True, "gpus_before": 4},
    ),
    "a service whose new pods find no node": (
        "compute", "Deployment", Action.UPDATE, 2, 2, (TEMPLATE,), STUCK,
        {"ending": frozenset(), "pods_after": 3, "gpus_after": 4, "restarts": False},
    ),
    "a service that gets more new pods than find nodes": (
        "compute", "Deployment", Action.UPDATE, 2, 4, (TEMPLATE, REPLICAS),
        {"verdict": "after_jobs", "nodes": [{"node": "node-2", "pods": 2}],
         "rollout": {"old": 1, "old_waiting": 0, "new_waiting": 1}},
        {"ending": frozenset({"p0"}), "pods_after": 4, "gpus_after": 6, "restarts": True},
    ),
    "a notebook that is rolled": (
        "notebook", "StatefulSet", Action.UPDATE, 1, 1, (TEMPLATE,), FITS,
        {"ending": frozenset({"p0"}), "hours_lost": 2.0, "restarts": True},
    ),
    "a service that gets more": (
        "compute", "Deployment", Action.UPDATE, 1, 2, (REPLICAS,), FITS,
        {"ending": frozenset(), "pods_after": 2, "gpus_after": 4, "placed": {}, "unplaced": 2, "restarts": False},
    ),
    "a service that gets more than its quota has": (
        "compute", "Deployment", Action.UPDATE, 1, 4, (REPLICAS,), HAS_SOME,
        {"pods_after": 3, "gpus_after": 6, "gpus_wanted": 8, "gpus_counted": 6, "restarts": False},
    ),
    "a service that gets less": (
        "compute", "Deployment", Action.UPDATE, 2, 1, (REPLICAS,), None,
        {"pods_after": 1, "gpus_after": 2, "gpus_before": 4, "restarts": False},
    ),
    "one that is deleted": (
        "training", "Job", Action.DELETE, 1, 1, (), None,
        {"pods_after": 0, "gpus_after": 0, "hours_lost": 2.0, "restarts": False},
    ),
    "one that stays": (
        "training", "Job", Action.UNCHANGED, 1, 1, (), None,
        {"pods_after": 1, "gpus_after": 2, "ending": frozenset()},
    ),
}  # fmt: skip


def effect(kind: str, of: str, action: Action, present: int, wanted: int, changes: Any, fit: Any) -> PlanEffect:
    live = workload(of, present) if present else {}
    desired = {} if action is Action.DELETE else workload(of, wanted)
    plan = Plan("j", "a", kind, (Step(action, desired, live, changes),))
    return plan_effect(PlannedManifest(kind, plan, fit=fit), pods(present), NOW)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_effects(case: Case) -> None:
    *given, expected = case
    found = effect(*given)  # type: ignore[arg-type]
    assert {name: getattr(found, name) for name in expected} == expected


def test_pods_that_have_ended_or_have_no_node_hold_nothing() -> None:
    plan = Plan("j", "a", "training", (Step(Action.RECREATE, workload("Job", 1), workload("Job", 1), (TEMPLATE,)),))
    manifest = PlannedManifest("training", plan)
    ended = plan_effect(manifest, pods(1, phase="Succeeded"), NOW)
    assert (ended.ending, ended.gpus_before, ended.hours_lost) == (frozenset(), 0, 0.0)
    waiting = plan_effect(manifest, pods(1, node=None), NOW)
    assert (len(waiting.ending), waiting.gpus_before, waiting.gpus_requested) == (1, 0, 2)
    assert waiting.hours_lost == 0.0


def test_a_paused_service_has_no_pods() -> None:
    plan = Plan("j", "a", "compute", (Step(Action.UPDATE, workload("Deployment", 0), workload("Deployment", 0)),))
    assert plan_effect(PlannedManifest("compute", plan), [], NOW).pods_after == 0


def quota(hard: int, used: int | None) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl", "runwhere.ai/quota": "teams"}
    key = f"requests.{GPU}"
    status = {"hard": {key: str(hard)}, "used": {key: str(used)}} if used is not None else {}
    metadata = {"name": "teams-a", "namespace": "a", "labels": labels}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {key: str(hard)}}, "status": status}


def test_what_is_used_of_a_quota_follows_from_the_pods() -> None:
    growing = PlanEffect(PlannedManifest("compute", Plan("j", "a", "compute")), gpus_requested=2, gpus_counted=4)
    (row,) = quota_rows_of([quota(8, 3)], [quota(6, 3)], [growing])
    assert (row["hard_before"], row["hard_after"], row["used_before"], row["used_after"]) == (8, 6, 3, 5)
    (new,) = quota_rows_of([], [quota(4, None)], [growing])
    assert (new["hard_before"], new["hard_after"], new["used_after"]) == (None, 4, 2)
    (gone,) = quota_rows_of([quota(8, 3)], [], [])
    assert (gone["hard_after"], gone["used_after"]) == (None, None)


@pytest.mark.parametrize(
    ("before", "after", "used", "warned"), [(8, 2, 3, True), (8, 3, 3, False), (2, 2, 3, False), (8, 2, None, False)]
)
def test_a_limit_that_is_lowered_below_what_is_in_use_is_a_warning(
    before: int, after: int, used: int | None, warned: bool
) -> None:
    found = list(below_use(quota_rows_of([quota(before, used)], [quota(after, used)], [])))
    text = "quota teams allows namespace a gpu 2, and 3 are in use. What runs goes on, and new pods are refused until"
    assert [each.startswith(text) for each in found] == [True] * warned


def test_pools_add_up_their_nodes() -> None:
    node = {"pool_before": "a", "pool_after": "b", "gpus": 8, "used_before": 3, "used_after": 2, "moves": True}
    rows = {row["pool"]: row for row in pool_rows_of([node], [], ["a", "b", "c"])}
    assert [rows["a"][f"gpus_{when}"] for when in ("before", "after")] == [8, 0]
    assert [rows["b"][f"used_{when}"] for when in ("before", "after")] == [0, 2]
    assert rows["c"]["nodes_after"] == 0
