# SPDX-License-Identifier: BSD-2-Clause
"""Kueue never gets more than there is: not of a pool, and not of a namespace."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.workspace_objects import count_quota
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import Declaration, PoolQueue
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import FIELD_MANAGER, MANAGED_BY, QUOTA
from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.namespace_objects import accelerator_quota
from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.policy_rules import PolicyRules
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quantity import parse
from ansible_collections.runwhere.gpuctl.plugins.module_utils.queues.provide_queues import queue_objects
from ansible_collections.runwhere.gpuctl.plugins.module_utils.queues.teams import (
    Capacity,
    Team,
    capacity_of,
    share_problems,
    teams_in,
)

GPU = "nvidia.com/gpu"
POOL = Declaration("big", nodes={"node-1": None}, queue=PoolQueue("kueue"))
CAPACITY = Capacity({"cpu": Fraction("63.7"), "memory": Fraction(10**12 + 1), GPU: Fraction(7)}, 7)


def amounts(obj: dict[str, Any], key: str = "nominalQuota") -> dict[str, Fraction]:
    (group,) = obj["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    return {each["name"]: parse(each[key]).value for each in flavor["resources"] if key in each}


@pytest.mark.parametrize("shares", [(0, 0), (3, 4), (1, 1), (5, 9), (7000, 1)])
def test_shares_add_up_to_the_pool_at_most(shares: tuple[int, int]):
    teams = [Team(f"team-{number}", {"big": share}) for number, share in enumerate(shares)]
    objects = [obj for obj in queue_objects(POOL, CAPACITY, teams) if "resourceGroups" in obj["spec"]]
    assert [obj["kind"] for obj in objects] == ["Cohort", "ClusterQueue", "ClusterQueue"]
    for resource, capacity in CAPACITY.amounts.items():
        total = sum(amounts(obj)[resource] for obj in objects)
        assert capacity - 4096 < total <= capacity if resource == "memory" else total == capacity


def test_a_namespace_gets_no_more_than_its_quota():
    team = Team("team", {"big": 4}, ({f"requests.{GPU}": "3", "limits.cpu": "10"}, {"requests.cpu": "8", "pods": "1"}))
    queue = queue_objects(POOL, CAPACITY, [team])[-2]
    own, more = amounts(queue), amounts(queue, "borrowingLimit")
    assert own[GPU] == 3
    assert own[GPU] + more[GPU] == 3
    assert own["cpu"] + more["cpu"] == 8
    assert "memory" not in more


def resource_quota(text: str, name: str = "q-a", **hard: str) -> dict[str, Any]:
    labels = {MANAGED_BY: FIELD_MANAGER, QUOTA: "q"}
    metadata = {"name": name, "namespace": "a", "labels": labels, "annotations": {"runwhere.ai/shares": text}}
    return {"metadata": metadata, "spec": {"hard": hard} if hard else {}}


def test_an_edited_text_is_no_share():
    assert [teams_in([resource_quota(text)])[0].shares for text in ('{"big": 2}', "{", "[]", '{"big": "x"}')] == [
        {"big": 2},
        {},
        {},
        {},
    ]


def test_a_namespace_without_a_quota_of_ours_is_no_team():
    assert teams_in([{"metadata": {"namespace": "a", "name": "q", "labels": {}}, "spec": {}}]) == []


def test_a_namespace_with_limits_of_a_policy_or_a_workspace_alone_is_no_team() -> None:
    policy = accelerator_quota(PolicyRules("company"), "a", {GPU: 4})
    assert teams_in([policy, count_quota("a", {"jobs.batch": 9})]) == []
    (team,) = teams_in([resource_quota("{}"), policy])
    assert team.limit(GPU) == 4


def test_a_quota_of_ours_limits_its_team_also_where_it_does_not_count_opportunistic_jobs() -> None:
    """Queues admit by sums: what they admit beyond the quota would be refused its pods."""
    scope = {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["gpuctl-opportunistic"]}
    spec = {"hard": {"requests.nvidia.com/gpu": "4"}, "scopeSelector": {"matchExpressions": [scope]}}
    own = {"metadata": {"name": "q", "namespace": "a", "labels": {MANAGED_BY: FIELD_MANAGER, QUOTA: "q"}}, "spec": spec}
    other = {"metadata": {"name": "o", "namespace": "a"}, "spec": {**spec, "hard": {"requests.nvidia.com/gpu": "1"}}}
    (team,) = teams_in([own, other])
    assert team.limit("nvidia.com/gpu") == 4


def test_a_used_up_budget_leaves_the_queue_as_it_is():
    """With a limit below its use, Kueue would let others preempt what runs."""
    used_up = resource_quota("{}", "gpuctl-gpu-hours-until-2026-12-01", **{f"requests.{GPU}": "0"})
    assert teams_in([resource_quota("{}"), used_up]) == teams_in([resource_quota("{}")])


def test_a_manager_has_no_limits_but_those_of_quotas_and_asks_the_admission_check():
    """Its nodes are those of other clusters, which know the shares."""
    pool = Declaration("big", hardware=PoolHardware(rdma_resource="rdma/hca"), queue=PoolQueue("multikueue"))
    teams = [Team("limited", {"big": 4}, ({f"requests.{GPU}": "3"},)), Team("free", {"big": 9})]
    capacity = capacity_of(pool, [])
    assert list(share_problems(pool, capacity, teams)) == []
    objects = queue_objects(pool, capacity, teams)
    assert [obj["kind"] for obj in objects] == ["ResourceFlavor", "Cohort", *["ClusterQueue"] * 2, *["LocalQueue"] * 2]
    _flavor, cohort, limited, free = objects[:4]
    assert {"cpu", "memory", GPU, "rdma/hca"} <= amounts(cohort).keys()
    assert min(amounts(cohort).values()) >= 10**9
    assert amounts(cohort)["memory"] > 10**18
    for queue in (limited, free):
        assert set(amounts(queue).values()) == {0}
        assert queue["spec"]["admissionChecksStrategy"] == {"admissionChecks": [{"name": "gpuctl-multikueue"}]}
    assert amounts(limited, "borrowingLimit") == {GPU: 3}
    assert amounts(free, "borrowingLimit") == {}
    (_cohort, plain, _local) = queue_objects(POOL, CAPACITY, teams[:1])[-3:]
    assert "admissionChecksStrategy" not in plain["spec"]
