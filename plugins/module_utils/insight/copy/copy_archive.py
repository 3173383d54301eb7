# SPDX-License-Identifier: BSD-2-Clause
"""The tar archive that ``receive_files`` of copy_scripts.py unpacks: files, and lists of what to do with them.

It is made in pieces, because it may be larger than memory, and its size is known before.
"""

from __future__ import annotations

import hashlib
import tarfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ...kube.transport import CHUNK_SIZE
from ...printable import one_line
from .copy_scripts import names_list
from .copy_tree import CopyPlan, Tree

_DIGEST_SIZE = 64  # hexadecimal digits
_END = bytes(2 * tarfile.BLOCKSIZE)


class FileChanged(Exception):
    """A file is not what it was when the copy was planned."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{one_line(name)} changed while it was copied")


class Archive:
    """The archive of a plan. ``size`` is in bytes; ``path`` returns where the file of a name is."""

    def __init__(self, path: Callable[[str], Path], tree: Tree, plan: CopyPlan) -> None:
        self._path = path
        self._tree = tree
        self._plan = plan
        self._digest = hashlib.sha256()
        self.size = sum(len(header) + _padded(size) for header, size, _content in self._members()) + len(_END)

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the archive. Raises FileChanged; OSError for a file that cannot be read."""
        for header, size, content in self._members():
            yield header
            yield from content
            yield bytes(_padded(size) - size)
        yield _END

    def _members(self) -> Iterator[tuple[bytes, int, Iterable[bytes]]]:
        """Header, size and content: the directories that the files are in, links, files, lists, and their digest."""
        parents = {parent for name in (*self._plan.files, *self._plan.links) for parent in _parents(name)}
        for directory in ("tree", *(f"tree/{name}" for name in sorted(parents)), "modes"):
            yield _header(directory, kind=tarfile.DIRTYPE, mode=0o700), 0, ()
        for name in self._plan.links:
            yield _header(f"tree/{name}", kind=tarfile.SYMTYPE, mode=0o777, target=self._tree[name].target), 0, ()
        for name in self._plan.files:
            size, mode = self._tree[name].size, self._tree[name].mode
            yield _header(f"tree/{name}", size, mode=mode), size, self._content(name, size)
        for name, data in _lists(self._plan).items():
            yield _header(name, len(data)), len(data), (data,)
        # The last one: an archive without it is incomplete.
        yield _header("complete", _DIGEST_SIZE), _DIGEST_SIZE, (self._digest.hexdigest().encode(),)

    def _content(self, name: str, size: int) -> Iterator[bytes]:
        """The content of a file that must have exactly that size. Raises FileChanged."""
        with self._path(name).open("rb") as file:
            left = size
            while left and (piece := file.read(min(left, CHUNK_SIZE))):
                left -= len(piece)
                self._digest.update(piece)
                yield piece
            if left or file.read(1):
                raise FileChanged(name)


def _lists(plan: CopyPlan) -> dict[str, bytes]:
    by_mode: dict[int, list[str]] = defaultdict(list)
    for name, mode in plan.modes.items():
        by_mode[mode].append(name)
    return {
        "names": names_list(plan.files),
        "directories": names_list(plan.directories),
        **{f"modes/{mode:o}": names_list(names) for mode, names in by_mode.items()},
    }


def _parents(name: str) -> Iterator[str]:
    parts = name.split("/")[:-1]
    return ("/".join(parts[: depth + 1]) for depth in range(len(parts)))


def _header(name: str, size: int = 0, *, kind: bytes = tarfile.REGTYPE, mode: int = 0o600, target: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.linkname, info.mtime = kind, size, mode, target, int(time.time())
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _padded(size: int) -> int:
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
