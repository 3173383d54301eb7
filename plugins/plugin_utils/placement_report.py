# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In which of several clusters a job is submitted, and which jobs move between them, as reports. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils.manifest.problems import number_of
from .placing import reasons_of
from .report import Reasons, Report, Section, Table, Text
from .screens import CLUSTER
from .text_table import Column

_COLUMNS = (
    CLUSTER,
    Column("shown_status", "RUNS"),
    Column("runs_at", "AT", drop=1, optional=True),
    Column("price", "PRICE", optional=True),
    Column("placed", "PLACED"),
)
_JOBS = (
    Column("name", "NAME", least=14),
    Column("namespace", "NAMESPACE", least=9),
    Column("to", "CLUSTER"),
    Column("runs", "RUNS"),
)
_MOVES = (
    Column("name", "NAME", least=14),
    Column("namespace", "NAMESPACE", least=9),
    Column("status", "STATUS", drop=1),
    Column("from", "FROM"),
    Column("to", "TO"),
    Column("action", "ACTION"),
)


def moves_report(result: Mapping[str, Any]) -> Report:
    """Which jobs move where, and why others stay."""
    rows = result["results"]
    explained = [{**row, "status": None} for row in rows]
    return Report(
        "Which jobs move?",
        [
            Section("", [Table(_MOVES, rows, "Those that have waited longest first", noun="job")] if rows else []),
            Section("", [Reasons(explained, None)] if explained else []),
            Section("", [Text(" ".join(filter(None, (f"{_moved(result)}.", result["msg"]))))]),
        ],
    )


def _moved(result: Mapping[str, Any]) -> str:
    """How many jobs move, and how many stay."""
    rows = result["results"]
    moved = sum(row["to"] is not None for row in rows)
    left = len(rows) - moved
    said = f"{number_of(moved, 'job')} {'moved' if result['done'] else 'would move'}"
    return f"{said}, {left} {'stays' if left == 1 else 'stay'}" if left else said


def placement_report(result: Mapping[str, Any]) -> Report:
    """Where the job goes, or each of several, and why each other cluster is not taken."""
    if any("to" in row for row in result["results"]):
        return _jobs_report(result)
    rows = [{**row, "shown_status": row["runs"]} for row in result["results"]]
    message = str(result.get("msg") or "")
    return Report(
        "Where does the job go?",
        [
            Section("", [Table(_COLUMNS, rows, "What each cluster has answered", noun="cluster")] if rows else []),
            Section("", [Reasons([*reasons_of(rows)], None)] if rows else []),
            Section("", [Text(f"{message[:1].upper()}{message[1:]}")] if message else []),
        ],
    )


def _jobs_report(result: Mapping[str, Any]) -> Report:
    rows = result["results"]
    return Report(
        "Where do the jobs go?",
        [
            Section("", [Table(_JOBS, rows, "The more important ones first", noun="job"), Reasons(rows, None)]),
            Section("", [Text(str(result["msg"]))]),
        ],
    )
