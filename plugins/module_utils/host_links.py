# SPDX-License-Identifier: BSD-2-Clause
"""Paths on the host that the module runs on, without links that other users have laid.

In a directory that others may write to, such as /tmp, any of them can make the name of a file that another user is
going to write a link to a file of that user, or of root.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MOST_LINKS = 40  # as Linux (MAXSYMLINKS)
# Directories need only be searched on the way. macOS has no O_PATH, and requires permission to read them.
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def resolved(path: str) -> Path:
    """The path without links, as of os.path.realpath. What does not exist stays.

    Raises ValueError with a message for the user for a link of anybody but root and the user that this runs as.
    """
    done, links = "/", 0
    rest = list(reversed(Path(os.getcwd(), path).parts[1:]))
    while rest:
        part = rest.pop()
        place = os.path.dirname(done) if part == ".." else os.path.join(done, part)
        owner = _owner_of_link(place)
        if owner is None:
            done = place
            continue
        links += 1
        if owner not in (0, os.geteuid()):
            raise ValueError(
                f"{path}: {place} is a symbolic link of another user (uid {owner}). Name its target instead."
            )
        if links > _MOST_LINKS:
            raise ValueError(f"{path}: too many symbolic links. Name the target of {place} instead.")
        target = Path(os.readlink(place))
        if target.is_absolute():
            done = "/"
        rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return Path(done)


def _owner_of_link(place: str) -> int | None:
    try:
        status = os.lstat(place)
    except OSError:  # Missing or unreadable: opening it reports the error.
        return None
    return status.st_uid if stat.S_ISLNK(status.st_mode) else None


@contextmanager
def opened_directory(path: Path) -> Iterator[int]:
    """A descriptor of a resolved directory, for ``dir_fd``. Raises OSError where a link has been laid since."""
    descriptor = os.open("/", _SEARCH)
    try:
        for part in path.parts[1:]:
            below = os.open(part, _SEARCH, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)
