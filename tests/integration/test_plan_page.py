# SPDX-License-Identifier: BSD-2-Clause
"""The page of a plan in a real browser. GPUCTL_UPDATE_SCREENS=1 writes the picture in docs again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import html_page
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.plan_report import plan_report

from .ansible import ROOT
from .browser import chromium

pytestmark = pytest.mark.nightly  # A browser takes seconds to start.

_PICTURE = ROOT / "docs" / "plan-report.png"
_PLAN = ROOT / "tests" / "unit" / "fixtures" / "plan.json"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_and_is_accessible(tmp_path: Path, width: int, dark: bool) -> None:
    page = tmp_path / "plan.html"
    page.write_text(html_page(plan_report(json.loads(_PLAN.read_text()))))
    with chromium(tmp_path) as browser:
        browser.open(page, width=width, dark=dark)
        assert browser.requests == [page.as_uri()]
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.accessibility_problems() == []
        if os.environ.get("GPUCTL_UPDATE_SCREENS"):
            browser.picture(tmp_path / "whole.png")
            if width == 1280 and not dark:
                browser.picture(_PICTURE, height=1400)
    assert _PICTURE.exists()
