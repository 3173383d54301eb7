# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Which events tell of a job: those about its workload, what the workload made, and its pods. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Event = Mapping[str, Any]


def is_about_workload(event: Event, workload: Mapping[str, Any]) -> bool:
    """Told of the workload itself, or of a ReplicaSet that a Deployment made (named ``<deployment>-<hash>``)."""
    involved, metadata = event.get("involvedObject") or {}, workload["metadata"]
    if event["metadata"].get("namespace") != metadata["namespace"]:
        return False
    if involved.get("uid") == metadata["uid"]:
        return True
    made = workload["kind"] == "Deployment" and involved.get("kind") == "ReplicaSet"
    return made and str(involved.get("name", "")).rpartition("-")[0] == metadata["name"]


def is_about_pod(event: Event, namespace: str, pod_names: Collection[str]) -> bool:
    """Told of one of the pods of a namespace."""
    involved = event.get("involvedObject") or {}
    return (
        involved.get("kind") == "Pod"
        and event["metadata"].get("namespace") == namespace
        and involved.get("name") in pod_names
    )
