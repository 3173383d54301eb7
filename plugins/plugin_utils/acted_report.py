# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a task that warns of jobs and pauses them: which jobs are concerned, and how many are not. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..module_utils.kube.errors import as_sentence
from ..module_utils.manifest.problems import number_of
from .merged_reports import limit_texts
from .report import Reasons, Report, Row, Section, Table, Text
from .text_table import Column

FIRST_ROWS = 20


def acted_report(
    title: str,
    result: Mapping[str, Any],
    concerned: Sequence[Row],
    table_of: Callable[[Sequence[Row]], Table],
    others: str,
) -> Report:
    """``others``: what is said of the jobs that are not concerned, such as ``left alone``."""
    rows = result["results"]
    left = len(rows) - len(concerned)
    summary = as_sentence(str(result["msg"]).capitalize())
    short = f"{summary} {number_of(left, 'job')} {others}." if left else summary
    if left and len(concerned) <= FIRST_ROWS + 1:
        short += " Add -e gpuctl_all=true to list all."
    own = [Text(text) for text in limit_texts(result)]
    return Report(
        title,
        [
            Section("", [table_of(concerned), Text(short), *own], on="short"),
            Section("", [table_of(rows), Text(summary), *own], on="full"),
        ],
    )


def table_with_reasons(columns: Sequence[Column], cells: Sequence[Row], note: str, noun: str, reason: str) -> Table:
    """A table whose last column, the one named ``reason``, is below it where the screen is narrow."""
    table = Table(columns[:-1], cells, note, noun=noun, first=FIRST_ROWS)
    explained = [{**row, "reason": as_sentence(row[reason])} for row in cells if row[reason]]
    return replace(table, columns=columns, keep=[reason], narrow=[table, Reasons(explained, FIRST_ROWS)])
