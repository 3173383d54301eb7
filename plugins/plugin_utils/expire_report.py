# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gpuctl_expire has found and done, as a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .acted_report import acted_report, table_with_reasons
from .report import Report, Row, Table
from .screens import CLUSTER
from .text_table import Column, minute

_DONE = {"warn": "warned", "pause": "paused"}
_COLUMNS = (
    CLUSTER,
    Column("name", "NAME", least=14),
    Column("namespace", "NAMESPACE", least=9),
    Column("kind", "KIND", drop=3),
    Column("limit", "LIMIT", drop=4),
    Column("ends", "ENDS AT (UTC)"),
    Column("done", "ACTION", optional=True),
    Column("why", "WHY", drop=5, optional=True),
)


def expire_report(result: Mapping[str, Any]) -> Report:
    """The jobs that end soon or have ended, and what was done; the others are counted."""
    near = [row for row in result["results"] if row["action"] != "none" or row["warned_at"] or not row["ends_at"]]
    return acted_report("Time limits", result, near, _ends_table, "not near the end")


def _ends_table(rows: Sequence[Row]) -> Table:
    cells = [
        {**row, "done": row["error"] or _done(row), "why": _why(row), "ends": minute(row["ends_at"])} for row in rows
    ]
    return table_with_reasons(_COLUMNS, cells, "The next to end first", "job", "why")


def _done(row: Row) -> str | None:
    if row["action"] == "none" and row["warned_at"]:
        return f"warned at {row['warned_at'][11:16]}"
    return _DONE.get(row["action"])


def _why(row: Row) -> str | None:
    """What the other columns do not say."""
    return row["reason"] if row["action"] == "pause" or not row["ends_at"] or "meanwhile" in row["reason"] else None
