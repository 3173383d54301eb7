# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gpuctl_idle has found, as a screen. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import as_sentence
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.problems import number_of
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import (
    Room,
    joined_blocks,
    reasons_block,
    wrapped,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.text_table import Column, table_lines

Row = Mapping[str, Any]

_DONE = {"warn": "warned", "clear": "warning taken back", "pause": "paused"}
_COLUMNS = (
    Column("name", "NAME", least=14),
    Column("namespace", "NAMESPACE", least=9),
    Column("kind", "KIND", drop=3),
    Column("devices", "GPUS"),
    Column("shown_since", "HELD SINCE (UTC)", drop=4),
    Column("shown_idle", "IDLE"),
    Column("shown_action", "ACTION", optional=True),
    Column("reason", "WHY", drop=5),
)
_FIRST_ROWS = 20
_ALL = "Add -e gpuctl_all=true to list all."


def is_idle_report(result: Row) -> bool:
    """Whether gpuctl_idle has returned this."""
    return any("idle" in row and "held_since" in row for row in result.get("results") or ())


def idle_screen(result: Row, width: int, *, everything: bool) -> list[str]:
    """The idle jobs and what was done about them; the others are counted."""
    rows = [
        {
            **row,
            "shown_idle": "yes" if row["idle"] else "no",
            "shown_action": row["error"] or _DONE.get(row["action"]),
            "shown_since": (row["held_since"] or "")[:16].replace("T", " ") or None,
        }
        for row in result["results"]
        if everything or row["idle"] or row["action"] != "none"
    ]
    shown = rows if everything else rows[:_FIRST_ROWS]
    lines = table_lines(shown, _COLUMNS, width) if shown else []
    more, left = len(rows) - len(shown), len(result["results"]) - len(rows)
    rest = [f"… and {number_of(more, 'more job')}. {_ALL}"] if more else []
    summary = f"{str(result['msg']).capitalize()}."
    if left:
        summary += f" {number_of(left, 'job')} left alone.{'' if more else f' {_ALL}'}"
    explained = [{**row, "status": None, "reason": as_sentence(row["reason"])} for row in shown]
    has_room = not lines or "WHY" in lines[0]
    why = [] if has_room else reasons_block(explained, width, room=None if everything else Room(reasons=_FIRST_ROWS))
    return joined_blocks([[*lines, *rest], why, wrapped(summary, width)])
