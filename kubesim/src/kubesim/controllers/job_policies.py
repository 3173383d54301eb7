# SPDX-License-Identifier: BSD-2-Clause
"""What the podFailurePolicy of a job says of a failed pod.

Source: pkg/controller/job/pod_failure_policy.go.
"""

from __future__ import annotations

from typing import NamedTuple

from .base import Object


class Verdict(NamedTuple):
    """action: that of the rule that matched, or None; counts: whether the failure counts towards backoffLimit."""

    action: str | None
    counts: bool
    message: str = ""


def judge_failure(policy: Object | None, pod: Object) -> Verdict:
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        why = _matched(rule, pod)
        if why:
            message = f"{why} matching {rule['action']} rule at index {index}"
            return Verdict(rule["action"], rule["action"] != "Ignore", message)
    return Verdict(None, True)


def _matched(rule: Object, pod: Object) -> str:
    metadata, status = pod["metadata"], pod.get("status", {})
    name = f"{metadata['namespace']}/{metadata['name']}"
    codes = rule.get("onExitCodes")
    if codes:
        for container in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
            code = container.get("state", {}).get("terminated", {}).get("exitCode", 0)
            named = codes.get("containerName") in (None, container["name"])
            if code != 0 and named and (code in codes["values"]) == (codes["operator"] == "In"):
                return f"Container {container['name']} for pod {name} failed with exit code {code}"
        return ""
    for condition in status.get("conditions") or ():
        for pattern in rule.get("onPodConditions") or ():
            if (condition["type"], condition["status"]) == (pattern["type"], pattern.get("status", "True")):
                return f"Pod {name} has condition {condition['type']}"
    return ""
