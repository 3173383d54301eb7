# SPDX-License-Identifier: BSD-2-Clause
"""What quotas of policies count, and which numbers of teams nothing could enforce."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import ManifestErrors, load_policy
from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.counted import (
    counted_names,
    is_limited,
    limits_of_pools,
    pool_problems,
    quota_key,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.policy_rules import PolicyRules, rules_of

HARDWARE = {
    "a100": PoolHardware(),
    "h100": PoolHardware(accelerator="nvidia"),
    "npu": PoolHardware(accelerator="ascend"),
    "claimed": PoolHardware(device_class="gpu.example.com"),
    "mig": PoolHardware(mig="all-1g.10gb"),
}


def rules(defaults: Any = None, **team: Any) -> PolicyRules:
    manifest = {"kind": "policy", "policy": {"name": "p"}, "defaults": defaults or {}, "teams": {"a": team}}
    return rules_of(load_policy(definition=manifest))


def in_pools(**most: int) -> PolicyRules:
    return rules(pools=list(most), max_gpus_in_pools=most)


def test_all_that_can_be_asked_for_is_counted() -> None:
    listed = ["cpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb", "example.com/other"]
    assert counted_names(listed, ["gpu.example.com"], [HARDWARE["npu"]]) == (
        "amd.com/gpu",
        "deviceclass.resource.kubernetes.io/gpu.example.com",
        "gpu.example.com",
        "huawei.com/Ascend910",
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.10gb",
    )


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("nvidia.com/gpu", "requests.nvidia.com/gpu"),
        ("gpu.example.com", "gpu.example.com.deviceclass.resource.k8s.io/devices"),
        ("deviceclass.resource.kubernetes.io/x", "requests.deviceclass.resource.kubernetes.io/x"),
    ],
)
def test_keys(name: str, key: str) -> None:
    assert quota_key(name) == key


def test_pools_are_distinguished_by_what_they_have() -> None:
    policy = in_pools(a100=8, npu=4, claimed=2)
    assert is_limited(policy)
    assert pool_problems(policy, HARDWARE) == []
    most = policy.namespaces["a"].max_gpus_in_pools
    assert most is not None
    assert limits_of_pools(most, HARDWARE) == {
        "nvidia.com/gpu": 8,
        "huawei.com/Ascend910": 4,
        "gpu.example.com": 2,
        "deviceclass.resource.kubernetes.io/gpu.example.com": 2,
    }


@pytest.mark.parametrize(
    ("most", "problem"),
    [
        ({"a100": 8, "h100": 4}, "pools a100 and h100 have the same nvidia.com/gpu, by which Kubernetes counts."),
        ({"mig": 8}, "pool with divided GPUs: mig. Use max_gpus, which counts each part as one."),
        ({"other": 8}, "pool not declared: other. Declare it first with M(gpuctl_pool)."),
    ],
)
def test_pools_that_cannot_be_distinguished_are_refused(most: dict[str, int], problem: str) -> None:
    (found,) = pool_problems(in_pools(**most), HARDWARE)
    assert found.startswith("policy p, teams.a.max_gpus_in_pools: ")
    assert problem in found


def test_each_namespace_has_its_number() -> None:
    policy = rules(namespaces=["a1", "a2"], max_gpus_in_namespaces={"a1": 6, "a2": 2})
    assert {name: own.max_gpus for name, own in policy.namespaces.items()} == {"a1": 6, "a2": 2}


def test_the_number_of_a_team_replaces_that_of_the_defaults() -> None:
    policy = rules({"max_gpus": 4}, pools=["npu"], max_gpus_in_pools={"npu": 2})
    assert (policy.namespaces["a"].max_gpus, policy.namespaces["a"].max_gpus_in_pools) == (None, {"npu": 2})
    assert rules({"max_gpus": 4}, pools=["npu", "a100"]).namespaces["a"].max_gpus == 4


@pytest.mark.parametrize(
    ("team", "problem"),
    [
        (
            {"namespaces": ["x", "y"], "max_gpus": 8},
            "max_gpus for 2 namespaces: x and y. Kubernetes counts by namespace",
        ),
        ({"max_gpus": 8, "max_gpus_in_namespaces": {"a": 8}}, "max_gpus and max_gpus_in_namespaces of one team."),
        ({"namespaces": ["x", "y"], "max_gpus_in_namespaces": {"x": 8}}, "others than those of the team: y."),
        ({"max_gpus_in_namespaces": {"a": 1, "b": 8}}, "others than those of the team: b."),
        ({"max_gpus_in_pools": {"p": 8}}, "others than the pools of the team: p."),
        ({"pools": ["p", "q"], "max_gpus_in_pools": {"p": 8}}, "others than the pools of the team: q."),
        (
            {"namespaces": ["x", "y"], "pools": ["p"], "max_gpus_in_pools": {"p": 8}},
            "max_gpus_in_pools for 2 namespaces",
        ),
        ({"notebooks": {"idle_for": "4m"}}, "idle time out of range: 4m. Use 5m to 31d."),
        ({"notebooks": {"idle_for": "8h", "below": 0}}, "invalid ratio"),
        ({"notebooks": {"idle_for": "soon"}}, "invalid duration"),
    ],
)
def test_what_nothing_could_enforce_is_refused(team: dict[str, Any], problem: str) -> None:
    with pytest.raises(ManifestErrors) as refused:
        rules(**team)
    assert problem in str(refused.value)
