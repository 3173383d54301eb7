# SPDX-License-Identifier: BSD-2-Clause
"""The files on the host that the module runs on: list them, and put received ones in place."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from ...kube.transport import CHUNK_SIZE
from ...printable import one_line
from .copy_archive import FileChanged
from .copy_scripts import OTHER, STAGE
from .copy_tree import LINK, ROOT, CopyPlan, FileEntry, Tree, entry_kind


def list_directory(root: Path) -> dict[str, FileEntry]:
    """Everything in a directory, with itself. Raises OSError."""
    return {name: _entry(Path(os.path.join(root, name))) for name in (ROOT, *_file_names(root))}


def list_files(root: Path, names: Iterable[str]) -> dict[str, FileEntry]:
    """Those of the names that exist in a directory."""
    found = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path = root / name
            found[name] = _entry(path)
    return found


def file_digest(path: Path) -> str:
    """SHA-256. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(CHUNK_SIZE):
            digest.update(piece)
    return digest.hexdigest()


def os_error_text(problem: OSError) -> str:
    """For a message, without its end."""
    where = f"{one_line(str(problem.filename))}: " if problem.filename else ""
    return f"local files cannot be copied: {where}{problem.strerror or problem}"


def _file_names(root: Path) -> Iterator[str]:
    def fail(problem: OSError) -> None:
        raise problem

    for directory, directories, files in os.walk(root, onerror=fail):
        directories[:] = sorted(name for name in directories if not name.startswith(STAGE))
        for name in (*directories, *sorted(files)):
            yield os.path.relpath(os.path.join(directory, name), root)


def _entry(path: Path) -> FileEntry:
    status = path.lstat()
    # The tools of a container print names a line each.
    kind = OTHER if "\n" in str(path) else entry_kind(status.st_mode)
    target = os.readlink(path) if kind == LINK else ""
    return FileEntry(kind, stat.S_IMODE(status.st_mode) & 0o777, status.st_size, target=target)


class Receiver:
    """Writes the files of a plan, whose contents arrive one after the other, next to their destination.

    ``put_in_place`` moves all of them there. Before it, only a directory of its own is written, which does not outlive
    the context. Raises FileChanged for content that is not what was listed, OSError where it cannot be written.
    """

    def __init__(self, root: Path, source: Tree, plan: CopyPlan) -> None:
        self._root = root
        self._source = source
        self._plan = plan
        self._stage = Path(tempfile.mkdtemp(prefix=STAGE, dir=_existing(root)))
        self._name = ""  # of the file that is being received
        self._complete = False
        self._contents = self._received()
        next(self._contents)

    @property
    def space(self) -> int:
        """Free bytes where the files go."""
        return shutil.disk_usage(self._stage).free

    def write(self, data: bytes) -> None:
        """The next bytes, however they are divided between files."""
        self._contents.send(data)

    def check_complete(self) -> None:
        if not self._complete:
            raise FileChanged(self._name)

    def put_in_place(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        for name in self._plan.directories:
            (self._root / name).mkdir(exist_ok=True)
        for number, name in enumerate(self._plan.files):
            (self._stage / str(number)).replace(self._root / name)
        for name in self._plan.links:
            link = self._stage / "link"
            link.symlink_to(self._source[name].target)
            link.replace(self._root / name)
        for name, mode in self._plan.modes.items():
            (self._root / name).chmod(mode)

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *dummy: object) -> None:
        self._contents.close()
        shutil.rmtree(self._stage, ignore_errors=True)

    def _received(self) -> Generator[None, bytes, None]:
        """Writes the files, of which it is sent the contents."""
        data = b""
        for number, name in enumerate(self._plan.files):
            self._name, entry, digest = name, self._source[name], hashlib.sha256()
            # Private until it gets the permissions of the source.
            descriptor = os.open(self._stage / str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                left = entry.size
                while left:
                    data = data or (yield)
                    piece, data = data[:left], data[left:]
                    file.write(piece)
                    digest.update(piece)
                    left -= len(piece)
                os.fchmod(file.fileno(), entry.mode)
            if entry.digest and entry.digest != digest.hexdigest():
                raise FileChanged(name)
        self._complete = True
        while not data:
            data = yield
        raise FileChanged(self._name)


def _existing(path: Path) -> Path:
    """The path, or the first directory above it that exists."""
    path = Path(os.path.abspath(path))
    return next(place for place in (path, *path.parents) if place.is_dir())
