# SPDX-License-Identifier: BSD-2-Clause
"""The ``results``, ``diff`` and message of a task. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..cluster.endpoints import access_urls
from ..cluster.status import pods_ready, pods_wanted, status_of
from .apply import ApplyResult
from .changes import resource_result
from .plan import Action, Completion, Plan


def result_of(
    result: ApplyResult,
    *,
    reason: str | None,
    log: Sequence[str],
    node_address: str | None,
    check_mode: bool,
    fit: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One entry of ``results``: what was done to a job, and its status; in check mode, whether it would run."""
    plan = result.plan
    ended = plan.ended or Completion()
    predicted_only = check_mode and plan.action in (Action.CREATE, Action.RECREATE)
    workload = None if predicted_only else result.workload
    # The node port that a dry run returns is not the one that a new Service will get.
    adds_service = any(step.kind == "Service" and step.action is Action.CREATE for step in plan.steps)
    return {
        "name": plan.name,
        "namespace": plan.namespace,
        "kind": plan.kind,
        "action": str(plan.action),
        "error": result.error,
        "status": status_of(workload) if workload else ended.status,
        "reason": full_reason(plan, reason),
        "log": list(log),
        "ready": f"{pods_ready(workload)}/{pods_wanted(workload)}" if workload else None,
        "released_gpus": plan.released_gpus,
        "stops": plan.stops or None,
        "resources": [resource_result(step) for step in (*plan.prerequisites, *plan.steps)],
        "access_urls": access_urls(result.objects.values(), None if check_mode and adds_service else node_address),
        "fit": fit,
        "duration": round(result.seconds, 3),
    }


def full_reason(plan: Plan, reason: str | None) -> str | None:
    """Why the job is not running or not there, and why a training is not run again or keeps an outdated spec."""
    return " ".join(filter(None, (plan.missing, reason, (plan.ended or Completion()).reason, plan.kept))) or None
