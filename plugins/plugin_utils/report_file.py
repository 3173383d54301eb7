# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write what a task has returned to a file on the controller: a page, data, or a table for spreadsheets."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.drift_report import drift_page, is_drift
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.job_report import description_page, is_description
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.plan_report import is_plan, plan_page
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.usage_report import (
    history_csv,
    history_page,
    is_history,
    is_usage,
    usage_csv,
    usage_page,
)

Report = Callable[[Mapping[str, Any]], str]

# Of the run, and not of what it was about.
_OF_THE_TASK = ("failed", "invocation", "failed_when_result", "changed", "warnings", "deprecations", "diff")


def result_json(result: Mapping[str, Any]) -> str:
    """The result as other programs read it: a plan is applied from it by the playbook provision."""
    kept = {name: value for name, value in result.items() if name not in _OF_THE_TASK}
    return json.dumps(kept, indent=2, ensure_ascii=False) + "\n"


# What a result is, and what it can be written as, by the end of the file's name.
_REPORTS: tuple[tuple[Callable[[Mapping[str, Any]], bool], Mapping[str, Report]], ...] = (
    (is_plan, {".json": result_json, ".html": plan_page}),
    (is_drift, {".json": result_json, ".html": drift_page}),
    (is_usage, {".csv": usage_csv, ".html": usage_page}),
    (is_history, {".csv": history_csv, ".html": history_page}),
    (is_description, {".html": description_page}),
)


def unfit_report(result: Mapping[str, Any], path: str) -> str | None:
    """Why the result cannot be written to the file, as a message; None if it can."""
    reports = _reports(result)
    if not reports:
        return "O(output): this result has no report. Leave it out." if "failed" not in result else None
    if Path(path).suffix.lower() not in reports:
        return f"O(output): {path} is no file for a report. Use a name that ends with {' or '.join(reports)}."
    return None


def write_report(result: Mapping[str, Any], path: str, *, check_mode: bool) -> bool:
    """Replace the file in one step, if its text is another one. Returns whether it was. Raises OSError."""
    text = _reports(result)[Path(path).suffix.lower()](result)
    # A spreadsheet takes a file without this mark for one in the code page of the machine.
    data = text.encode("utf-8-sig" if path.lower().endswith(".csv") else "utf-8", "backslashreplace")
    target = Path(path)
    with suppress(FileNotFoundError):
        if target.read_bytes() == data:
            return False
    if check_mode:
        return True
    umask = os.umask(0)
    os.umask(umask)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644 & ~umask)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
    return True


def _reports(result: Mapping[str, Any]) -> Mapping[str, Report]:
    return next((reports for fits, reports in _REPORTS if fits(result)), {})
