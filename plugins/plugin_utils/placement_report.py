# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In which of several clusters a job is submitted, as a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def placement_report(result: Mapping[str, Any]) -> Report:
    """Where the job goes, and why each other cluster is not taken."""
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
