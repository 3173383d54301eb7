# SPDX-License-Identifier: BSD-2-Clause
"""What the policies of a job say: podFailurePolicy of a failed pod, successPolicy of the indexes that succeeded.

Source: pkg/controller/job/pod_failure_policy.go, success_policy.go.
"""

from __future__ import annotations

from typing import NamedTuple

from . import job_indexes
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


def met_success_rule(policy: Object | None, completions: int, succeeded: set[int]) -> int | None:
    """The number of the first rule that is met, or None."""
    if not succeeded:
        return None
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        wanted_count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            wanted = job_indexes.parse(rule["succeededIndexes"], completions)
            have = len(wanted & succeeded)
            if wanted and (have == len(wanted) or (wanted_count is not None and have >= wanted_count)):
                return number
        elif wanted_count is not None and len(succeeded) >= wanted_count:
            return number
    return None
