# SPDX-License-Identifier: BSD-2-Clause
"""What `make demo` shows is true, since each of its steps checks itself, and it is short."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.tree import ROOT

COLUMNS, LINES = 80, 100  # two screens


def test_the_demo_succeeds_on_two_screens():
    bin_path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": bin_path, "COLUMNS": str(COLUMNS)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.demo.run"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) <= LINES, done.stdout
    # The hint of submit is a command to copy.
    assert [line for line in lines if len(line) > COLUMNS and not line.startswith("logs: ")] == []
    assert "\x1b" not in done.stdout  # this is no terminal
