# SPDX-License-Identifier: BSD-2-Clause
"""A cluster with nodes of many vendors, each as the vendor's own software shows it to Kubernetes.

Source: README and internal/lm of NVIDIA/k8s-device-plugin, Project-HAMi/HAMi docs, ROCm/k8s-device-plugin,
ROCm/gpu-operator, Ascend/mind-cluster docs, kubernetes-sigs/dra-driver-nvidia-gpu site/content/docs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from kubesim.nodes import fake_node

Object = dict[str, Any]

#: What HAMi's scheduler counts itself: pods request it, no node lists it (its extender, "ignoredByScheduler").
EXTENDER_RESOURCES = frozenset({"nvidia.com/gpumem", "nvidia.com/gpucores"})
_NONE: dict[str, str | None] = {"nvidia.com/gpu": None, "aliyun.com/gpu-mem": None}
_A100 = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.memory": "81920",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/mig.strategy": "none",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/cuda.driver-version.full": "550.54.15",
}
_DRA = "gpu.nvidia.com"


def _taint(key: str) -> list[dict[str, str]]:
    return [{"key": key, "value": "present", "effect": "NoSchedule"}]


#: The nodes by name, with the options of `fake_node`.
_NODES: Mapping[str, Mapping[str, Any]] = {
    **{
        name: {"resources": {**_NONE, "nvidia.com/gpu": "8"}, "labels": _A100, "taints": _taint("nvidia.com/gpu")}
        for name in ("whole-1", "whole-2")
    },
    # Strategy mixed, half of the devices partitioned.
    "mig-1": {
        "resources": {**_NONE, "nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "14", "nvidia.com/mig-3g.40gb": "4"},
        "labels": {**_A100, "nvidia.com/mig.strategy": "mixed"},
    },
    "mig-broken-1": {
        "resources": {**_NONE, "nvidia.com/gpu": "0"},
        "labels": {
            **_A100,
            "nvidia.com/mig.strategy": "single",
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-INVALID",
        },
    },
    "sliced-1": {
        "resources": {**_NONE, "nvidia.com/gpu": "16"},
        "labels": {
            **_A100,
            "nvidia.com/gpu.product": "NVIDIA-A10-SHARED",
            "nvidia.com/gpu.memory": "24564",
            "nvidia.com/gpu.count": "4",
            "nvidia.com/gpu.replicas": "4",
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
        },
    },
    # 8 devices, each shared by 10 pods at most.
    "hami-1": {
        "resources": {**_NONE, "nvidia.com/gpu": "80"},
        "labels": _A100,
        "annotations": {"hami.io/node-nvidia-register": "[]", "hami.io/node-handshake": "Reported"},
    },
    "amd-1": {
        "resources": {**_NONE, "amd.com/gpu": "8"},
        "labels": {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"},
        "taints": _taint("amd.com/gpu"),
    },
    "ascend-1": {
        "resources": {**_NONE, "huawei.com/Ascend910": "8"},
        "labels": {
            "kubernetes.io/arch": "arm64",
            "accelerator": "huawei-Ascend910",
            "node.kubernetes.io/npu.chip.name": "910B3",
            "mind-cluster/npu-chip-memory": "64G",
        },
        "arch": "arm64",
    },
    "vnpu-1": {
        "resources": {**_NONE, "huawei.com/Ascend910": "4", "huawei.com/Ascend910-6c.1cpu.16g": "16"},
        "labels": {
            "kubernetes.io/arch": "arm64",
            "accelerator": "huawei-Ascend910",
            "node.kubernetes.io/npu.chip.name": "910B3",
            "mind-cluster/npu-chip-memory": "64G",
        },
        "arch": "arm64",
    },
    # A driver of Dynamic Resource Allocation offers its devices, and the node lists none.
    "dra-1": {"resources": _NONE},
    "cpu-1": {"resources": _NONE},
}


def mixed_objects(now: datetime, **more: Any) -> Iterator[Object]:
    """The nodes, with further options of `fake_node`, and the devices of drivers."""
    for name, options in _NODES.items():
        yield {**fake_node(name, now, **options, **more), "kind": "Node"}
    yield from _devices()


def _devices() -> Iterator[Object]:
    """The DeviceClass of the driver, and the ResourceSlice of its node."""
    version = "resource.k8s.io/v1"
    condition = f"device.driver == '{_DRA}' && device.attributes['{_DRA}'].type == 'gpu'"
    yield {
        "apiVersion": version,
        "kind": "DeviceClass",
        "metadata": {"name": _DRA},
        "spec": {"selectors": [{"cel": {"expression": condition}}]},
    }
    attributes = {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100 80GB HBM3"}}
    yield {
        "apiVersion": version,
        "kind": "ResourceSlice",
        "metadata": {"name": f"dra-1-{_DRA}"},
        "spec": {
            "driver": _DRA,
            "nodeName": "dra-1",
            "pool": {"name": "dra-1", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}
                for number in range(4)
            ],
        },
    }
