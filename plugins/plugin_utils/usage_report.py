# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The accounts of accelerators, and the runs of jobs, as a screen, a table for spreadsheets, and a page. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators import bytes_in
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.problems import number_of
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import (
    Bar,
    Markup,
    PageColumn,
    badge,
    bar_chart,
    code,
    disclosure,
    html_page,
    items,
    page_table,
    paragraph,
    section,
    tiles,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import (
    Paint,
    joined_blocks,
    reasons_block,
    wrapped,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.text_table import Column, table_lines

Row = Mapping[str, Any]

_TITLES = {"job": "Job", "user": "User", "team": "Team", "pool": "Pool", "sweep": "Sweep", "gpu_type": "GPU type"}
_FIRST_ROWS = 20
_MOST_BARS = 30
_UNITS = {"memory": "GiB·h", "cores": "%·h"}
_ALL = "Add -e gpuctl_all=true to list all."
_UNKNOWN = "not known"
_UNFINISHED = "Running"
_LEVELS = {"Succeeded": "good", "Failed": "bad", _UNFINISHED: "neutral", "Unknown": "warning"}


def is_usage(result: Mapping[str, Any]) -> bool:
    """Whether gpuctl_usage_info has returned this."""
    return "group_by" in result and "totals" in result


def is_history(result: Mapping[str, Any]) -> bool:
    """Whether gpuctl_job_history_info has returned this."""
    return "results" in result and "total" in result


# -- screens


def usage_screen(result: Mapping[str, Any], width: int, *, everything: bool) -> list[str]:
    """The hours of each group, the sum of all, and what the figures do not say."""
    rows, names = result["results"], result["group_by"]
    if not rows:
        return [*wrapped(f"{_range(result)}: nobody held a GPU.", width), *_notes(result, width)]
    shown = rows if everything or len(rows) <= _FIRST_ROWS + 1 else rows[:_FIRST_ROWS]
    totals = {**dict.fromkeys(names, ""), names[0]: "TOTAL", **result["totals"]}
    cells = [_usage_cells(row, "?") for row in (*shown, totals)]
    currency = f" {result['currency']}" if result["currency"] else ""
    groups = [Column(name, _TITLES[name].upper(), least=10) for name in names]
    whole, *parts = _held_columns(rows)
    columns = [
        *groups,
        whole,
        *parts,
        Column("busy", "BUSY h", numeric=True),
        Column("idle", "IDLE h", numeric=True),
        Column("queued", "QUEUED h", drop=2, numeric=True),
        Column("energy", "kWh", drop=4, optional=True, numeric=True),
        Column("memory", "PEAK GiB", drop=5, optional=True, numeric=True),
        Column("cost", f"COST{currency}", optional=True, numeric=True),
        Column("jobs", "JOBS", drop=3, numeric=True),
    ]
    lines = table_lines(cells, columns, width)
    if any(part.title not in lines[0] for part in parts):  # There is no room for all of them.
        lines = table_lines(cells, [column for column in columns if column not in parts], width)
        lines += ["", *_parts_table(cells, groups, parts, width)]
    rest = [f"… and {number_of(len(rows) - len(shown), 'more row')}. {_ALL}"] if len(shown) < len(rows) else []
    head = [_range(result), *_capacity(result, width), ""]
    return [*head, *lines, *rest, *_notes(result, width)]


def _parts_table(cells: Sequence[Row], groups: Sequence[Column], parts: Sequence[Column], width: int) -> list[str]:
    """Partitions and shares, a row for each that a group held."""
    rows = []
    for part in parts:
        name, _space, unit = part.title.rpartition(" ")
        rows += [{**cell, "part": name, "amount": f"{cell[part.key]} {unit}"} for cell in cells if part.key in cell]
    columns = [*groups, Column("part", "PARTITION OR SHARE"), Column("amount", "HELD", numeric=True)]
    return table_lines(rows, columns, width)


def history_screen(result: Mapping[str, Any], width: int, *, everything: bool, paint: Paint) -> list[str]:
    """The runs, the newest first, and what those that failed said last."""
    rows = result["results"]
    if not rows:
        return ["No runs."]
    shown = rows if everything or len(rows) <= _FIRST_ROWS + 1 else rows[:_FIRST_ROWS]
    columns = (
        Column("name", "NAME", least=14),
        Column("namespace", "NAMESPACE", least=9),
        Column("status", "RESULT"),
        Column("exit_code", "EXIT", drop=3, optional=True),
        Column("started", "STARTED (UTC)", drop=2),
        Column("took", "TOOK", numeric=True),
        Column("hours", "GPU-HOURS", numeric=True),
        Column("user", "USER", drop=4, least=8, optional=True),
    )
    lines = table_lines([_history_cells(row) for row in shown], columns, width, paint)
    more = result["total"] - len(shown)
    rest = [f"… and {number_of(more, 'more run')}. {_ALL}"] if more > 0 else []
    failed = [row for row in shown if row["log"]][: None if everything else 2]
    logs: list[str] = []
    for row in failed:
        logs += ["", f"The last lines of {row['namespace']}/{row['name']}:"]
        logs += [f"  {line}" for line in (row["log"] if everything else row["log"][-5:])]
    head = str(result.get("msg") or f"{number_of(result['total'], 'run')}:")
    return [*wrapped(head, width), *lines, *rest, *logs]


def is_recorded(result: Mapping[str, Any]) -> bool:
    """Whether gpuctl_job_history has returned this."""
    return any("new_runs" in row for row in result.get("results") or ())


def recorded_screen(result: Mapping[str, Any], width: int) -> list[str]:
    """How many runs each namespace has on record, and what is new."""
    columns = (
        Column("namespace", "NAMESPACE", least=9),
        Column("runs", "RUNS", numeric=True),
        Column("new_runs", "NEW", numeric=True),
        Column("new_ends", "ENDED", numeric=True),
        Column("removed_runs", "REMOVED", numeric=True),
    )
    rows = result["results"]
    errors = reasons_block([{**row, "reason": row["error"]} for row in rows], width, room=None)
    summary = wrapped(str(result["msg"]).splitlines()[-1], width)
    return joined_blocks([table_lines(rows, columns, width), errors, summary])


# -- tables for spreadsheets


def usage_csv(result: Mapping[str, Any]) -> str:
    """A row for each group and resource; what is not known is an empty cell."""
    names = result["group_by"]
    figures = (
        *("gpu_hours", "held_hours", "busy_hours", "idle_hours", "queued_hours", "coverage", "estimated_hours"),
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
    return _csv(head, rows)


def history_csv(result: Mapping[str, Any]) -> str:
    """A row for each run."""
    names = (
        *("namespace", "name", "kind", "result", "exit_code", "submitted_at", "started_at", "finished_at"),
        *("duration_seconds", "gpu_hours", "partition_hours", "gpu_hours_exact", "preemptions", "user", "submitted_by"),
        *("pool", "priority", "sweep", "gpu_type", "image", "manifest_digest", "uid"),
    )
    return _csv(names, [[row[name] for name in names] for row in result["results"]])


def _csv(head: Iterable[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([spreadsheet_cell(each) for each in head])
    writer.writerows([spreadsheet_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


# A spreadsheet takes a cell that begins with one of these for a formula, which may read files and open addresses
# (OWASP, CSV Injection); the last four are full-width. Names of users and jobs come from outside.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def spreadsheet_cell(value: Any) -> Any:
    """The cell, with a quote before what would be a formula."""
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


# -- pages


def usage_page(result: Mapping[str, Any]) -> str:
    """The accounts as a page."""
    totals, rows, names = result["totals"], result["results"], result["group_by"]
    title = f"GPU usage by {' and '.join(_TITLES[name] if name == 'gpu_type' else name for name in names)}"
    blocks = [tiles(_tiles(result))]
    if rows:
        bars = [_bar(row, names) for row in rows[:_MOST_BARS] if row["held_hours"]]
        legend = [name for name in ("busy", "idle", _UNKNOWN) if any(name in dict(each.segments) for each in bars)]
        chart = bar_chart("Held", bars, legend, unit="hours of GPUs, partitions and shares")
        blocks.append(section("Who held them", chart, *_left_out(rows)))
        blocks.append(section("Figures", page_table("Hours by group", _page_columns(result), *_page_rows(result))))
    else:
        blocks.append(paragraph("Nobody held a GPU."))
    blocks.append(section("How to read this", items([*_meaning(totals), *result["notes"]])))
    return html_page(title, blocks, lead=_range(result), footer=f"runwhere.gpuctl, from {result['source']}.")


def history_page(result: Mapping[str, Any]) -> str:
    """The runs as a page, each failure with its last lines."""
    columns = (
        PageColumn("run", "Job"),
        PageColumn("badge", "Result"),
        PageColumn("exit_code", "Exit code", numeric=True),
        PageColumn("started", "Started", "UTC"),
        PageColumn("took", "Took", numeric=True),
        PageColumn("hours", "Held", "GPU-hours", numeric=True),
        PageColumn("user", "User"),
        PageColumn("pool", "Pool"),
    )
    rows = []
    for row in result["results"]:
        level = _LEVELS.get(row["result"], "neutral")
        cells = _history_cells(row)
        rows.append({**cells, "run": f"{row['namespace']}/{row['name']}", "badge": badge(row["result"], level)})
    failures = [
        disclosure(
            f"{row['namespace']}/{row['name']}, {row['finished_at'] or 'time not known'}", code("\n".join(row["log"]))
        )
        for row in result["results"]
        if row["log"]
    ]
    blocks = [section("Runs", page_table("The newest first", columns, rows))]
    if failures:
        blocks.append(section("What failures said last", *failures))
    shown = (
        f"{len(rows)} of {number_of(result['total'], 'run')}"
        if len(rows) < result["total"]
        else number_of(len(rows), "run")
    )
    return html_page("Job history", blocks, lead=shown, footer="runwhere.gpuctl, from the history of jobs.")


def _tiles(result: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    totals = result["totals"]
    held = f"of {totals['held_hours']:,.1f} h with partitions and shares"
    found = [
        ("GPU-hours held", _hours(totals["gpu_hours"]), held if totals["held_hours"] > totals["gpu_hours"] else "")
    ]
    if totals["busy_hours"] is None:
        found.append(("Busy", _UNKNOWN, "no Prometheus was asked, or it knows nothing"))
    else:
        known = totals["busy_hours"] + totals["idle_hours"]
        share = f"{100 * totals['busy_hours'] / known:.0f} %" if known else _UNKNOWN
        found.append(("Busy", share, f"of the {_percent(totals['coverage'])} that is measured"))
        found.append(("Idle", f"{_hours(totals['idle_hours'])} h", "held, and not used"))
    found.append(("Queued", f"{_hours(totals['queued_hours'])} h", "GPUs that pods waited for"))
    if totals["cost"] is not None:
        found.append(("Cost", f"{totals['cost']:,.2f}", result["currency"]))
    if result["unallocated_hours"] is not None:
        found.append(
            (
                "Held by nobody",
                f"{_hours(result['unallocated_hours'])} h",
                f"of {_hours(result['capacity_hours'])} h in all",
            )
        )
    if totals["energy_kwh"] is not None:
        found.append(("Energy", f"{totals['energy_kwh']:,.1f}", "kWh while held"))
    return found


def _bar(row: Row, names: Sequence[str]) -> Bar:
    held = row["held_hours"]
    if row["busy_hours"] is None:
        segments = [(_UNKNOWN, held)]
    else:
        unknown = max(0.0, held - row["busy_hours"] - row["idle_hours"])
        segments = [("busy", row["busy_hours"]), ("idle", row["idle_hours"])]
        segments += [(_UNKNOWN, unknown)] if unknown > 0.005 * held else []
    return Bar(" · ".join(str(row[name]) for name in names), segments, f"{held:,.1f} h")


def _left_out(rows: Sequence[Row]) -> list[Markup]:
    rest = len(rows) - _MOST_BARS
    return [paragraph(f"{number_of(rest, 'more row')} in the table below.")] if rest > 0 else []


def _page_columns(result: Mapping[str, Any]) -> list[PageColumn]:
    rows = result["results"]
    columns = [PageColumn(name, _TITLES[name]) for name in result["group_by"]]
    whole, *parts = [
        PageColumn(column.key, title, {"h": "hours"}.get(unit, unit), numeric=True)
        for column in _held_columns(rows)
        for title, _space, unit in [column.title.rpartition(" ")]
    ]
    columns += [
        whole,
        PageColumn("busy", "Busy", "hours", numeric=True),
        PageColumn("idle", "Idle", "hours", numeric=True),
        PageColumn("covered", "Measured", "of held", numeric=True),
        PageColumn("queued", "Queued", "hours", numeric=True),
    ]
    if any(row["peak_memory_bytes"] is not None for row in rows):
        columns.append(PageColumn("memory", "Peak memory", "GiB", numeric=True))
    if any(row["energy_kwh"] is not None for row in rows):
        columns.append(PageColumn("energy", "Energy", "kWh", numeric=True))
    if any(row["cost"] is not None for row in rows):
        columns.append(PageColumn("cost", "Cost", result["currency"], numeric=True))
    return [*columns, PageColumn("jobs", "Jobs", numeric=True), *parts]


def _page_rows(result: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    first = result["group_by"][0]
    return [_usage_cells(row) for row in result["results"]], {**_usage_cells(result["totals"]), first: "Total"}


def _meaning(totals: Row) -> list[str]:
    found = [
        "Held: from when a pod is bound to a node until it ends, whatever it does meanwhile. Nobody else gets the GPU.",
        "Queued: GPUs times the time that pods waited for a node.",
    ]
    if totals["busy_hours"] is not None:
        found.append("Busy and idle: what exporters measured. What they did not tell is neither.")
    if any(each["counts"] != "devices" for each in totals["accelerators"]):
        found.append(
            "Partitions and shares have columns of their own, in their own units: how much of a GPU one is depends on "
            "the GPU, so they are not added to GPU-hours."
        )
    return found


# -- cells


def _usage_cells(row: Row, unknown: str = _UNKNOWN) -> dict[str, Any]:
    held = {each["resource"]: _amount(each) for each in row["accelerators"] if each["counts"] != "devices"}
    memory, energy, cost = row["peak_memory_bytes"], row["energy_kwh"], row["cost"]
    return {
        **row,
        "whole": _hours(row["gpu_hours"]),
        **{f"part {resource}": _hours(hours) for resource, hours in held.items()},
        "busy": unknown if row["busy_hours"] is None else _hours(row["busy_hours"]),
        "idle": unknown if row["idle_hours"] is None else _hours(row["idle_hours"]),
        "covered": unknown if row["coverage"] is None else _percent(row["coverage"]),
        "queued": _hours(row["queued_hours"]),
        "memory": None if memory is None else f"{memory / 2**30:,.1f}",
        "energy": None if energy is None else f"{energy:,.1f}",
        "cost": None if cost is None else f"{cost:,.2f}",
        "jobs": f"{row['jobs']:,}",
    }


def _held_columns(rows: Iterable[Row]) -> list[Column]:
    """GPUs, then a column for each partition or share that somebody held."""
    parts = {each["resource"]: each for row in rows for each in row["accelerators"] if each["counts"] != "devices"}
    named = [
        Column(f"part {name}", f"{each['partition'] or name} {_UNITS.get(each['counts'], 'h')}", drop=6, numeric=True)
        for name, each in sorted(parts.items())
    ]
    return [Column("whole", "GPU h", numeric=True), *named]


def _amount(held: Row) -> float:
    """Hours of a partition or share; of memory, GiB times hours, whatever its resource counts in."""
    hours: float = held["hours"]
    return hours * bytes_in(held["unit"]) / 2**30 if held["counts"] == "memory" else hours


def _history_cells(row: Row) -> dict[str, Any]:
    hours, parts = row["gpu_hours"], row["partition_hours"]
    shown = None if hours is None else f"{'' if row['gpu_hours_exact'] else '≥ '}{_hours(hours + (parts or 0))}"
    return {
        **row,
        "status": row["status"] or row["result"] if row["result"] == _UNFINISHED else row["result"],
        "started": (row["started_at"] or "").replace("T", " ")[:16] or None,
        "took": _took(row["duration_seconds"]),
        "hours": shown,
    }


def _took(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    if seconds < 60:
        return f"{seconds} s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def _hours(hours: float) -> str:
    return f"{hours:,.1f}"


def _percent(part: float | None) -> str:
    return _UNKNOWN if part is None else f"{100 * part:.0f} %"


def _range(result: Mapping[str, Any]) -> str:
    start, end = (str(result[name]).replace("T", " ")[:16] for name in ("start", "end"))
    return f"{start} to {end} UTC"


def _capacity(result: Mapping[str, Any], width: int) -> list[str]:
    if result["capacity_hours"] is None:
        return []
    free, capacity = result["unallocated_hours"], result["capacity_hours"]
    share = f" ({100 * free / capacity:.0f} %)" if capacity else ""
    return wrapped(f"Of {_hours(capacity)} GPU-hours, {_hours(free)}{share} were held by nobody.", width)


def _notes(result: Mapping[str, Any], width: int) -> list[str]:
    lines = [line for note in result["notes"] for line in wrapped(note, width, indent="  ")]
    return ["", *lines] if lines else []
