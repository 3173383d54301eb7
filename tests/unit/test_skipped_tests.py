# SPDX-License-Identifier: BSD-2-Clause
"""The end of a run: which tests were skipped, and why."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULE = """\
import pytest

needs_ship = pytest.mark.skipif(True, reason="ship not found")


@needs_ship
@pytest.mark.parametrize("number", [1, 2])
def test_sails(number):
    pass


@needs_ship
def test_anchors():
    pass


def test_tide():
    pytest.skip("no\\nwater")


def test_runs():
    pass
"""


def test_skipped_tests_are_named_under_their_reason(tmp_path: Path) -> None:
    """Also those of workers, and the last line stays the one with the result."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_sea.py").write_text(MODULE)
    (tmp_path / "test_land.py").write_text("import pytest\n\npytest.importorskip('no_such_module')\n")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-r", "fExX", "-c", "/dev/null", "--rootdir", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if " skipped tests " in line)
    assert lines[start + 1 : -1] == [
        "could not import 'no_such_module': No module named 'no_such_module'",
        "  test_land.py",
        "no water",
        "  test_sea.py: test_tide",
        "ship not found",
        "  test_sea.py: test_anchors, test_sails (2 cases)",
    ]
    assert lines[-1].startswith("1 passed, 5 skipped in ")


def test_without_skipped_tests_nothing_is_said(tmp_path: Path) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_sea.py").write_text("def test_runs():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "skipped" not in done.stdout
    assert done.returncode == 0
