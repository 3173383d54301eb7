# SPDX-License-Identifier: BSD-2-Clause
"""Which jobs have a number of replicas that can be set. Pure."""

from __future__ import annotations


def not_scalable_reason(kind: str, *, autoscaled: bool) -> str | None:
    """Why the replicas of a job cannot be set, and what to do instead; None if they can."""
    if kind == "training":
        return "a training has no replicas: its pods are its nodes. Change resources.node_count in its manifest."
    if kind == "notebook":
        return (
            "a notebook is always one pod. For other GPUs, change resources.gpu in its manifest and submit that. "
            "O(state=paused) stops it, and O(state=resumed) starts it again."
        )
    if autoscaled:
        return (
            "its autoscaler sets its replicas. Change autoscaling.min_replicas and autoscaling.max_replicas "
            "in its manifest."
        )
    return None
