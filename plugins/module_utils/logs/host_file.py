# SPDX-License-Identifier: BSD-2-Clause
"""A file on the host that the module runs on, replaced atomically."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from ..host_links import opened_directory, resolved
from ..kube.transport import CHUNK_SIZE
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
        try:
            self._path = resolved(path)  # A symbolic link stays, and its target is replaced.
        except ValueError as problem:
            raise ValueError(f"dest: {problem}") from None
        self._mode = mode
        try:
            is_directory = self._path.is_dir()
        except OSError as problem:  # a name that is too long
            reason = (problem.strerror or str(problem)).lower()
            raise ValueError(f"dest: the path cannot be used: {reason}. Use another one.") from None
        if is_directory:
            raise ValueError(f"dest: {path} is a directory. Name a file in it.")
        if self._path.exists() and not self._path.is_file():
            raise ValueError(f"dest: {path} is a device, a socket or a named pipe. Name a file.")
        if not self._path.parent.is_dir():
            raise ValueError(f"dest: {path} cannot be written. Create the directory {self._path.parent} first.")

    def history(self) -> LogHistory | None:
        """What the file has now; None if that is nothing."""
        with opened_directory(self._path.parent) as directory, self._current_file(directory) as file:
            return LogHistory(file) if file and os.fstat(file.fileno()).st_size else None

    def read(self) -> bytes | None:
        """The content; None without a file."""
        with opened_directory(self._path.parent) as directory, self._current_file(directory) as file:
            return file.read() if file else None

    def remove(self) -> None:
        """Delete the file, if it is there."""
        with opened_directory(self._path.parent) as directory, contextlib.suppress(FileNotFoundError):
            os.unlink(self._path.name, dir_fd=directory)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others that ask for this lock from the file, between its reading and its writing."""
        with opened_directory(self._path.parent) as directory, contextlib.ExitStack() as stack:
            # A lock needs permission to list the directory, and a file system that has locks.
            with contextlib.suppress(OSError):
                lock = os.open(".", os.O_RDONLY, dir_fd=directory)
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def part(self) -> BinaryIO:
        """A file for a part of the content. It has no name, so nothing of it is left behind."""
        return tempfile.TemporaryFile(dir=self._path.parent)

    def replace(self, parts: Iterable[tuple[bytes, BinaryIO]], *, check_mode: bool) -> bool:
        """Write the parts, each after its heading, as the content. Returns whether that changes the file.

        A new file is only readable by its owner unless a mode was given. An existing one keeps its mode and, if
        permitted, its owner: as with Ansible's ``atomic_move``, but others cannot read the new file even for a moment.
        """
        with opened_directory(self._path.parent) as directory, _new_file(directory, self._path.name) as (name, new):
            for heading, part in parts:
                new.write(heading)
                part.seek(0)
                shutil.copyfileobj(part, new)
            new.flush()
            with self._current_file(directory) as old:
                changed = old is None or self._differs(new, old)
                if changed and not check_mode:
                    self._take_over(new, old)
                    os.replace(name, self._path.name, src_dir_fd=directory, dst_dir_fd=directory)
            return changed

    @contextlib.contextmanager
    def _current_file(self, directory: int) -> Iterator[BinaryIO | None]:
        """The file as it is; None if there is none, or a link was laid in its place, which will be replaced."""
        try:
            # A pipe would block.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(self._path.name, flags, dir_fd=directory)
        except OSError as problem:
            if problem.errno not in (errno.ENOENT, errno.ELOOP):
                raise
            yield None
            return
        with os.fdopen(descriptor, "rb") as file:
            yield file

    def _differs(self, new: BinaryIO, old: BinaryIO) -> bool:
        return self._mode not in (None, _mode_of(old)) or not _have_same_content(new, old)

    def _take_over(self, new: BinaryIO, old: BinaryIO | None) -> None:
        """Give the new file the owner and the permissions that it is to have."""
        if old:
            status = os.fstat(old.fileno())
            with contextlib.suppress(PermissionError):  # Only root may change the owner.
                os.fchown(new.fileno(), status.st_uid, status.st_gid)
        mode = self._mode if self._mode is not None else _mode_of(old) if old else PRIVATE
        os.fchmod(new.fileno(), mode)


@contextlib.contextmanager
def _new_file(directory: int, beside: str) -> Iterator[tuple[str, BinaryIO]]:
    """A file that only its owner can read, and its name. What still has that name in the end is removed."""
    name = f".{beside}.{secrets.token_hex(8)}"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, PRIVATE, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield name, file
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)


def _mode_of(file: BinaryIO) -> int:
    return stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o777


def _have_same_content(one: BinaryIO, other: BinaryIO) -> bool:
    if os.fstat(one.fileno()).st_size != os.fstat(other.fileno()).st_size:
        return False
    one.seek(0)
    other.seek(0)
    while piece := one.read(CHUNK_SIZE):
        if piece != other.read(CHUNK_SIZE):
            return False
    return True
