# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gpuctl_idle has found, as a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..module_utils.kube.errors import as_sentence
from .acted_report import FIRST_ROWS, acted_report
from .report import Reasons, Report, Row, Table
from .screens import CLUSTER
from .text_table import Column

_DONE = {"warn": "warned", "clear": "warning withdrawn", "pause": "paused"}
_COLUMNS = (
    CLUSTER,
    Column("name", "NAME", least=14),
    Column("namespace", "NAMESPACE", least=9),
    Column("kind", "KIND", drop=3),
    Column("devices", "GPUS"),
    Column("since", "HELD SINCE (UTC)", drop=4),
    Column("idle", "IDLE"),
    Column("done", "ACTION", optional=True),
    Column("reason", "WHY", drop=5),
)


def idle_report(result: Mapping[str, Any]) -> Report:
    """The idle jobs and what was done about them; the others are counted."""
    idle = [row for row in result["results"] if row["idle"] or row["action"] != "none"]
    return acted_report("Idle jobs", result, idle, _idle_table, "left alone")


def _idle_table(rows: Sequence[Row]) -> Table:
    cells = [
        {
            **row,
            "done": row["error"] or _DONE.get(row["action"]),
            "since": (row["held_since"] or "")[:16].replace("T", " ") or None,
        }
        for row in rows
    ]
    table = Table(_COLUMNS[:-1], cells, "The idle ones first", noun="job", first=FIRST_ROWS)
    why = Reasons([{**row, "status": None, "reason": as_sentence(row["reason"])} for row in rows], FIRST_ROWS)
    return replace(table, columns=_COLUMNS, keep=["reason"], narrow=[table, why])
