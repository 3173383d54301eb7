# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gpuctl_budget has counted and done, as a report. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..module_utils.kube.errors import as_sentence
from ..module_utils.manifest.problems import number_of
from .acted_report import FIRST_ROWS
from .merged_reports import limit_texts
from .report import Reasons, Report, Row, Section, Table, Text
from .screens import CLUSTER
from .text_table import Column

_STATES = {"near": "nearly used up", "used_up": "used up", "removed": "no budget"}
_STOPS_IDLE = "used up, idle jobs are paused"
_DONE = {"limit": "limited", "lift": "lifted"}
_COLUMNS = (
    CLUSTER,
    Column("namespace", "NAMESPACE", least=9),
    Column("name", "QUOTA", drop=3),
    Column("accelerator", "ACCELERATOR", optional=True),
    Column("shown_used", "USED", numeric=True),
    Column("shown_limit", "OF", numeric=True),
    Column("shown_left", "LEFT", numeric=True),
    Column("shown_running", "RUNNING NOW", numeric=True, drop=2),
    Column("shown_until", "UNTIL (UTC)", drop=1),
    Column("shown_state", "STATE", optional=True),
    Column("done", "ACTION", optional=True),
)
_MOST_FIRST = "In hours, those with the least left first"


def budget_report(result: Mapping[str, Any]) -> Report:
    """The budgets that are nearly used up, or of which something was done or is to be said; the others are counted."""
    rows = sorted(result["results"], key=lambda row: -(row["percent"] or 0.0))
    near = [row for row in rows if {"ok"} != _states(row) or row["action"] in _DONE or row["error"] or row["notes"]]
    left = len(rows) - len(near)
    summary = as_sentence(str(result["msg"]))
    short = f"{summary} {number_of(left, 'other')} with enough left." if left else summary
    own = [Text(text) for text in (*map(as_sentence, result["notes"]), *limit_texts(result))]
    return Report(
        "GPU-hours",
        [
            Section("", [*_budget_blocks(near), Text(short), *own], on="short"),
            Section("", [*_budget_blocks(rows), Text(summary), *own], on="full"),
        ],
    )


def _budget_blocks(rows: Sequence[Row]) -> list[Any]:
    cells = [cells for row in rows for cells in (_cells(row), *_accelerator_cells(row))]
    noted = [
        {**row, "status": None, "reason": " ".join(map(as_sentence, row["notes"]))} for row in rows if row["notes"]
    ]
    table = Table(_COLUMNS, cells, _MOST_FIRST, noun="budget" if len(cells) == len(rows) else "row", first=FIRST_ROWS)
    return [table, *([Reasons(noted, FIRST_ROWS)] if noted else [])]


def _states(row: Row) -> set[str]:
    return {row["state"], *(part["state"] for part in (row["accelerators"] or {}).values())}


def _accelerator_cells(row: Row) -> Iterator[Row]:
    """A row for each accelerator with a limit of its own, below that of the budget."""
    for name, part in (row["accelerators"] or {}).items():
        place = {key: row[key] for key in ("cluster", "namespace", "name") if key in row}
        yield {
            **place,
            "accelerator": name,
            "shown_used": f"{part['used']:,.1f}",
            "shown_limit": f"{part['limit']:,}",
            "shown_left": f"{part['left']:,.1f}",
            "shown_until": row["until"][:10],
            "shown_state": _STATES.get(part["state"]),
        }


def _cells(row: Row) -> Row:
    hours = {"shown_used": row["used"], "shown_left": row["left"], "shown_running": row["running_hours"]}
    stops_idle = row["state"] == "used_up" and row["then"] == "stop_idle"
    return {
        **row,
        **{name: None if value is None else f"{value:,.1f}" for name, value in hours.items()},
        "shown_limit": row["limit"] and f"{row['limit']:,}",
        "shown_until": row["until"] and row["until"][:10],
        "shown_state": _STOPS_IDLE if stops_idle else _STATES.get(row["state"]),
        "done": row["error"] or _DONE.get(row["action"]),
    }
