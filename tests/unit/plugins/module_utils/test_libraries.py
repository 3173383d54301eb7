# SPDX-License-Identifier: BSD-2-Clause
"""The command that installs a missing library."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from ansible_collections.runwhere.gpuctl.plugins.module_utils import libraries
from ansible_collections.runwhere.gpuctl.plugins.module_utils.libraries import (
    REQUIREMENTS,
    missing_library,
    with_requirements_file,
)

COLLECTION = Path(libraries.__file__).parents[2]


def test_the_file_of_the_installed_collection_for_the_python_that_runs() -> None:
    message = missing_library("pydantic")
    assert message == (
        f"Python library not found: pydantic. Install what the collection needs: {sys.executable} -m pip install "
        f"-r {COLLECTION}/requirements.txt"
    )
    assert (COLLECTION / "requirements.txt").is_file()
    assert with_requirements_file(message) == message


def test_a_module_from_an_archive_has_no_file(tmp_path: Path) -> None:
    """As Ansible sends it, maybe to another host; the action plugin of a local one knows the path."""
    archive = tmp_path / "payload.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(libraries.__file__, "libraries.py")
    script = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); import libraries; print(libraries.missing_library('x'))"
    )
    message = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    assert message.endswith(
        "-m pip install 'kubernetes>=31.0.0,!=36.0.0,!=36.0.1,!=36.0.2' 'pydantic>=2.7' 'PyYAML>=6.0'"
    )
    assert with_requirements_file(message) == missing_library("x")


def test_the_requirements_are_those_of_the_file() -> None:
    lines = (COLLECTION / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == list(REQUIREMENTS)
