# SPDX-License-Identifier: BSD-2-Clause
"""The usage of ResourceQuotas."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.usage import is_counted, over_quota, usage

GPU = "requests.nvidia.com/gpu"


def resource_quota(hard: dict[str, str], used: dict[str, str] | None) -> dict[str, Any]:
    return {"spec": {"hard": hard}, "status": {} if used is None else {"hard": hard, "used": used}}


# hard, used -> the entries of usage() that are not None, what is over
CASES: dict[str, tuple[dict[str, str], dict[str, str] | None, dict[str, Any], list[str]]] = {
    "nothing is limited": ({}, {}, {}, []),
    "not counted yet": ({GPU: "4"}, None, {"gpu": {"used": None, "hard": 4, "percent": None}}, []),
    "nothing is used": ({GPU: "4"}, {GPU: "0"}, {"gpu": {"used": 0, "hard": 4, "percent": 0.0}}, []),
    "all is used": ({"pods": "3"}, {"pods": "3"}, {"pods": {"used": 3, "hard": 3, "percent": 100.0}}, []),
    "more than the limit is used": ({GPU: "4"}, {GPU: "6"}, {"gpu": {"used": 6, "hard": 4, "percent": 150.0}}, ["gpu"]),
    "a limit of 0 is used up": ({GPU: "0"}, {GPU: "0"}, {"gpu": {"used": 0, "hard": 0, "percent": 100.0}}, []),
    "more than 0 is used": ({GPU: "0"}, {GPU: "1"}, {"gpu": {"used": 1, "hard": 0, "percent": 100.0}}, ["gpu"]),
    "the greater of requests and limits counts": (
        {"requests.cpu": "10", "limits.cpu": "10"},
        {"requests.cpu": "2500m", "limits.cpu": "7"},
        {"cpu": {"used": "7", "hard": "10", "percent": 70.0}},
        [],
    ),
    "units differ": (
        {"requests.memory": "1Gi", "limits.memory": "1Gi"},
        {"requests.memory": "1025Mi", "limits.memory": "512Mi"},
        {"memory": {"used": "1025Mi", "hard": "1Gi", "percent": 100.1}},
        ["memory"],
    ),
    "shared GPUs": (
        {"requests.aliyun.com/gpu-mem": "40"},
        {"requests.aliyun.com/gpu-mem": "10"},
        {"gpu_share": {"used": 10, "hard": 40, "percent": 25.0}},
        [],
    ),
    "shared by HAMi": (
        {"requests.nvidia.com/gpumem": "40960", "limits.nvidia.com/gpumem": "40960"},
        {"requests.nvidia.com/gpumem": "10240"},
        {"gpu_memory": {"used": "10Gi", "hard": "40Gi", "percent": 25.0}},
        [],
    ),
    "other accelerators": (
        {"requests.huawei.com/Ascend910": "16", "requests.nvidia.com/mig-1g.10gb": "7"},
        {"requests.huawei.com/Ascend910": "4", "requests.nvidia.com/mig-1g.10gb": "8"},
        {
            "accelerators": {
                "ascend": {"used": 4, "hard": 16, "percent": 25.0},
                "nvidia/1g.10gb": {"used": 8, "hard": 7, "percent": 114.3},
            }
        },
        ["accelerators.nvidia/1g.10gb"],
    ),
    "devices of a class": (
        {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "4"},
        {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "5"},
        {"device_classes": {"gpu.nvidia.com": {"used": 5, "hard": 4, "percent": 125.0}}},
        ["device_classes.gpu.nvidia.com"],
    ),
    "limits set by others are ignored": ({"count/jobs.batch": "5"}, {"count/jobs.batch": "9"}, {}, []),
}


@pytest.mark.parametrize(("hard", "used", "wanted", "over"), CASES.values(), ids=CASES)
def test_usage(hard: dict[str, str], used: dict[str, str] | None, wanted: dict[str, Any], over: list[str]) -> None:
    obj = resource_quota(hard, used)
    found = usage(obj)
    assert list(found) == ["cpu", "memory", "gpu", "gpu_share", "gpu_memory", "pods", "accelerators", "device_classes"]
    assert {name: use for name, use in found.items() if use is not None} == wanted
    assert [each["resource"] for each in over_quota(obj)] == over
    assert all(each == {"resource": each["resource"], **_numbers(found, each)} for each in over_quota(obj))


def _numbers(found: dict[str, Any], each: dict[str, Any]) -> dict[str, Any]:
    resource, _dot, accelerator = each["resource"].partition(".")
    use = found[resource][accelerator] if accelerator else found[resource]
    return {name: use[name] for name in ("used", "hard")}


COUNTED: dict[str, tuple[dict[str, str], dict[str, str], bool]] = {
    "the same": ({"pods": "3"}, {"pods": "3"}, True),
    "by value": ({"requests.cpu": "1"}, {"requests.cpu": "1000m"}, True),
    "the previous limits": ({"pods": "3"}, {"pods": "4"}, False),
    "a resource was added since": ({"pods": "3", "requests.cpu": "1"}, {"pods": "3"}, False),
    "nothing is limited": ({}, {}, True),
}


@pytest.mark.parametrize(("hard", "counted", "wanted"), COUNTED.values(), ids=COUNTED)
def test_whether_kubernetes_has_counted(hard: dict[str, str], counted: dict[str, str], wanted: bool) -> None:
    assert is_counted({"spec": {"hard": hard}, "status": {"hard": counted}}) is wanted
