# SPDX-License-Identifier: BSD-2-Clause
"""The last line of a run: how much of the contract holds, and how large the simulator is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

TESTS = Path(__file__).resolve().parents[2]


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Steps passed of those that ran, steps left out, lines of code."""
    counts = {
        outcome: sum(
            "test_step_is_answered_as_recorded" in report.nodeid for report in terminalreporter.getreports(outcome)
        )
        for outcome in ("passed", "failed")
    }
    ran = sum(counts.values())
    if not ran:
        return
    left_out = yaml.safe_load((TESTS / "contract" / "left-out.yaml").read_text())
    names = ", ".join(f"{entry['file']}-{entry['step']:02d}" for entry in left_out) or "none"
    lines = sum(len(path.read_text().splitlines()) for path in (TESTS / "kubesim").rglob("*.py"))
    terminalreporter.write_line(
        f"contract: {counts['passed'] - len(left_out)} of {ran} steps match; left out: {names}; kubesim: {lines} lines"
    )
