# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gpuctl_idle has found, as a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .acted_report import acted_report, table_with_reasons
from .report import Report, Row, Table
from .screens import CLUSTER
from .text_table import Column, minute

_DONE = {"warn": "warned", "clear": "warning withdrawn", "pause": "paused", "stop": "deleted"}
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


_FINDINGS = {
    "stuck": "stuck",
    "crash_loop": "crash loop",
    "half_gang": "half a gang",
    "waiting": "waits",
    "paused": "paused",
    "unused_claim": "unused claim",
}
_FINDING_COLUMNS = (
    CLUSTER,
    Column("name", "NAME", least=14),
    Column("namespace", "NAMESPACE", least=9),
    Column("found", "FINDING"),
    Column("gpus", "GPUS", numeric=True),
    Column("since", "SINCE (UTC)", drop=3),
    Column("then", "THEN", drop=4, optional=True),
    Column("done", "ACTION", optional=True),
    Column("reason", "WHY", drop=5),
)


def idle_report(result: Mapping[str, Any]) -> Report:
    """The idle jobs and what was done about them, the others are counted; then what else does nothing."""
    idle = [row for row in result["results"] if row["idle"] or row["action"] != "none"]
    report = acted_report("Idle jobs", result, idle, _idle_table, "left alone")
    findings = result.get("findings") or ()
    if not findings:
        return report
    table = _finding_table(findings)
    tables = {"short": table, "full": replace(table, first=None)}
    return replace(report, sections=[each._replace(blocks=[*each.blocks, tables[each.on]]) for each in report.sections])


def _finding_table(rows: Sequence[Row]) -> Table:
    cells = [
        {
            **row,
            "found": _FINDINGS.get(row["finding"]),
            "gpus": row["gpus"] or None,
            "done": row["error"] or _DONE.get(row["action"]),
            "then": row["then"] and f"{row['then']} after {row['after']}",
            "since": minute(row["since"]),
        }
        for row in rows
    ]
    return table_with_reasons(_FINDING_COLUMNS, cells, "What else does nothing", "finding", "reason")


def _idle_table(rows: Sequence[Row]) -> Table:
    cells = [
        {
            **row,
            "done": row["error"] or _DONE.get(row["action"]),
            "since": minute(row["held_since"]),
        }
        for row in rows
    ]
    return table_with_reasons(_COLUMNS, cells, "The idle ones first", "job", "reason")
