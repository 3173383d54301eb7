# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gpuctl_fit_info has found, as a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils.insight.fit.verdicts import SHORT_VERDICTS, fit_summary
from ..module_utils.manifest.problems import abridged
from .merged_reports import limit_texts
from .report import Reasons, Report, Section, Table, Text
from .screens import CLUSTER, by_verdict, explained_verdict, gpus_of
from .text_table import Column

_COLUMNS = (
    CLUSTER,
    Column("name", "NAME", least=16),
    Column("namespace", "NAMESPACE", least=9),
    Column("gpus", "GPUS"),
    Column("shown_status", "RUNS"),
    Column("runs_at", "AT", drop=1, optional=True),
)


def fit_report(result: Mapping[str, Any]) -> Report:
    """Whether jobs would run, those that do not first, and why, with the cheapest change; of several clusters, those
    where a job runs soonest first. Then what may refuse jobs all the same."""
    rows, is_merged = result["results"], "clusters" in result
    if not is_merged:
        rows = sorted(rows, key=by_verdict)
    others = result.get("not_judged") or ()
    text = f"Not judged, and may refuse them: {abridged(list(others), 5)}."
    cells = [{**row, "gpus": gpus_of(row), "shown_status": SHORT_VERDICTS[row["verdict"]]} for row in rows]
    explained = [row for row in rows if row["verdict"] != "now" or row.get("delays")]
    return Report(
        "Would the jobs run?",
        [
            Section("", [Text(str(result["msg"]) if is_merged else fit_summary(rows))]),
            Section("Verdicts", [Table(_COLUMNS, cells, "When each job would run", noun="job")]),
            # Why a job runs is shown on request, unless others wait longer for it.
            Section("", [Reasons([*map(explained_verdict, explained)], 5)], on="short"),
            Section("Reasons", [Reasons([*map(explained_verdict, rows)])], on="full"),
            Section("", [*([Text(text)] if others else []), *map(Text, limit_texts(result))]),
        ],
    )
