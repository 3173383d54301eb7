# SPDX-License-Identifier: BSD-2-Clause
"""What holds for all tests of the simulator: controllers never fail, and the last line of a run sums up."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import kubesim

TESTS = Path(__file__).resolve().parent
PACKAGE = Path(kubesim.__file__).parent


@pytest.fixture(autouse=True)
def _no_controller_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A controller that raises is logged and tried again, which would otherwise go unseen."""
    yield
    errors = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert not [record.getMessage() for record in errors if record.name.startswith("kubesim")]


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
    lines = sum(len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py"))
    terminalreporter.write_line(
        f"contract: {counts['passed'] - len(left_out)} of {ran} steps match; left out: {names}; kubesim: {lines} lines"
    )
