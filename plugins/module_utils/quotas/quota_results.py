# SPDX-License-Identifier: BSD-2-Clause
"""What gpuctl_quota returns, and a warning for each exceeded limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine.apply import ApplyResult
from ..engine.changes import action_summary, diffs_of, resource_result
from ..labels import pod_security_of
from ..task import Task
from .quota_plan import QuotaPlans
from .usage import description_of, no_usage, over_quota, usage


def quota_results(task: Task[Any], applied: Sequence[ApplyResult], planned: QuotaPlans) -> dict[str, Any]:
    results = [_quota_result(each, planned) for each in applied]
    for result in results:
        if result["over_quota"] and result["action"] != "unchanged":
            used = ", ".join(f"{each['resource']} {each['used']} of {each['hard']}" for each in result["over_quota"])
            task.warn(
                f"quota {result['name']} in namespace {result['namespace']}: the usage exceeds the limits ({used}). "
                f"Running pods continue, but no new pod starts until the usage drops."
            )
    return {
        "changed": any(each.plan.changed for each in applied),
        "results": results,
        "diff": task.diff(lambda: (diff for each in applied for diff in diffs_of(each.plan))),
        "msg": action_summary(results, "namespace"),
    }


def _quota_result(applied: ApplyResult, planned: QuotaPlans) -> dict[str, Any]:
    plan = applied.plan
    found = next((obj for obj in applied.objects.values() if obj["kind"] == "ResourceQuota"), None)
    space = next((obj for obj in applied.objects.values() if obj["kind"] == "Namespace"), None)
    return {
        "name": plan.name or None,
        "namespace": plan.namespace,
        "description": description_of(found) if found else None,
        "action": str(plan.action),
        **(usage(found) if found else no_usage()),
        "pod_security": pod_security_of(space) if space else None,
        "over_quota": over_quota(found) if found else [],
        "other_quotas": planned.others.get(plan.namespace, []),
        "reason": planned.notes.get(plan.namespace),
        "resources": [resource_result(step) for step in (*plan.prerequisites, *plan.steps)],
    }
