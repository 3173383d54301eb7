# SPDX-License-Identifier: BSD-2-Clause
"""Fake GPU nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kubesim.clock import rfc3339
from kubesim.versions import NEWEST, RELEASES

Object = dict[str, Any]
RESOURCES = {"cpu": "128", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": "8", "aliyun.com/gpu-mem": "640"}
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def fake_node(
    name: str,
    now: datetime,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    resources: Mapping[str, str | None] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    arch: str = "amd64",
    kubelet: str = RELEASES[NEWEST],
) -> Object:
    """A ready node; its status included. The number at the end of its name makes its address.

    `resources` override RESOURCES; None removes one.
    """
    quantities = {key: value for key, value in {**RESOURCES, **(resources or {})}.items() if value is not None}
    number = int("".join(c for c in name if c.isdigit()) or 0)
    moment = rfc3339(now)
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": text,
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
        }
        for kind, status, reason, text in _CONDITIONS
    ]
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        **({"spec": {"taints": [dict(taint) for taint in taints]}} if taints else {}),
        "status": {
            "capacity": quantities,
            "allocatable": quantities,
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": f"192.168.{number // 250}.{number % 250 + 1}"},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "kubeletVersion": kubelet,
                "operatingSystem": "linux",
                "architecture": arch,
                "osImage": "kubesim",
                "kernelVersion": "0.0.0",
                "containerRuntimeVersion": "kubesim://0",
            },
        },
    }
