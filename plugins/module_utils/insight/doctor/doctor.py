# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_doctor: examine a cluster, and fail if something is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...kube.features import OLDEST, minor_version, missing_features
from ...manifest.problems import enumerated, number_of
from ...options import option
from ...permissions import grant_text
from ...task import ModuleSpec, Task, TaskFailed
from ..prometheus.prometheus_options import PrometheusOptions
from .checks import ERROR, UNKNOWN, WARNING, examine
from .snapshot import Snapshot, read_snapshot

NEVER = "never"
_FAILING: Mapping[str, tuple[str, ...]] = {ERROR: (ERROR,), WARNING: (ERROR, WARNING), NEVER: ()}


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(PrometheusOptions):
    fail_on: str = option("str", choices=list(_FAILING), default=ERROR)
    all: bool = option("bool", default=False)
    show: bool = option("bool", default=True)


def run(task: Task[DoctorOptions]) -> dict[str, Any]:
    """Sends only GET requests, whose number does not depend on the size of the cluster, except for pages of lists."""
    snapshot = read_snapshot(task)
    checks = examine(snapshot)
    counts = Counter(finding["level"] for check in checks for finding in check["findings"])
    unknown = sum(check["status"] == UNKNOWN for check in checks)
    passed = not any(counts[level] for level in _FAILING[task.options.fail_on])
    result = {
        "changed": False,
        "report": "doctor",
        "passed": passed,
        "checks": checks,
        "server_version": snapshot.version or None,
        "hint": _grant_hint(snapshot),
        "counts": {ERROR: counts[ERROR], WARNING: counts[WARNING], UNKNOWN: unknown},
        "msg": f"{_checks_summary(checks)}{_missing(snapshot)}",
    }
    if not passed:
        raise TaskFailed(str(result.pop("msg")), **result)
    return result


MODULE = ModuleSpec(DoctorOptions, run)


def _grant_hint(snapshot: Snapshot) -> str | None:
    """Once for all checks: one command grants what most of them lack."""
    return grant_text(snapshot.missing.values()) if snapshot.missing else None


def _missing(snapshot: Snapshot) -> str:
    """What the version lacks is nothing wrong, but good to know."""
    version = minor_version(snapshot.version)
    missing = missing_features(version, snapshot.groups) if version and version >= OLDEST else ()
    if not missing:
        return ""
    names = enumerated([each.title for each in missing], "and")
    return f" Kubernetes {snapshot.version} lacks {names}. What follows is in check api_version, with O(all=true)."


def _checks_summary(checks: Sequence[Mapping[str, Any]]) -> str:
    """As many checks as the table below it has rows; one check may find the same on a hundred nodes."""
    counts = Counter(check["status"] for check in checks)
    found = [f"{counts[level]} with {level}s" for level in (ERROR, WARNING) if counts[level]]
    text = f"{number_of(len(checks), 'check')}: {', '.join(found) or 'nothing wrong'}"
    return f"{text}; {counts[UNKNOWN]} not known." if counts[UNKNOWN] else f"{text}."
