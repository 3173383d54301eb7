# SPDX-License-Identifier: BSD-2-Clause
"""A run of ansible-playbook compiles the collection once, not each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


def run_task(home: Path, **environment: str) -> str:
    """Output of a task that fails before it connects."""
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible"),
            *("localhost", "-m", "runwhere.gpuctl.gpuctl_job", "-a", "state=none"),
        ],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "HOME": str(home),
            "PYTHONPYCACHEPREFIX": str(home / "bytecode"),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def bytecode(home: Path) -> dict[str, Path]:
    return {path.name.partition(".")[0]: path for path in home.glob("bytecode/**/runwhere/gpuctl/plugins/**/*.pyc")}


def test_bytecode_is_kept_and_used(tmp_path: Path) -> None:
    assert "state" in run_task(tmp_path)
    kept = bytecode(tmp_path)
    assert {"module_action", "gpuctl_job", "task"} <= kept.keys()
    kept["task"].write_bytes(kept["task"].read_bytes()[:16] + b"damaged")  # behind the header, which Python checks
    assert "bad marshal data" in run_task(tmp_path)


@pytest.mark.parametrize("stamp", [0, 2**31])
def test_bytecode_older_or_newer_than_its_source_is_not_used(tmp_path: Path, stamp: int) -> None:
    run_task(tmp_path)
    kept = bytecode(tmp_path)["task"]
    kept.write_bytes(kept.read_bytes()[:8] + stamp.to_bytes(4, "little") + b"\0\0\0\0" + b"damaged")
    assert "bad marshal data" not in run_task(tmp_path)


def test_no_bytecode_is_written_where_python_may_not_write_it(tmp_path: Path) -> None:
    assert "state" in run_task(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert not bytecode(tmp_path)
