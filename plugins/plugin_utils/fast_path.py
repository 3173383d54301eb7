# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a task can run in Ansible's own process, or needs a module process. Pure, except for installed packages."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata

SWITCH = "GPUCTL_FAST_PATH"

# Distribution -> the lowest version that the collection works with, as requirements.txt says.
LIBRARIES = {"kubernetes": (31, 0), "pydantic": (2, 7), "PyYAML": (6, 0)}

# The values of INTERPRETER_PYTHON for any Python. Which one Ansible would discover does not matter.
_ANY_PYTHON = ("auto", "auto_legacy", "auto_silent", "auto_legacy_silent")


@dataclass(frozen=True)
class ExecutionContext:
    """How to run a task. ``environment`` is the value of the keyword of that name."""

    transport: str = "local"
    becomes: bool = False
    is_async: bool = False
    interpreter: str = "auto"
    environment: Mapping[str, str] = field(default_factory=dict)


def module_process_reason(task: ExecutionContext) -> str | None:
    """Why the task needs a module process; None if it does not."""
    variables = sorted(name for name in task.environment if not name.startswith("K8S_AUTH_") and name != SWITCH)
    if switched_off({**os.environ, **task.environment}):
        return f"{SWITCH} is off"
    if task.transport != "local":
        return f"the connection is {task.transport}, not local"
    if task.is_async:
        return "it is asynchronous"
    if task.becomes:
        return "it becomes another user"
    if variables:
        return f"the environment sets {', '.join(variables)}, which libraries and exec plugins may read"
    if not _is_this_python(task.interpreter):
        return f"the interpreter is {task.interpreter}, not {sys.executable}"
    return unfit_library()


def switched_off(environ: Mapping[str, str]) -> bool:
    return environ.get(SWITCH, "").strip().lower() in ("0", "false", "no", "off")


def _is_this_python(interpreter: str) -> bool:
    """Another name in the same directory (python3, python3.12) is the same; the target of a link is not.

    The Python of a virtual environment is a link to one outside of it, with other libraries.
    """
    if interpreter in _ANY_PYTHON:
        return True
    found = shutil.which(os.path.expanduser(interpreter))
    if found is None:
        return False
    same_directory = os.path.realpath(os.path.dirname(found)) == os.path.realpath(os.path.dirname(sys.executable))
    return same_directory and os.path.realpath(found) == os.path.realpath(sys.executable)


@lru_cache(maxsize=1)
def unfit_library() -> str | None:
    """The library that keeps tasks from running here, read from the metadata on disk."""
    for name, lowest in LIBRARIES.items():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            return f"{name} is not installed for {sys.executable}"
        if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < lowest:
            return f"{name} {version} of {sys.executable} is too old"
    return None
