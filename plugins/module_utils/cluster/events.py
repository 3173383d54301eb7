# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Which events belong to a job: those about its workload, its ReplicaSets and its pods. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Event = Mapping[str, Any]


def is_about_workload(event: Event, workload: Mapping[str, Any]) -> bool:
    """About the workload itself, or about a ReplicaSet of a Deployment (named ``<deployment>-<hash>``)."""
    involved, metadata = event.get("involvedObject") or {}, workload["metadata"]
    if event["metadata"].get("namespace") != metadata["namespace"]:
        return False
    if involved.get("uid") == metadata["uid"]:
        return True
    may_own = workload["kind"] == "Deployment" and involved.get("kind") == "ReplicaSet"
    return may_own and str(involved.get("name", "")).rpartition("-")[0] == metadata["name"]


def is_about_pod(event: Event, namespace: str, pod_names: Collection[str]) -> bool:
    """About one of the named pods of a namespace."""
    involved = event.get("involvedObject") or {}
    return (
        involved.get("kind") == "Pod"
        and event["metadata"].get("namespace") == namespace
        and involved.get("name") in pod_names
    )
