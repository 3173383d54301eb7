# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_drift_info: report what differs between a directory and a cluster, by whom, and since when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...manifest.problems import enumerated, number_of, qualified_name
from ...options import option
from ...task import ModuleSpec, Task, TaskFailed
from ..directory.source_marks import unmarked_text
from .drift import Drift, DriftOptions, find_drift
from .drift_rows import ADDED, CHANGED, DRIFT_LEVELS, ERROR, INFO, MISSING, REMOVED, UNDECLARED, WARNING, Row

NEVER = "never"
_FAILING: Mapping[str, tuple[str, ...]] = {ERROR: (ERROR,), WARNING: (ERROR, WARNING), NEVER: ()}


@dataclass(frozen=True, kw_only=True)
class DriftInfoOptions(DriftOptions):
    fail_on: str = option("str", choices=list(_FAILING), default=NEVER)


def run(task: Task[DriftInfoOptions]) -> dict[str, Any]:
    """Raises TaskFailed with the report, if something is in it that ``fail_on`` names."""
    drift = find_drift(task)
    for text in drift.directory.warnings:
        task.warn(text)
    result = _drift_result(task.options, drift)
    if not result["passed"]:
        raise TaskFailed(str(result.pop("msg")), **result)
    return result


MODULE = ModuleSpec(DriftInfoOptions, run, report="drift")


def _drift_result(options: DriftInfoOptions, drift: Drift) -> dict[str, Any]:
    rows = sorted(drift.rows, key=lambda row: (DRIFT_LEVELS.index(row["level"]), row["manifest"], row["id"]))
    problems = [
        {"manifest": qualified_name(each.namespace, each.name) or None, "kind": each.kind, "problem": line}
        for each in drift.directory.problems
        for line in each.text.splitlines()
    ]
    levels = Counter(row["level"] for row in rows)
    failing = _FAILING[options.fail_on]
    return {
        "changed": False,
        "passed": not any(levels[level] for level in failing) and not (problems and failing),
        "results": rows,
        "undeclared": [
            {
                "id": qualified_name(each.kind, each.namespace, each.name),
                "kind": each.kind,
                "namespace": each.namespace or None,
                "name": each.name,
            }
            for each in drift.undeclared
        ],
        "source": options.source,
        "unmarked": len(drift.unmarked),
        "problems": problems,
        "counts": {level: levels[level] for level in DRIFT_LEVELS},
        "src": list(options.src),
        "msg": " ".join(
            filter(None, (drift_summary(rows, problems), unmarked_text(len(drift.unmarked)), _compared_jobs(drift)))
        ),
    }


def _compared_jobs(drift: Drift) -> str:
    """Where the jobs of the directory were looked for, if no row says it: it may be another place than was meant."""
    places = {namespace for namespace, _name in drift.directory.declared.get("job", ())} - {""}
    if not places or any(row["level"] != INFO for row in drift.rows):
        return ""
    names = enumerated(sorted(places), "and")
    return f"Jobs were compared in {'namespace' if len(places) == 1 else 'namespaces'} {names}."


_WORDS = {
    CHANGED: "changed",
    REMOVED: "removed",
    MISSING: "missing",
    ADDED: "added by others",
    UNDECLARED: "no longer declared",
}


def drift_summary(rows: Iterable[Row], problems: Sequence[Any] = ()) -> str:
    """``3 differences in 2 objects: 2 changed, 1 missing.`` What is no drift does not count."""
    counted = [row for row in rows if row["level"] != INFO]
    trouble = f" {number_of(len(problems), 'problem')}." if problems else ""
    if not counted:
        return f"Everything is as declared.{trouble}" if not problems else f"No differences.{trouble}"
    objects = {(row["kind"], row["namespace"], row["name"]) for row in counted}
    changes = Counter(row["change"] for row in counted)
    by_change = ", ".join(f"{changes[change]} {word}" for change, word in _WORDS.items() if changes[change])
    return f"{number_of(len(counted), 'difference')} in {number_of(len(objects), 'object')}: {by_change}.{trouble}"
