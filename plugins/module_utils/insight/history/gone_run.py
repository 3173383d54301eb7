# SPDX-License-Identifier: BSD-2-Clause
"""What the history has of a deleted job that was asked for. Only read once no live job was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ...kube.client import Client
from ...kube.errors import if_allowed

_SHOWN_LINES = 10
_ENDS = {
    "Succeeded": "succeeded",
    "Failed": "failed",
    "TimedOut": "reached its time limit",
    "Deleted": "was deleted",
    "Replaced": "was replaced",
}


def gone_run_message(client: Client, name: str, namespaces: Sequence[str] | None) -> str | None:
    """How the last run of a job ended, and the last lines of its log; None if there is no record that may be read."""
    from .job_history_info import history_rows, recency
    from .past_runs import KnownRuns, read_recorded_runs

    known = if_allowed(lambda: read_recorded_runs(client, namespaces), KnownRuns())
    rows = [row for row, _end in history_rows(known, datetime.now(timezone.utc)) if row["name"] == name]
    return gone_run_text(max(rows, key=recency)) if rows else None


def gone_run_text(row: Mapping[str, Any]) -> str:
    """The text for a row of gpuctl_job_history_info. Pure."""
    began = f", submitted at {row['submitted_at']}," if row["submitted_at"] else ""
    where = f"Its last run in namespace {row['namespace']}{began}"
    if row["result"] not in _ENDS:
        return (
            f"{where} no longer exists, and its end was not observed. For all its runs, use M(gpuctl_job_history_info)."
        )
    code = "" if row["exit_code"] is None or row["result"] == "Succeeded" else f" with exit code {row['exit_code']}"
    moment = f" at {row['finished_at']}" if row["finished_at"] else ""
    text = f"{where} {_ENDS[row['result']]}{moment}{code}. For all its runs, use M(gpuctl_job_history_info)."
    if not row["log"]:
        return text
    return "\n".join([f"{text} The last lines of its log:", *(f"  {line}" for line in row["log"][-_SHOWN_LINES:])])
