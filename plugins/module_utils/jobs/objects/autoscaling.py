# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The HorizontalPodAutoscaler of an inference."""

from __future__ import annotations

from ...manifest.models import Autoscaling, Inference
from . import metadata
from .job_objects import Object

# Load comes in waves and a model takes minutes to load: copies are given up only after ten quiet minutes.
_SCALE_DOWN_AFTER = 600
# What dcgm-exporter measures per pod, under the name that prometheus-adapter serves it by default.
_POD_METRICS = {"gpu_utilization": "DCGM_FI_DEV_GPU_UTIL"}


def autoscaler(manifest: Inference, scaling: Autoscaling, namespace: str) -> Object:
    """The autoscaler that owns ``replicas`` of the job's Deployment."""
    name = manifest.job.name
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata.dependent_metadata(manifest, namespace, name),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": scaling.min_replicas,
            "maxReplicas": scaling.max_replicas,
            "metrics": [_metric(scaling)],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": _SCALE_DOWN_AFTER}},
        },
    }


def _metric(scaling: Autoscaling) -> Object:
    if scaling.metric == "cpu":
        target: Object = {"type": "Utilization", "averageUtilization": int(scaling.target)}
        return {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    metric = {"name": _POD_METRICS.get(scaling.metric, scaling.metric)}
    target = {"type": "AverageValue", "averageValue": scaling.target}
    return {"type": "Pods", "pods": {"metric": metric, "target": target}}
