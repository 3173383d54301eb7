# SPDX-License-Identifier: BSD-2-Clause
"""A result names its report."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_file import unfit_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.reports import files_of

MODULES = Path(__file__).parents[4] / "plugins" / "modules"


@pytest.mark.parametrize("module", sorted(path.stem for path in MODULES.glob("gpuctl_*.py")))
def test_what_a_module_names_is_a_report(module: str) -> None:
    found = import_module(f"ansible_collections.runwhere.gpuctl.plugins.modules.{module}")
    name = getattr(getattr(found, "MODULE", None), "report", None)
    assert name in (None, "logs") or files_of({"results": [], "report": name})
    assert ("\nreport:\n" in found.RETURN) == bool(name)
    assert not name or f"  sample: {name}\n" in found.RETURN


@pytest.mark.parametrize(
    ("result", "path", "problem"),
    [
        ({"results": [], "report": "plan"}, "plan.json", None),
        ({"results": [], "report": "usage"}, "usage.CSV", None),
        (
            {"results": [], "report": "usage"},
            "usage.xls",
            "no file for a report. Use a name that ends with .csv or .html",
        ),
        ({"results": []}, "jobs.html", "this result has no report"),
        ({"results": [], "report": "no such"}, "jobs.html", "this result has no report"),
        ({"report": "plan", "msg": "no manifests found.", "failed": True}, "plan.html", None),
    ],
)
def test_a_file_fits_the_report(result: dict[str, Any], path: str, problem: str | None) -> None:
    found = unfit_report(result, path)
    assert found is None if problem is None else problem in str(found)
