# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reports that results name, and what each can be written as. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from .advice_report import advice_report
from .budget_report import budget_report
from .drift_report import drift_report
from .expire_report import expire_report
from .fit_report import fit_report
from .history_report import history_csv, history_report, recorded_report
from .html_page import html_page
from .idle_report import idle_report
from .job_report import description_report
from .placement_report import moves_report, placement_report
from .plan_report import plan_report
from .report import Report
from .usage_report import usage_csv, usage_report

Result = Mapping[str, Any]

_REPORTS: Mapping[str, Callable[[Result], Report]] = {
    "plan": plan_report,
    "drift": drift_report,
    "fit": fit_report,
    "usage": usage_report,
    "advice": advice_report,
    "history": history_report,
    "recorded_runs": recorded_report,
    "idle_jobs": idle_report,
    "ended_jobs": expire_report,
    "budgets": budget_report,
    "placement": placement_report,
    "moves": moves_report,
    "description": description_report,
}
# Of the run, and not of what it was about.
_OF_THE_TASK = ("failed", "invocation", "failed_when_result", "changed", "warnings", "deprecations", "diff")


def report_of(result: Result) -> Report | None:
    """The report that the result names; None for one without rows, or that only says what was done to each."""
    make = _REPORTS.get(str(result.get("report"))) if "results" in result else None
    return make(result) if make else None


def files_of(result: Result) -> Mapping[str, Callable[[Result], str]]:
    """What the result can be written as, by the end of the file's name."""
    name = str(result.get("report"))
    if name not in _REPORTS or "results" not in result:
        return {}
    # A plan is applied to the cluster that it was made for.
    data = {} if name == "plan" and "clusters" in result else _DATA.get(name, {})
    return {**data, ".html": lambda result: html_page(_REPORTS[name](result))}


def result_json(result: Result) -> str:
    """The result as other programs read it: a plan is applied from it by the playbook provision."""
    kept = {name: value for name, value in result.items() if name not in _OF_THE_TASK}
    return json.dumps(kept, indent=2, ensure_ascii=False) + "\n"


_DATA: Mapping[str, Mapping[str, Callable[[Result], str]]] = {
    "plan": {".json": result_json},
    "drift": {".json": result_json},
    "fit": {".json": result_json},
    "advice": {".json": result_json},
    "usage": {".csv": usage_csv},
    "history": {".csv": history_csv},
}
