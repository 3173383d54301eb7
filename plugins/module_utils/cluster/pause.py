# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What a paused job looks like in the cluster, and what keeps it paused. Pure.

A training is paused by ``suspend`` of its Job. Deployments and StatefulSets have no such field: they are scaled to
zero, and an annotation keeps the number of replicas to resume with. An autoscaler ignores a workload without replicas
(pkg/controller/podautoscaler/horizontal.go, ScalingDisabled), so it can stay.

``suspend`` of a Job in a Kueue queue belongs to Kueue; such a job is paused by ``spec.active`` of its Kueue Workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..labels import KUEUE_QUEUE, PAUSED_REPLICAS
from .status import status_of


def is_paused(workload: Mapping[str, Any]) -> bool:
    """Whether the workload is to have no pods though it has not ended; false for a Job that Kueue admits."""
    return status_of(workload) == "Paused" and not is_admitted_by_kueue(workload)


def is_held(workload: Mapping[str, Any]) -> bool:
    """Whether the workload stays paused until it is resumed.

    One that was scaled to zero without the annotation was not paused by us: its manifest decides.
    """
    return is_paused(workload) and (workload["kind"] == "Job" or kept_replicas(workload) is not None)


def is_admitted_by_kueue(workload: Mapping[str, Any]) -> bool:
    """Whether Kueue decides by ``suspend`` when the workload runs.

    For Deployments and StatefulSets, Kueue gates the pods instead and lets them be scaled to zero and back (kueue
    pkg/controller/jobs/statefulset, ValidateUpdate).
    """
    return workload["kind"] == "Job" and KUEUE_QUEUE in (workload["metadata"].get("labels") or {})


def kept_replicas(workload: Mapping[str, Any]) -> int | None:
    """The number of replicas to resume with; None if the annotation is missing or not a number."""
    text = (workload["metadata"].get("annotations") or {}).get(PAUSED_REPLICAS, "")
    return int(text) if text.isdecimal() else None


def stay_paused(desired: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """The desired workload, paused if the live one is: applying a manifest does not resume a job.

    The manifest's replicas are kept for the resumption.
    """
    desired = dict(desired)
    if not is_held(live) or is_admitted_by_kueue(desired):
        return desired
    if desired["kind"] == "Job":
        return {**desired, "spec": {**desired["spec"], "suspend": True}}
    kept = kept_replicas(live)
    replicas = desired["spec"].get("replicas", 1 if kept is None else kept)
    annotations = {**desired["metadata"].get("annotations", {}), PAUSED_REPLICAS: str(replicas)}
    return {
        **desired,
        "metadata": {**desired["metadata"], "annotations": annotations},
        "spec": {**desired["spec"], "replicas": 0},
    }
