# SPDX-License-Identifier: BSD-2-Clause
"""What `make demo` shows is true: each of its steps checks itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.tree import ROOT


def test_the_demo_succeeds() -> None:
    bin_path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": bin_path}
    command = [sys.executable, "-m", "tests.demo.run"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
