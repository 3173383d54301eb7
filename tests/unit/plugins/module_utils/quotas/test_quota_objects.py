# SPDX-License-Identifier: BSD-2-Clause
"""The objects of a quota in one of its namespaces."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.quota_model import Quota
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_objects import (
    limit_range,
    namespace,
    resource_quota,
)


def quota(limits: dict[str, Any], **section: Any) -> Quota:
    (document,) = load((), {"kind": "quota", "quota": {"name": "q", **section}, "users": {"team": limits}})
    assert isinstance(document.model, Quota)
    return document.model


HARD: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "CPU and memory as requests and as limits": (
        {"cpu": 10, "memory": "20Gi"},
        {"requests.cpu": "10", "limits.cpu": "10", "requests.memory": "20Gi", "limits.memory": "20Gi"},
    ),
    "GPUs by the only key that Kubernetes enforces": ({"gpu": 4}, {"requests.nvidia.com/gpu": "4"}),
    "zero is a limit": ({"gpu": 0, "pods": 0}, {"requests.nvidia.com/gpu": "0", "pods": "0"}),
    "shared GPUs in whole GiB": ({"gpu-share": "40Gi"}, {"requests.aliyun.com/gpu-mem": "40"}),
    "memory of shared GPUs by the keys of all who share them so, HAMi's own included": (
        {"gpu-memory": "40Gi"},
        {
            "requests.nvidia.com/gpumem": "40960",
            "limits.nvidia.com/gpumem": "40960",
            "requests.volcano.sh/vgpu-memory": "40960",
        },
    ),
    "other accelerators, their partitions and shares": (
        {"gpu": 8, "accelerators": {"ascend": 16, "nvidia/1g.10gb": 7, "amd": 0, "cambricon/share": "1Gi"}},
        {
            "requests.nvidia.com/gpu": "8",
            "requests.huawei.com/Ascend910": "16",
            "requests.nvidia.com/mig-1g.10gb": "7",
            "requests.amd.com/gpu": "0",
            "requests.cambricon.com/mlu.smlu.vmemory": "4",
        },
    ),
    "fractions of a GiB are cut": ({"gpu-share": "2.5Gi"}, {"requests.aliyun.com/gpu-mem": "2"}),
}


@pytest.mark.parametrize(("limits", "hard"), HARD.values(), ids=HARD)
def test_hard(limits: dict[str, Any], hard: dict[str, str]) -> None:
    assert resource_quota(quota(limits), "team")["spec"] == {"hard": hard}


def test_opportunistic_jobs_are_not_counted_where_the_quota_says_so() -> None:
    rule = {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["gpuctl-opportunistic"]}
    spec = {"hard": {"requests.nvidia.com/gpu": "4"}, "scopeSelector": {"matchExpressions": [rule]}}
    assert resource_quota(quota({"gpu": 4, "opportunistic": True}), "team")["spec"] == spec
    assert resource_quota(quota({"gpu": 4, "opportunistic": False}), "team")["spec"] == {"hard": spec["hard"]}


def test_a_namespace_without_limits_has_a_quota_too() -> None:
    assert resource_quota(quota({}), "team")["spec"] == {}


DEFAULTS: dict[str, tuple[dict[str, Any], dict[str, str] | None]] = {
    "a large limit": ({"cpu": 10, "memory": "20Gi"}, {"cpu": "1", "memory": "1Gi"}),
    "a quarter of a small limit": ({"cpu": 2, "memory": "2Gi"}, {"cpu": "500m", "memory": "512Mi"}),
    "at least one unit": ({"cpu": "3m", "memory": "3Mi"}, {"cpu": "1m", "memory": "1Mi"}),
    "decimal units": ({"memory": "1G"}, {"memory": "238Mi"}),
    "a limit of 0 is not undermined by a default of 0": ({"cpu": 0, "memory": 0}, {"cpu": "1", "memory": "1Gi"}),
    "no default without a limit": ({"cpu": 10, "gpu": 4}, {"cpu": "1"}),
    "never a GPU": ({"gpu": 4, "gpu-share": "4Gi", "pods": 3}, None),
}


@pytest.mark.parametrize(("limits", "defaults"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults_of_containers(limits: dict[str, Any], defaults: dict[str, str] | None) -> None:
    made = limit_range(quota(limits), "team")
    wanted = defaults and [{"type": "Container", "default": defaults, "defaultRequest": defaults}]
    assert (made and made["spec"]["limits"]) == wanted


def test_names_and_marks() -> None:
    declared = quota({"cpu": 1}, description="Team")
    for made in (resource_quota(declared, "team"), limit_range(declared, "team")):
        assert made is not None
        assert made["metadata"] == {
            "name": "q-team",
            "namespace": "team",
            "labels": {"app.kubernetes.io/managed-by": "runwhere.gpuctl", "runwhere.ai/quota": "q"},
            "annotations": {"runwhere.ai/description": "Team"},
        }
    assert "annotations" not in resource_quota(quota({}), "team")["metadata"]


def test_only_namespaces_that_gpuctl_creates_are_marked_as_managed() -> None:
    found = {"runwhere.ai/namespace": "true"}
    assert namespace("team", managed=False)["metadata"] == {"name": "team", "labels": found}
    made = {**found, "app.kubernetes.io/managed-by": "runwhere.gpuctl"}
    assert namespace("team", managed=True)["metadata"] == {"name": "team", "labels": made}
