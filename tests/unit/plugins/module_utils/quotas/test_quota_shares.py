# SPDX-License-Identifier: BSD-2-Clause
"""What one of several clusters has of the quota of a team."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_shares import quotas_of_cluster
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import TaskFailed

ALL = {
    "cpu": 10,
    "memory": "1Ti",
    "gpu": 64,
    "accelerators": {"ascend": 8, "ascend/share": "64Gi"},
    "device_classes": {"gpu.nvidia.com": 4},
    "shares": {"big": 8},
    "pods": 20,
}
HALF = {
    "cpu": "5",
    "memory": "512Gi",
    "gpu": 32,
    "accelerators": {"ascend": "4", "ascend/share": "32Gi"},
    "device_classes": {"gpu.nvidia.com": 2},
    "shares": {"big": 4},
    "pods": 10,
}
NONE = {
    "cpu": "0",
    "memory": "0",
    "gpu": 0,
    "accelerators": {"ascend": "0", "ascend/share": "0"},
    "device_classes": {"gpu.nvidia.com": 0},
    "pods": 0,
}
CASES: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "a cluster has its share": ({**ALL, "clusters": {"east": HALF, "west": HALF}}, "west", HALF),
    "without a share, it has nothing of what is limited, and the rest is as unlimited as everywhere": (
        {**ALL, "clusters": {"east": HALF}},
        "west",
        NONE,
    ),
    "a share may limit more than all clusters together": (
        {"gpu": 4, "clusters": {"east": {"gpu": 4, "cpu": 8}}},
        "east",
        {"gpu": 4, "cpu": "8"},
    ),
    "a share of no GPUs of a pool is none": (
        {"shares": {"big": 8}, "clusters": {"east": {"shares": {"big": 0}}}},
        "east",
        {},
    ),
    "without clusters, limits are those of each cluster": ({"gpu": 4}, "west", {"gpu": 4}),
    "clusters alone limit themselves only": ({"clusters": {"east": {"gpu": 4}}}, "west", {}),
}


def documents(limits: dict[str, Any]) -> list[Any]:
    return load((), {"kind": "quota", "quota": {"name": "q"}, "users": {"team": limits}})


@pytest.mark.parametrize("case", CASES)
def test_the_limits_of_one_cluster(case: str) -> None:
    limits, cluster, expected = CASES[case]
    (quota,), _mistakes = quotas_of_cluster(documents(limits), cluster, required=True)
    assert quota.namespaces["team"].model_dump(exclude_defaults=True) == expected


def test_a_cluster_that_is_not_named_is_probably_misspelt() -> None:
    found = documents(
        {"gpu": 64, "pods": 9, "clusters": {"east": {"gpu": 32, "pods": 9}, "wets": {"gpu": 32, "pods": 0}}}
    )
    _quotas, mistakes = quotas_of_cluster(found, "west", required=True)
    assert mistakes == [
        "quota q: team has no share in cluster west, only in east, wets, and so 0 of what its quota limits: gpu, pods."
    ]
    assert quotas_of_cluster(found, "east", required=True)[1] == []


def test_without_the_name_of_the_cluster_no_share_is_guessed() -> None:
    found = documents({"gpu": 4, "clusters": {"east": {"gpu": 4}}})
    with pytest.raises(TaskFailed, match=r"users\.team\.clusters: not known which of these clusters this one is\."):
        quotas_of_cluster(found, None, required=True)
    (quota,), _mistakes = quotas_of_cluster(found, None, required=False)
    assert quota.namespaces["team"].gpu == 4
