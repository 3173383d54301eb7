# SPDX-License-Identifier: BSD-2-Clause
"""A file on the host that the module runs on, replaced atomically."""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from .log_history import LogHistory

PRIVATE = 0o600


def parse_mode(mode: Any) -> int | None:
    """The permissions of an option ``mode``: ``"0640"``, or the number that an unquoted 0640 is in YAML.

    None for None and "". Raises ValueError with a message for the user.
    """
    if mode is None or mode == "":
        return None
    try:
        number = int(mode, 8) if isinstance(mode, str) else int(mode)
    except (TypeError, ValueError, OverflowError):
        number = -1
    if isinstance(mode, bool) or not 0 <= number <= 0o777:
        raise ValueError(f'mode: {mode!r} is not a file mode. Give octal permissions in quotes, such as "0640".')
    return number


class HostFile:
    """Raises ValueError with a message for the user for a path where no file can be written."""

    def __init__(self, path: str, mode: int | None = None) -> None:
        # A symbolic link stays, and its target is replaced.
        self._path = Path(os.path.realpath(path))
        self._mode = mode
        try:
            is_directory = self._path.is_dir()
        except OSError as problem:  # a name that is too long
            reason = (problem.strerror or str(problem)).lower()
            raise ValueError(f"dest: the path cannot be used: {reason}. Use another one.") from None
        if is_directory:
            raise ValueError(f"dest: {path} is a directory. Name a file in it.")
        if not self._path.parent.is_dir():
            raise ValueError(f"dest: {path} cannot be written. Create the directory {self._path.parent} first.")

    def history(self) -> LogHistory | None:
        """What the file has now; None if that is nothing."""
        has_content = self._path.is_file() and self._path.stat().st_size
        return LogHistory(self._path) if has_content else None

    def part(self) -> BinaryIO:
        """A file for a part of the content. It has no name, so nothing of it is left behind."""
        return tempfile.TemporaryFile(dir=self._path.parent)

    def replace(self, parts: Iterable[tuple[bytes, BinaryIO]], *, check_mode: bool) -> bool:
        """Write the parts, each after its heading, as the content. Returns whether that changes the file.

        A new file is only readable by its owner unless a mode was given. An existing one keeps its mode and, if
        permitted, its owner: as with Ansible's ``atomic_move``, but others cannot read the new file even for a moment.
        """
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        new = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                for heading, part in parts:
                    file.write(heading)
                    part.seek(0)
                    shutil.copyfileobj(part, file)
            changed = self._differs(new)
            if changed and not check_mode:
                self._copy_owner(new)
                new.chmod(self._target_mode())
                new.replace(self._path)
            return changed
        finally:
            new.unlink(missing_ok=True)

    def _differs(self, new: Path) -> bool:
        if not self._path.exists():
            return True
        return self._target_mode() != self._current_mode() or not filecmp.cmp(new, self._path, shallow=False)

    def _target_mode(self) -> int:
        if self._mode is not None:
            return self._mode
        return self._current_mode() if self._path.exists() else PRIVATE

    def _current_mode(self) -> int:
        return self._path.stat().st_mode & 0o777

    def _copy_owner(self, new: Path) -> None:
        if self._path.exists():
            old = self._path.stat()
            with contextlib.suppress(PermissionError):  # Only root may change the owner.
                os.chown(new, old.st_uid, old.st_gid)
