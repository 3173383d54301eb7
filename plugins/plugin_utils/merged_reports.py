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

from ..module_utils.insight.idle.idle_rules import idle_summary
from ..module_utils.manifest.problems import enumerated
from .screens import limits_of_clusters, own_namespace_texts

Result = Mapping[str, Any]


class UnfitResults(ValueError):
    """The results cannot be shown as one; the text says why."""


def merged_result(clusters: Mapping[str, Any]) -> Result:
    """The result of each cluster that has one. Raises UnfitResults if none has, or if they are not of one report."""
    read = {name: result for name, result in clusters.items() if isinstance(result, Mapping) and "results" in result}
    names = {str(result.get("report")) for result in read.values()}
    if not read:
        messages = (each.get("msg") if isinstance(each, Mapping) else None for each in clusters.values())
        raise UnfitResults("\n".join(dict.fromkeys(str(message) for message in messages if message)) or "no result")
    if len(names) > 1 or not names <= _MERGES.keys():
        raise UnfitResults(f"O(clusters): {enumerated(sorted(names), 'and')} is no report of several clusters.")
    rows = [{"cluster": name, **row} for name, result in read.items() for row in result["results"]]
    (report,) = names
    return {
        **next(iter(read.values())),
        "results": rows,
        **_MERGES[report](rows, read),
        "namespace": None,
        "clusters": [
            {"cluster": name, "namespace": read.get(name, {}).get("namespace"), "unreadable": {}} for name in clusters
        ],
        "missing": [name for name in clusters if name not in read],
    }


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
    notes: dict[str, list[str]] = defaultdict(list)
    for name, result in read.items():
        for note in result["notes"]:
            notes[note].append(name)
    return {
        "results": sorted(rows, key=lambda row: -row["held_hours"]),
        "group_by": ["cluster", *results[0]["group_by"]],
        "start": min(result["start"] for result in results),
        "end": max(result["end"] for result in results),
        "totals": _sum_of_usage([result["totals"] for result in results]),
        "capacity_hours": _sum_if_all(result["capacity_hours"] for result in results),
        "unallocated_hours": _sum_if_all(result["unallocated_hours"] for result in results),
        "source": "; ".join(dict.fromkeys(result["source"] for result in results)),
        "notes": [
            note if len(names) == len(read) else f"{enumerated(names, 'and')}: {note}" for note, names in notes.items()
        ],
    }


_ADDED = (
    *("gpu_hours", "held_hours", "busy_hours", "idle_hours", "queued_hours", "estimated_hours", "energy_kwh"),
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
        **{name: _sum(total[name] for total in totals) for name in _ADDED},
        "coverage": round(sum(measured) / held, 4) if measured and held else None,
        "peak_memory_bytes": max((total["peak_memory_bytes"] or 0 for total in totals), default=0) or None,
    }


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 4) if known else None


def _sum_if_all(values: Iterable[float | None]) -> float | None:
    found = list(values)
    return None if None in found else _sum(found)


def _merged_idle(rows: list[dict[str, Any]], _read: Mapping[str, Result]) -> dict[str, Any]:
    return {
        "results": sorted(rows, key=lambda row: not row["idle"]),
        "msg": idle_summary(rows),
    }


_MERGES: Mapping[str, Callable[[list[dict[str, Any]], Mapping[str, Result]], dict[str, Any]]] = {
    "usage": _merged_usage,
    "idle_jobs": _merged_idle,
}
