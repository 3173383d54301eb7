# SPDX-License-Identifier: BSD-2-Clause
"""The tar archive that ``receive_files`` of copy_scripts.py unpacks: files, and lists of what to do with them.

It is made in pieces, because it may be larger than memory, and its size is known before.
"""

from __future__ import annotations

import hashlib
import tarfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from ...kube.transport import CHUNK_SIZE
from ...printable import one_line
from .copy_scripts import names_list
from .copy_tree import CopyPlan, Tree

_DIGEST_SIZE = 64  # hexadecimal digits
_END = bytes(2 * tarfile.BLOCKSIZE)


class FileChanged(Exception):
    """A file is not what it was when the copy was planned; the text says which."""


class Archive:
    """The archive of a plan. ``size`` is in bytes; ``path`` returns where the file of a name is."""

    def __init__(self, path: Callable[[str], Path], tree: Tree, plan: CopyPlan) -> None:
        self._path = path
        self._tree = tree
        self._plan = plan
        self._lists = _lists(plan)
        lists = sum(len(_header(name, len(data))) + _padded(len(data)) for name, data in self._lists.items())
        headers = sum(len(header) for header in self._headers())
        files = sum(len(self._file_header(name)) + _padded(tree[name].size) for name in plan.files)
        last = len(_header("complete", _DIGEST_SIZE)) + _padded(_DIGEST_SIZE)
        self.size = headers + files + lists + last + len(_END)

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the archive. Raises FileChanged; OSError for a file that cannot be read."""
        yield from self._headers()
        digest = hashlib.sha256()
        for name in self._plan.files:
            yield self._file_header(name)
            for piece in read_pieces(self._path(name), self._tree[name].size, name):
                digest.update(piece)
                yield piece
            yield bytes(_padded(self._tree[name].size) - self._tree[name].size)
        for name, data in self._lists.items():
            yield _header(name, len(data)) + data + bytes(_padded(len(data)) - len(data))
        # The last one: an archive without it is incomplete.
        data = digest.hexdigest().encode()
        yield _header("complete", len(data)) + data + bytes(_padded(len(data)) - len(data)) + _END

    def _headers(self) -> Iterator[bytes]:
        """What has no content: the directories that the files are in, and links."""
        parents = {parent for name in (*self._plan.files, *self._plan.links) for parent in _parents(name)}
        for directory in ("tree", *(f"tree/{name}" for name in sorted(parents)), "modes"):
            yield _header(directory, kind=tarfile.DIRTYPE, mode=0o700)
        for name in self._plan.links:
            yield _header(f"tree/{name}", kind=tarfile.SYMTYPE, mode=0o777, target=self._tree[name].target)

    def _file_header(self, name: str) -> bytes:
        return _header(f"tree/{name}", self._tree[name].size, mode=self._tree[name].mode)


def read_pieces(path: Path, size: int, name: str) -> Iterator[bytes]:
    """The content of a file that must have exactly that size. Raises FileChanged."""
    with path.open("rb") as file:
        left = size
        while left and (piece := file.read(min(left, CHUNK_SIZE))):
            left -= len(piece)
            yield piece
        if left or file.read(1):
            raise FileChanged(f"{one_line(name)} changed while it was copied")


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
