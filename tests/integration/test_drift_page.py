# SPDX-License-Identifier: BSD-2-Clause
"""The page of drift in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.drift_report import drift_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import html_page

from tests.unit.plugins.plugin_utils.test_drift_report import RESULT, ROWS

from .browser import chromium

pytestmark = pytest.mark.nightly  # A browser takes seconds to start.

LONG: dict[str, Any] = {
    **ROWS[0],
    "field": "spec.limits",
    "declared": [{"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}}] * 3,
    "live": "x" * 300,
    "id": "Deployment/team-a/chat:spec.limits",
}


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_and_is_accessible(tmp_path: Path, width: int) -> None:
    page = tmp_path / "drift.html"
    page.write_text(html_page(drift_report({**RESULT, "results": [*ROWS, LONG]})))
    with chromium(tmp_path) as browser:
        browser.open(page, width=width)
        assert browser.requests == [page.as_uri()]
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.accessibility_problems() == []
