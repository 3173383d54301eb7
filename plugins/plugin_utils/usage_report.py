# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The accounts of accelerators as a report and as a table for spreadsheets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..module_utils.accelerators.catalog import bytes_in
from ..module_utils.manifest.problems import number_of
from .merged_reports import limit_texts
from .report import Bar, Bars, Figures, Notes, Report, Row, Section, Table, Text
from .spreadsheet import csv_text
from .text_table import Column, time_range

_TITLES = {
    "cluster": "CLUSTER",
    "job": "JOB",
    "user": "USER",
    "team": "TEAM",
    "pool": "POOL",
    "sweep": "SWEEP",
    "gpu_type": "GPU TYPE",
    "month": "MONTH",
}
_MOST_BARS = 30
_MUCH = 0.1
_UNITS = {"memory": "GiB·h", "cores": "%·h"}
_UNKNOWN = "not known"


def usage_report(result: Mapping[str, Any]) -> Report:
    """The hours of each group, the sum of all, and what the figures do not say."""
    rows, names = result["results"], result["group_by"]
    title = f"GPU usage by {' and '.join('GPU type' if name == 'gpu_type' else name for name in names)}"
    none = [] if rows else [Text(f"{time_range(result)}: no GPU was held.")]
    return Report(
        title,
        [
            Section(
                "",
                [Text(text) for text in (time_range(result), *_capacity_notes(result)) if rows],
                on="screen",
                tight=True,
            ),
            Section("", [Figures(_usage_figures(result))], on="page"),
            Section("Who held them", [_usage_bars(rows, names)] if rows else [], on="page"),
            Section("Figures", [_usage_table(result)] if rows else []),
            Section("", [*none, Notes([*limit_texts(result), *result["notes"], *_next_steps(result["totals"])])]),
            Section("How to read this", [Notes(_meaning(result["totals"]))], on="page"),
        ],
        lead=time_range(result),
        footer=f"runwhere.gpuctl, from {result['source']}.",
    )


def _next_steps(totals: Row) -> Iterable[str]:
    """Where much was not used, what finds out why."""
    known = (totals["busy_hours"] or 0) + (totals["idle_hours"] or 0)
    if known and totals["idle_hours"] >= known * _MUCH:
        share, hours = 100 * totals["idle_hours"] / known, _hours_text(totals["idle_hours"])
        yield (
            f"{share:.0f} % of the measured hours ({hours} h) were not used. The playbook advise says which jobs ask "
            "for too much, and idle which ones do nothing."
        )


def _usage_table(result: Mapping[str, Any]) -> Table:
    rows, names = result["results"], result["group_by"]
    groups = [Column(name, _TITLES[name], least=10) for name in names]
    parts = _part_columns(rows)
    figures = [
        Column("busy", "BUSY h", numeric=True),
        Column("idle", "IDLE h", numeric=True),
        Column("stuck", "NEVER BUSY h", drop=4, optional=True, numeric=True),
        Column("covered", "MEASURED", numeric=True, on="page"),
        Column("queued", "QUEUED h", drop=2, numeric=True),
        Column("yields", "OPPORTUNISTIC h", drop=4, optional=True, numeric=True),
        Column("given", "GIVEN BACK", drop=5, optional=True, numeric=True),
        Column("reclaimed", "RECLAIMED h", drop=4, optional=True, numeric=True),
        Column("energy", "kWh", drop=4, optional=True, numeric=True),
        Column("memory", "PEAK GiB", drop=5, optional=True, numeric=True),
        Column("cost", f"COST {result['currency'] or ''}".rstrip(), optional=True, numeric=True),
        Column("jobs", "JOBS", drop=3, numeric=True),
    ]
    totals = {**dict.fromkeys(names, ""), names[0]: "TOTAL", **_usage_cells(result["totals"])}
    whole = Column("whole", "GPU h", numeric=True)
    table = Table([*groups, whole, *figures], [_usage_cells(row) for row in rows], "Hours by group", totals=totals)
    held = Table(
        [*groups, Column("part", "PARTITION OR SHARE"), Column("amount", "HELD", numeric=True)],
        [row for part in parts for row in _part_rows(part, [*table.rows, totals])],
        "Partitions and shares by group",
    )
    columns = [*groups, whole, *parts, *figures]
    return replace(table, columns=columns, keep=[part.key for part in parts], narrow=[table, held])


def _part_rows(part: Column, cells: Iterable[Row]) -> list[Row]:
    """A row for each group that held of the partition or share."""
    name, _space, unit = part.title.rpartition(" ")
    return [{**cell, "part": name, "amount": f"{cell[part.key]} {unit}"} for cell in cells if part.key in cell]


def usage_csv(result: Mapping[str, Any]) -> str:
    """A row for each group and resource; what is not known is an empty cell."""
    names = result["group_by"]
    figures = (
        *("gpu_hours", "held_hours", "busy_hours", "idle_hours", "stuck_hours", "queued_hours"),
        *("coverage", "estimated_hours", "opportunistic_hours", "gpus_given_back", "gpus_reclaimed", "reclaimed_hours"),
        *("peak_memory_bytes", "energy_kwh", "cost", "unpriced_hours", "jobs", "pods"),
    )
    resources = sorted({each["resource"] for row in result["results"] for each in row["accelerators"]})
    head = [*names, *figures, *(f"{resource} hours" for resource in resources), "start", "end", "currency"]
    rows = []
    for row in result["results"]:
        held = {each["resource"]: each["hours"] for each in row["accelerators"]}
        ends = [result["start"], result["end"], result["currency"]]
        rows.append(
            [row[name] for name in names]
            + [row[name] for name in figures]
            + [held.get(resource, 0) for resource in resources]
            + ends
        )
    return csv_text(head, rows)


def _usage_figures(result: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    totals = result["totals"]
    held = f"of {totals['held_hours']:,.1f} h with partitions and shares"
    found = [
        ("GPU-hours held", _hours_text(totals["gpu_hours"]), held if totals["held_hours"] > totals["gpu_hours"] else "")
    ]
    if totals["busy_hours"] is None:
        found.append(("Busy", _UNKNOWN, "no Prometheus was asked, or it knows nothing"))
    else:
        known = totals["busy_hours"] + totals["idle_hours"]
        share = f"{100 * totals['busy_hours'] / known:.0f} %" if known else _UNKNOWN
        found.append(("Busy", share, f"of the {_percent_text(totals['coverage'])} that is measured"))
        never = f", {_hours_text(totals['stuck_hours'])} h of them by pods that never were busy"
        idle = f"held, and not used{never if totals['stuck_hours'] else ''}"
        found.append(("Idle", f"{_hours_text(totals['idle_hours'])} h", idle))
    found.append(("Queued", f"{_hours_text(totals['queued_hours'])} h", "GPUs that pods waited for"))
    if totals["opportunistic_hours"]:
        given = f"of jobs that yield, which gave back {number_of(totals['gpus_given_back'], 'GPU')}"
        found.append(("Opportunistic", f"{_hours_text(totals['opportunistic_hours'])} h", given))
    if totals["gpus_reclaimed"] or totals["reclaimed_hours"]:
        given = f"not held by jobs that gpuctl_idle stopped; {number_of(totals['gpus_reclaimed'], 'GPU')} given back"
        found.append(("Reclaimed", f"{_hours_text(totals['reclaimed_hours'])} h", given))
    if totals["cost"] is not None:
        found.append(("Cost", f"{totals['cost']:,.2f}", result["currency"]))
    if result["unallocated_hours"] is not None:
        found.append(
            (
                "Not held",
                f"{_hours_text(result['unallocated_hours'])} h",
                f"of {_hours_text(result['capacity_hours'])} h in all",
            )
        )
    if totals["energy_kwh"] is not None:
        found.append(("Energy", f"{totals['energy_kwh']:,.1f}", "kWh while held"))
    return found


def _usage_bars(rows: Sequence[Row], names: Sequence[str]) -> Bars:
    bars = [_usage_bar(row, names) for row in rows[:_MOST_BARS] if row["held_hours"]]
    legend = [name for name in ("busy", "idle", _UNKNOWN) if any(name in dict(each.segments) for each in bars)]
    first = f"Held, the first {_MOST_BARS} of {len(rows)}" if len(rows) > _MOST_BARS else "Held"
    return Bars(first, bars, legend, unit="hours of GPUs, partitions and shares")


def _usage_bar(row: Row, names: Sequence[str]) -> Bar:
    held = row["held_hours"]
    if row["busy_hours"] is None:
        segments = [(_UNKNOWN, held)]
    else:
        unknown = max(0.0, held - row["busy_hours"] - row["idle_hours"])
        segments = [("busy", row["busy_hours"]), ("idle", row["idle_hours"])]
        segments += [(_UNKNOWN, unknown)] if unknown > 0.005 * held else []
    return Bar(" · ".join(str(row[name]) for name in names), segments, f"{held:,.1f} h")


def _meaning(totals: Row) -> list[str]:
    found = [
        "Held: from when a pod is bound to a node until it ends, whatever it does meanwhile. No other pod gets it.",
        "Queued: GPUs times the time that pods waited for a node.",
    ]
    if totals["busy_hours"] is not None:
        found.append("Busy and idle: what exporters measured. What they did not tell is neither.")
    if totals["stuck_hours"]:
        found.append("Never busy: of the idle hours, those of pods that did nothing in all of the range.")
    if totals["opportunistic_hours"]:
        found.append("Opportunistic: of the held hours, those of jobs that yield. Given back: GPUs of preempted pods.")
    if totals["gpus_reclaimed"] or totals["reclaimed_hours"]:
        found.append(
            "Reclaimed: GPUs of jobs that gpuctl_idle has paused or deleted, times the time until the paused "
            "ones were resumed or deleted. They were not held, so they are in no other figure of the job."
        )
    if any(each["counts"] != "devices" for each in totals["accelerators"]):
        found.append(
            "Partitions and shares have columns of their own, in their own units: how much of a GPU one is depends on "
            "the GPU, so they are not added to GPU-hours."
        )
    return found


def _usage_cells(row: Row) -> dict[str, Any]:
    held = {each["resource"]: _held_amount(each) for each in row["accelerators"] if each["counts"] != "devices"}
    memory, energy, cost = row["peak_memory_bytes"], row["energy_kwh"], row["cost"]
    return {
        **row,
        "whole": _hours_text(row["gpu_hours"]),
        **{f"part {resource}": _hours_text(hours) for resource, hours in held.items()},
        "busy": "?" if row["busy_hours"] is None else _hours_text(row["busy_hours"]),
        "idle": "?" if row["idle_hours"] is None else _hours_text(row["idle_hours"]),
        "stuck": _hours_text(row["stuck_hours"]) if row["stuck_hours"] else None,
        "covered": "?" if row["coverage"] is None else _percent_text(row["coverage"]),
        "queued": _hours_text(row["queued_hours"]),
        "yields": _hours_text(row["opportunistic_hours"]) if row["opportunistic_hours"] else None,
        "given": f"{row['gpus_given_back']:,}" if row["opportunistic_hours"] else None,
        "reclaimed": _hours_text(row["reclaimed_hours"]) if row["gpus_reclaimed"] or row["reclaimed_hours"] else None,
        "memory": None if memory is None else f"{memory / 2**30:,.1f}",
        "energy": None if energy is None else f"{energy:,.1f}",
        "cost": None if cost is None else f"{cost:,.2f}",
        "jobs": f"{row['jobs']:,}",
    }


def _part_columns(rows: Iterable[Row]) -> list[Column]:
    """A column for each partition or share that was held."""
    parts = {each["resource"]: each for row in rows for each in row["accelerators"] if each["counts"] != "devices"}
    return [
        Column(f"part {name}", f"{each['partition'] or name} {_UNITS.get(each['counts'], 'h')}", drop=6, numeric=True)
        for name, each in sorted(parts.items())
    ]


def _held_amount(held: Row) -> float:
    """Hours of a partition or share; of memory, GiB times hours, whatever its resource counts in."""
    hours: float = held["hours"]
    return hours * bytes_in(held["unit"]) / 2**30 if held["counts"] == "memory" else hours


def _hours_text(hours: float) -> str:
    return f"{hours:,.1f}"


def _percent_text(part: float | None) -> str:
    return _UNKNOWN if part is None else f"{100 * part:.0f} %"


def _capacity_notes(result: Mapping[str, Any]) -> list[str]:
    if result["capacity_hours"] is None:
        return []
    free, capacity = result["unallocated_hours"], result["capacity_hours"]
    share = f" ({100 * free / capacity:.0f} %)" if capacity else ""
    return [f"Of {_hours_text(capacity)} GPU-hours, {_hours_text(free)}{share} were not held."]
