# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write what a task has returned to a file on the controller: a page, data, or a table for spreadsheets."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .reports import files_of


def unfit_report(result: Mapping[str, Any], path: str) -> str | None:
    """Why the result cannot be written to the file, as a message; None if it can."""
    files = files_of(result)
    if not files:
        return "O(output): this result has no report. Leave it out." if "failed" not in result else None
    if Path(path).suffix.lower() not in files:
        return f"O(output): {path} is no file for a report. Use a name that ends with {' or '.join(files)}."
    return None


def write_report(result: Mapping[str, Any], path: str, *, check_mode: bool) -> bool:
    """Replace the file in one step, if its text is another one. Returns whether it was. Raises OSError."""
    text = files_of(result)[Path(path).suffix.lower()](result)
    # A spreadsheet takes a file without this mark for one in the code page of the machine.
    data = text.encode("utf-8-sig" if path.lower().endswith(".csv") else "utf-8", "backslashreplace")
    target = Path(path)
    with suppress(FileNotFoundError):
        if target.read_bytes() == data:
            return False
    if check_mode:
        return True
    umask = os.umask(0)
    os.umask(umask)
    replace_file(target, data, 0o644 & ~umask)
    return True


def replace_file(target: Path, data: bytes, mode: int) -> None:
    """Write the file in one step, also over an existing one. Raises OSError."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
