# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runs of jobs, and what was recorded of them, as reports and as a table for spreadsheets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils.manifest.problems import number_of
from .report import Logs, Reasons, Report, Row, Section, Table, Text
from .screens import own_namespace_texts
from .spreadsheet import csv_text
from .text_table import Column, minute

_COLUMNS = (
    Column("name", "NAME", least=14),
    Column("namespace", "NAMESPACE", least=9),
    Column("status", "RESULT"),
    Column("exit_code", "EXIT", drop=3, optional=True),
    Column("started", "STARTED (UTC)", drop=2),
    Column("took", "TOOK", numeric=True),
    Column("hours", "GPU-HOURS", numeric=True),
    Column("user", "USER", drop=4, least=8, optional=True),
    Column("pool", "POOL", optional=True, on="page"),
)
_RECORDED_COLUMNS = (
    Column("namespace", "NAMESPACE", least=9),
    Column("runs", "RUNS", numeric=True),
    Column("new_runs", "NEW", numeric=True),
    Column("new_ends", "ENDED", numeric=True),
    Column("removed_runs", "REMOVED", numeric=True),
)


def history_report(result: Mapping[str, Any]) -> Report:
    """The runs, the newest first, and what those that failed said last."""
    rows, total = result["results"], result["total"]
    head = str(result.get("msg") or (f"{number_of(total, 'run')}:" if rows else "No runs."))
    table = Table(_COLUMNS, [_run_cells(row) for row in rows], "The newest first", noun="run", count=total)
    logs = [(f"The last lines of {row['namespace']}/{row['name']}:", row["log"]) for row in rows if row["log"]]
    own = own_namespace_texts(result.get("namespace"))
    counted = f"{len(rows)} of {number_of(total, 'run')}" if len(rows) < total else number_of(total, "run")
    return Report(
        "Job history",
        [
            Section("Runs", [Text(head), table], tight=True),
            Section("", [*map(Text, own)]),
            Section("What failures said last", [Logs(logs, first=2, last=5)]),
        ],
        lead=counted,
        footer="runwhere.gpuctl, from the history of jobs.",
    )


def recorded_report(result: Mapping[str, Any]) -> Report:
    """How many runs each namespace has on record, and what is new."""
    rows = result["results"]
    errors = [{**row, "reason": row["error"]} for row in rows]
    table = Table(_RECORDED_COLUMNS, rows, "By namespace", first=None)
    summary = Text(str(result["msg"]).splitlines()[-1])
    own = own_namespace_texts(result.get("namespace"), "record", "recorded")
    return Report("Recorded runs", [Section("", [table, Reasons(errors, None), summary, *map(Text, own)])])


def history_csv(result: Mapping[str, Any]) -> str:
    """A row for each run."""
    names = (
        *("namespace", "name", "kind", "result", "exit_code", "submitted_at", "started_at", "finished_at"),
        *("duration_seconds", "gpu_hours", "partition_hours", "gpu_hours_exact", "preemptions", "user", "submitted_by"),
        *("pool", "priority", "sweep", "gpu_type", "image", "manifest_digest", "uid"),
    )
    return csv_text(names, [[row[name] for name in names] for row in result["results"]])


def _run_cells(row: Row) -> dict[str, Any]:
    hours, parts = row["gpu_hours"], row["partition_hours"]
    shown = None if hours is None else f"{'' if row['gpu_hours_exact'] else '≥ '}{hours + (parts or 0):,.1f}"
    return {
        **row,
        "status": row["status"] or row["result"] if row["result"] == "Running" else row["result"],
        "started": minute(row["started_at"]),
        "took": _run_time_text(row["duration_seconds"]),
        "hours": shown,
    }


def _run_time_text(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    if seconds < 60:
        return f"{seconds} s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"
