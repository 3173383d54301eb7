# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What the container gets: requests and limits are the same, so that nothing is promised twice."""

from __future__ import annotations

from ... import labels
from ...manifest.models import Resources
from ...quantity import ceil_gib
from .job_objects import Object


def container_resources(resources: Resources) -> Object:
    """``resources`` of the container."""
    amounts = {"cpu": resources.cpu, "memory": resources.memory, **_gpu(resources)}
    return {"requests": amounts, "limits": dict(amounts)}


def _gpu(resources: Resources) -> dict[str, str]:
    """Whole GPUs win over a share: a pod that asks both device plugins gets two different cards."""
    if resources.gpu > 0:
        return {labels.GPU: str(resources.gpu)}
    if resources.gpu_share is not None:
        return {labels.GPU_MEMORY: str(ceil_gib(resources.gpu_share))}
    return {}
