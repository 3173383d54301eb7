# SPDX-License-Identifier: BSD-2-Clause
"""What to install where a library is missing."""

from __future__ import annotations

import os
import shlex
import sys

# As in requirements.txt, which modules on other hosts do not have beside them.
REQUIREMENTS = ("kubernetes>=31.0.0,!=36.0.0,!=36.0.1,!=36.0.2", "pydantic>=2.7", "PyYAML>=6.0")

_BY_NAME = " ".join(map(shlex.quote, REQUIREMENTS))


def missing_library(name: str) -> str:
    """The message about a library that this Python lacks, with the command that installs it."""
    command = f"{shlex.quote(sys.executable)} -m pip install {_requirements_file() or _BY_NAME}"
    return f"Python library not found: {name}. Install what the collection needs: {command}"


def with_requirements_file(message: str) -> str:
    """The message of a module, which runs from an archive, with the file of the collection on the same host."""
    file = _requirements_file()
    return message.replace(_BY_NAME, file) if file else message


def _requirements_file() -> str | None:
    """``-r`` with its path, if the collection is installed as files."""
    collection = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.path.join(collection, "requirements.txt")
    return f"-r {shlex.quote(path)}" if os.path.isfile(path) else None
