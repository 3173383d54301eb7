# SPDX-License-Identifier: BSD-2-Clause
"""The options of gpuctl_job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..namespaces import NamespaceOptions
from ..options import ConcurrencyOptions, DeclaringOptions, option
from .runs.ledger import RERUN

STATES = ("present", "absent", "paused", "resumed", "restarted", "rolled_back")
JOB_KINDS = ("training", "inference", "notebook", "compute")


@dataclass(frozen=True, kw_only=True)
class JobOptions(ConcurrencyOptions, NamespaceOptions, DeclaringOptions):
    state: str = option("str", choices=list(STATES), default="present")
    src: list[str] | None = option("list", elements="path")
    definition: Any = option("raw")
    allow_empty: bool = option("bool", default=False)
    policy: str | None = option("path")
    name: str | None = option("str")
    kind: str | None = option("str", choices=list(JOB_KINDS))
    cluster_names: list[str] | None = option("list", elements="str")
    only: list[str] | None = option("list", elements="str")
    namespace: str | None = option("str")
    confirm: str | None = option("str")
    missing_ok: bool = option("bool", default=True)
    replicas: int | None = option("int")
    rerun: str = option("str", choices=list(RERUN), default="on_change")
    upgrade: bool = option("bool", default=False)
    on_immutable: str = option("str", choices=["recreate", "fail"], default="recreate")
    recreate: bool = option("bool", default=True)
    strict: bool = option("bool", default=False)
    refuse_mistakes: bool = option("bool", default=False)
    predict: bool = option("bool", default=False)
    preempt: bool = option("bool", default=True)
    force: bool = option("bool", default=False)
    takeover: bool = option("bool", default=False)
    force_conflicts: bool = option("bool", default=False)
    wait: bool = option("bool", default=False)
    wait_for: str = option("str", choices=["scheduled", "ready", "complete"], default="ready")
    wait_timeout: int = option("int", default=600)
    wait_for_nodes: bool = option("bool", default=False)
    continue_on_error: bool = option("bool", default=False)


JOB_CONSTRAINTS: dict[str, Any] = {
    "mutually_exclusive": [("src", "definition", "name")],
    "required_one_of": [("src", "definition", "name")],
    "required_by": {"kind": "name"},
}


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
