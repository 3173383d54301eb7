# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gpuctl_idle has found, as a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..module_utils.kube.errors import as_sentence
from ..module_utils.manifest.problems import number_of
from .merged_reports import limit_texts
from .report import Reasons, Report, Row, Section, Table, Text
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
_FIRST_ROWS = 20


def idle_report(result: Mapping[str, Any]) -> Report:
    """The idle jobs and what was done about them; the others are counted."""
    rows = result["results"]
    idle = [row for row in rows if row["idle"] or row["action"] != "none"]
    left = len(rows) - len(idle)
    summary = f"{str(result['msg']).capitalize()}."
    short = f"{summary} {number_of(left, 'job')} left alone." if left else summary
    if left and len(idle) <= _FIRST_ROWS + 1:
        short += " Add -e gpuctl_all=true to list all."
    own = [Text(text) for text in limit_texts(result)]
    return Report(
        "Idle jobs",
        [
            Section("", [_idle_table(idle), Text(short), *own], on="short"),
            Section("", [_idle_table(rows), Text(summary), *own], on="full"),
        ],
    )


def _idle_table(rows: Sequence[Row]) -> Table:
    cells = [
        {
            **row,
            "done": row["error"] or _DONE.get(row["action"]),
            "since": (row["held_since"] or "")[:16].replace("T", " ") or None,
        }
        for row in rows
    ]
    table = Table(_COLUMNS[:-1], cells, "The idle ones first", noun="job", first=_FIRST_ROWS)
    why = Reasons([{**row, "status": None, "reason": as_sentence(row["reason"])} for row in rows], _FIRST_ROWS)
    return replace(table, columns=_COLUMNS, keep=["reason"], narrow=[table, why])
