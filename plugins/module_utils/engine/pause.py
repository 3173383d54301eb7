# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""How a paused job looks in the cluster, and what keeps it paused. Pure.

A training is paused by its Job's own ``suspend``. Deployments and StatefulSets have no such field: they are scaled to
zero, and an annotation keeps the number of copies that a resumption brings back. An autoscaler leaves a workload alone
that has no copies (pkg/controller/podautoscaler/horizontal.go, ScalingDisabled), so it stays as it is.

``suspend`` of a Job in a Kueue queue belongs to Kueue, and says nothing about pauses: there Kueue's Workload does, with
``spec.active``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..cluster.status import status_of
from ..labels import KUEUE_QUEUE, PAUSED_REPLICAS


def is_paused(workload: Mapping[str, Any]) -> bool:
    """Whether the workload (not one that Kueue admits) is to have no pods, though it has not ended."""
    return status_of(workload) == "Paused" and not is_admitted_by_kueue(workload)


def is_held(workload: Mapping[str, Any]) -> bool:
    """Whether the workload is paused and stays so until it is resumed.

    A workload that somebody scaled to zero without keeping a count was not paused by us: its manifest decides.
    """
    return is_paused(workload) and (workload["kind"] == "Job" or kept_replicas(workload) is not None)


def is_admitted_by_kueue(workload: Mapping[str, Any]) -> bool:
    """Whether Kueue decides when the workload runs by holding its ``suspend``.

    Of Deployments and StatefulSets Kueue gates the pods; it allows them to be scaled to zero and back
    (kueue pkg/controller/jobs/statefulset, ValidateUpdate).
    """
    return workload["kind"] == "Job" and KUEUE_QUEUE in (workload["metadata"].get("labels") or {})


def kept_replicas(workload: Mapping[str, Any]) -> int | None:
    """The number of copies that our pause keeps; None without one, or when somebody wrote something else there."""
    text = (workload["metadata"].get("annotations") or {}).get(PAUSED_REPLICAS, "")
    return int(text) if text.isdecimal() else None


def stay_paused(desired: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """The desired workload, as paused as the live one: a manifest changes a job, only a resumption lets it run again.

    The copies that a manifest asks for are kept for the resumption.
    """
    desired = dict(desired)
    if not is_held(live) or is_admitted_by_kueue(desired):
        return desired
    if desired["kind"] == "Job":
        return {**desired, "spec": {**desired["spec"], "suspend": True}}
    kept = kept_replicas(live)
    copies = desired["spec"].get("replicas", 1 if kept is None else kept)
    annotations = {**desired["metadata"].get("annotations", {}), PAUSED_REPLICAS: str(copies)}
    return {
        **desired,
        "metadata": {**desired["metadata"], "annotations": annotations},
        "spec": {**desired["spec"], "replicas": 0},
    }
