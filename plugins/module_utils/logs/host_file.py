# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""A file on the host that the module runs on, replaced as a whole or not at all."""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

PRIVATE = 0o600


def parse_mode(mode: Any) -> int | None:
    """The permissions that an option names: ``"0640"``, or the number that YAML makes of an unquoted 0640.

    None for None and "". Raises ValueError whose text is a sentence for the user.
    """
    if mode is None or mode == "":
        return None
    try:
        number = int(mode, 8) if isinstance(mode, str) else int(mode)
    except ValueError:
        number = -1
    if isinstance(mode, bool) or not 0 <= number <= 0o777:
        raise ValueError(f'mode is {mode!r}; it must be permissions in octal, in quotes: "0640"')
    return number


class HostFile:
    """Raises ValueError, whose text is a sentence for the user, for a path where no file can be."""

    def __init__(self, path: str, mode: int | None = None) -> None:
        # A link stays, and what it leads to is replaced.
        self._path = Path(os.path.realpath(path))
        self._mode = mode
        if self._path.is_dir():
            raise ValueError(f"dest {path} is a directory; name a file in it")
        if not self._path.parent.is_dir():
            raise ValueError(f"dest {path} cannot be written: the directory {self._path.parent} does not exist")

    def part(self) -> BinaryIO:
        """Room for a part of the content. It has no name, so nothing of it is left whatever happens."""
        return tempfile.TemporaryFile(dir=self._path.parent)

    def replace(self, parts: Iterable[tuple[bytes, BinaryIO]], *, check_mode: bool) -> bool:
        """Make the parts, each after its heading, the content; whether that changes anything.

        A new file is for its owner alone unless a mode was given; an old one keeps its mode and, as far as we may, its
        owner: what Ansible's ``atomic_move`` does, except that nobody else can read the new file even for a moment.
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
                self._take_over_owner(new)
                new.chmod(self._wanted_mode())
                new.replace(self._path)
            return changed
        finally:
            new.unlink(missing_ok=True)

    def _differs(self, new: Path) -> bool:
        if not self._path.exists():
            return True
        return self._wanted_mode() != self._present_mode() or not filecmp.cmp(new, self._path, shallow=False)

    def _wanted_mode(self) -> int:
        if self._mode is not None:
            return self._mode
        return self._present_mode() if self._path.exists() else PRIVATE

    def _present_mode(self) -> int:
        return self._path.stat().st_mode & 0o777

    def _take_over_owner(self, new: Path) -> None:
        if self._path.exists():
            old = self._path.stat()
            with contextlib.suppress(PermissionError):  # Only root may give files away.
                os.chown(new, old.st_uid, old.st_gid)
