# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the same task has found in several clusters, as one result of the same report. Pure.

Each row names its ``cluster``. Sums are those of the clusters that were read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..module_utils.insight.advice.advice_rules import FIELDS
from ..module_utils.insight.budgets.budget_rules import budget_summary
from ..module_utils.insight.drift.drift_rows import DRIFT_LEVELS
from ..module_utils.insight.fit.verdicts import NOW, VERDICTS, fit_summary
from ..module_utils.insight.idle.idle_rules import idle_summary
from ..module_utils.insight.limits.end_rules import expire_summary
from ..module_utils.manifest.problems import enumerated
from .screens import limits_of_clusters, own_namespace_texts

Result = Mapping[str, Any]


class UnfitResults(ValueError):
    """The results cannot be shown as one; the text says why."""


def merged_result(clusters: Mapping[str, Any]) -> Result:
    """The result of each cluster that has one. Raises UnfitResults if none has, or if they are not of one report."""
    read = {
        name: result for name, result in clusters.items() if isinstance(result, Mapping) and _rows(result) is not None
    }
    names = {str(result.get("report")) for result in read.values()}
    if not read:
        messages = (each.get("msg") if isinstance(each, Mapping) else None for each in clusters.values())
        raise UnfitResults("\n".join(dict.fromkeys(str(message) for message in messages if message)) or "no result")
    if len(names) > 1 or not names <= _MERGES.keys():
        raise UnfitResults(f"O(clusters): {enumerated(sorted(names), 'and')} is no report of several clusters.")
    rows = [{"cluster": name, **row} for name, result in read.items() for row in _rows(result) or ()]
    (report,) = names
    return {
        **next(iter(read.values())),
        "results": rows,
        "msg": _summaries(read),
        **_MERGES[report](rows, read),
        "namespace": None,
        "clusters": [
            {"cluster": name, "namespace": read.get(name, {}).get("namespace"), "unreadable": {}} for name in clusters
        ],
        "missing": [name for name in clusters if name not in read],
    }


def _rows(result: Result) -> Sequence[Result] | None:
    rows: Sequence[Result] | None = result.get("results", result.get("checks"))
    return rows


def _summaries(read: Mapping[str, Result]) -> str:
    """What each cluster's result says, those that say the same together."""
    return " ".join(_named_by_cluster({name: [str(result.get("msg") or "")] for name, result in read.items()}))


def _named_by_cluster(texts: Mapping[str, Iterable[str]]) -> list[str]:
    """Each text once, after the names of the clusters that it is about."""
    return [f"{enumerated(those, 'and')}: {text}" for text, those in _clusters_by_text(texts).items() if text]


def _clusters_by_text(texts: Mapping[str, Iterable[str]]) -> Mapping[str, list[str]]:
    names: dict[str, list[str]] = defaultdict(list)
    for name, own in texts.items():
        for text in own:
            names[text].append(name)
    return names


def limit_texts(result: Result) -> list[str]:
    """What a result does not cover: other namespaces, and clusters that could not be read."""
    missing = result.get("missing") or ()
    verb = "is" if len(missing) == 1 else "are"
    return [
        *own_namespace_texts(result.get("namespace")),
        *limits_of_clusters(result.get("clusters") or ()),
        *([f"{enumerated(missing, 'and')} could not be read, and {verb} missing here."] if missing else []),
    ]


def _merged_usage(rows: list[dict[str, Any]], read: Mapping[str, Result]) -> dict[str, Any]:
    results = list(read.values())
    shared = set.intersection(*(set(result["notes"]) for result in results))
    own = {name: [note for note in result["notes"] if note not in shared] for name, result in read.items()}
    return {
        "results": sorted(rows, key=lambda row: (row.get("month", ""), -row["held_hours"])),
        "group_by": ["cluster", *results[0]["group_by"]],
        "start": min(result["start"] for result in results),
        "end": max(result["end"] for result in results),
        "totals": _sum_of_usage([result["totals"] for result in results]),
        "capacity_hours": _sum_if_all(result["capacity_hours"] for result in results),
        "unallocated_hours": _sum_if_all(result["unallocated_hours"] for result in results),
        "source": "; ".join(dict.fromkeys(result["source"] for result in results)),
        "notes": [*(note for note in results[0]["notes"] if note in shared), *_named_by_cluster(own)],
    }


_ADDED = (
    *("gpu_hours", "held_hours", "busy_hours", "idle_hours", "stuck_hours", "queued_hours", "estimated_hours"),
    *("energy_kwh", "opportunistic_hours", "gpus_given_back", "gpus_reclaimed", "reclaimed_hours"),
    *("cost", "unpriced_hours", "jobs", "pods"),
)


def _sum_of_usage(totals: Sequence[Result]) -> dict[str, Any]:
    """What is known of some clusters only counts for these; the part that was measured says so."""
    devices: dict[tuple[str, str], dict[str, Any]] = {}
    for row in (row for total in totals for row in total["accelerators"]):
        hours = devices.get((row["resource"], row["counts"]), {"hours": 0.0})["hours"]
        devices[row["resource"], row["counts"]] = {**row, "hours": round(hours + row["hours"], 4)}
    held = sum(total["held_hours"] for total in totals)
    measured = [total["coverage"] * total["held_hours"] for total in totals if total["coverage"] is not None]
    return {
        "accelerators": [devices[key] for key in sorted(devices)],
        **{name: _total_of(total[name] for total in totals) for name in _ADDED},
        "coverage": round(sum(measured) / held, 4) if measured and held else None,
        "peak_memory_bytes": max((total["peak_memory_bytes"] or 0 for total in totals), default=0) or None,
    }


def _total_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 4) if known else None


def _sum_if_all(values: Iterable[float | None]) -> float | None:
    found = list(values)
    return None if None in found else _total_of(found)


def _merged_advice(rows: list[dict[str, Any]], read: Mapping[str, Result]) -> dict[str, Any]:
    """The fields in the order of one cluster, and of each what saves most first."""
    results = list(read.values())
    return {
        "results": sorted(rows, key=lambda row: (FIELDS.index(row["what"]), -row["saved_hours"])),
        **_rows_of_clusters(read, "unknown"),
        "unmeasured": [f"{name}/{job}" for name, result in read.items() for job in result["unmeasured"]],
        "start": min(result["start"] for result in results),
        "end": max(result["end"] for result in results),
        "totals": {name: _total_of(result["totals"][name] for result in results) for name in results[0]["totals"]},
        "notes": _named_by_cluster({name: result["notes"] for name, result in read.items()}),
    }


def _merged_idle(rows: list[dict[str, Any]], read: Mapping[str, Result]) -> dict[str, Any]:
    found = [{"cluster": name, **row} for name, result in read.items() for row in result.get("findings") or ()]
    return {
        "results": sorted(rows, key=lambda row: not row["idle"]),
        "findings": found,
        "msg": idle_summary(rows, found),
    }


def _merged_ends(rows: list[dict[str, Any]], _read: Mapping[str, Result]) -> dict[str, Any]:
    return {
        "results": sorted(rows, key=lambda row: row["ends_at"] or "~"),  # after all times
        "msg": expire_summary(rows),
    }


def _merged_budgets(rows: list[dict[str, Any]], read: Mapping[str, Result]) -> dict[str, Any]:
    return {
        "results": rows,
        "notes": _named_by_cluster({name: result["notes"] for name, result in read.items()}),
        "msg": budget_summary(rows),
    }


def _merged_drift(rows: list[dict[str, Any]], read: Mapping[str, Result]) -> dict[str, Any]:
    return {
        "results": sorted(rows, key=lambda row: DRIFT_LEVELS.index(row["level"])),
        **_rows_of_clusters(read, "undeclared", "problems"),
        "passed": all(result["passed"] for result in read.values()),
        "unmarked": sum(result["unmarked"] for result in read.values()),
        "counts": _sums(result["counts"] for result in read.values()),
    }


def _merged_plan(_rows: list[dict[str, Any]], read: Mapping[str, Result]) -> dict[str, Any]:
    """Only to be looked at: each cluster has a plan of its own, which no other can be brought to."""
    return {
        **_rows_of_clusters(read, "problems", "not_declared", "pools", "nodes", "teams", "quotas"),
        "notes": _named_by_cluster({name: result["notes"] for name, result in read.items()}),
        "unchanged": sum(result["unchanged"] for result in read.values()),
        "totals": _sums(result["totals"] for result in read.values()),
        "made_at": max(result["made_at"] for result in read.values()),
        "plan": None,
    }


def _merged_doctor(rows: list[dict[str, Any]], read: Mapping[str, Result]) -> dict[str, Any]:
    return {
        "checks": rows,
        "passed": all(result["passed"] for result in read.values()),
        "hint": " ".join(_named_by_cluster({name: [result["hint"] or ""] for name, result in read.items()})) or None,
        "counts": _sums(result["counts"] for result in read.values()),
    }


def _merged_fit(rows: list[dict[str, Any]], read: Mapping[str, Result]) -> dict[str, Any]:
    """Of each job, first the clusters in which it runs soonest."""
    places = {name: place for place, name in enumerate(dict.fromkeys(row["name"] for row in rows))}
    own = {name: result["not_judged"] for name, result in read.items()}
    return {
        "results": sorted(rows, key=lambda row: (places[row["name"]], VERDICTS.index(row["verdict"]))),
        "msg": _where_they_fit(read),
        "not_judged": [f"{text} ({enumerated(those, 'and')})" for text, those in _clusters_by_text(own).items()],
    }


def _where_they_fit(read: Mapping[str, Result]) -> str:
    jobs = max((result["results"] for result in read.values()), key=len)
    if not jobs:
        return fit_summary(jobs)
    them = f"job {jobs[0]['name']}" if len(jobs) == 1 else f"all {len(jobs)} jobs"
    now = [name for name, result in read.items() if {row["verdict"] for row in result["results"]} == {NOW}]
    if not now:
        return f"No cluster would run {them} now."
    return f"{enumerated(now, 'and')} would run {them} now. Submit there with --limit {now[0]}."


def _rows_of_clusters(read: Mapping[str, Result], *keys: str) -> dict[str, list[Result]]:
    """The rows of these lists, each with its cluster."""
    return {key: [{"cluster": name, **row} for name, result in read.items() for row in result[key]] for key in keys}


def _sums(counts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """``{"error": 1}`` and ``{"error": 2}`` -> ``{"error": 3}``"""
    found = list(counts)
    return {name: sum(each[name] for each in found) for name in found[0]}


_MERGES: Mapping[str, Callable[[list[dict[str, Any]], Mapping[str, Result]], dict[str, Any]]] = {
    "usage": _merged_usage,
    "advice": _merged_advice,
    "idle_jobs": _merged_idle,
    "ended_jobs": _merged_ends,
    "budgets": _merged_budgets,
    "drift": _merged_drift,
    "plan": _merged_plan,
    "doctor": _merged_doctor,
    "fit": _merged_fit,
}
