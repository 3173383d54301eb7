# SPDX-License-Identifier: BSD-2-Clause
"""The page of accounts in a real browser. GPUCTL_UPDATE_SCREENS=1 writes the picture in docs again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.gpu_usage import (
    Measured,
    Owner,
    Use,
    usage_rows,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import html_page
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.usage_report import usage_report

from .ansible import ROOT
from .browser import chromium
from .usage_schedule import SLICE, WHOLE, ScheduledPod, schedule

pytestmark = pytest.mark.nightly  # A browser takes seconds to start.

_PICTURE = ROOT / "docs" / "usage-report.png"


def use(pod: ScheduledPod) -> Use:
    owner = Owner(pod.team, pod.job, "training", pod.user, "default")
    idle = {"team-a": 0.12, "team-b": 0.45, "team-c": 0.25}[pod.team]
    known = pod.counted if pod.measured else None
    energy = pod.counted * (0.7 - idle) if pod.measured else None
    measured = Measured(pod.counted, known, (known or 0) * idle, 61e9 if pod.resource == WHOLE else 9e9, energy)
    return Use(owner, {pod.resource: pod.counted}, queued=0.18 * pod.amount, measured=measured)


def report(group_by: Sequence[str]) -> dict[str, Any]:
    """What gpuctl_usage_info returns of the schedule."""
    groups, total = usage_rows(map(use, schedule()), group_by, {"default": 2.5, SLICE: 0.4})
    facts = {"has_prices": True, "is_measured": True}
    return {
        "start": "2026-08-03T06:00:00Z",
        "end": "2026-08-03T18:00:00Z",
        "group_by": list(group_by),
        "currency": "EUR",
        "results": [row.result(group_by, **facts) for row in groups],
        "totals": total.result((), **facts),
        "capacity_hours": 768.0,
        "unallocated_hours": 768.0 - total.result((), **facts)["gpu_hours"],
        "source": "Kubernetes, the history of jobs and Prometheus",
        "notes": [],
    }


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_and_is_accessible(tmp_path: Path, width: int) -> None:
    page = tmp_path / "usage.html"
    page.write_text(html_page(usage_report(report(["team"]))))
    with chromium(tmp_path) as browser:
        browser.open(page, width=width)
        assert browser.requests == [page.as_uri()]
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.accessibility_problems() == []
        if width == 1280 and os.environ.get("GPUCTL_UPDATE_SCREENS"):
            browser.picture(_PICTURE, height=840)
    assert _PICTURE.exists()
