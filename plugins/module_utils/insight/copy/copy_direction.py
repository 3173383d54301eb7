# SPDX-License-Identifier: BSD-2-Clause
"""The two directions of a copy: which files are on both sides, and how they are transferred."""

from __future__ import annotations

import os
import posixpath
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...host_links import resolved
from ...kube.exec import ConnectionLost
from ...printable import one_line
from ...reporter import ByteCounter
from ...task import TaskFailed
from .copy_archive import Archive, FileChanged
from .copy_container import Container, failure_text
from .copy_local import Receiver, file_digest, list_directory, list_files, os_error_text
from .copy_scripts import (
    CORRUPTED,
    DIRECTORY,
    FILE,
    INCOMPLETE,
    MISSING,
    OTHER,
    STAGE,
    list_dest,
    list_source,
    names_list,
    receive_files,
    send_files,
)
from .copy_tree import (
    LINK,
    ROOT,
    CopyPlan,
    FileEntry,
    Listing,
    Tree,
    can_copy,
    check_only_file,
    check_parents,
    with_digests,
)

_AGAIN = "Run the task again."


@dataclass(frozen=True)
class Sides:
    """Source and destination, by the names at the destination. ``dest_path`` is the directory of the names.

    ``source_name``: the name at the source, where it is another one, as of a single file. ``space``: free bytes at the
    destination, if known. ``comparable``: whether contents could be compared.
    """

    source: Tree
    dest: Tree
    source_path: str
    dest_path: str
    source_name: Mapping[str, str] = field(default_factory=dict)
    space: int | None = None
    comparable: bool = True

    def named(self, name: str) -> str:
        return self.source_name.get(name, name)


# -- to a pod --------------------------------------------------------------------------------------------------------


def sides_to_pod(container: Container, local_path: str, remote_path: str) -> Sides:
    """Raises TaskFailed."""
    local = _resolved(local_path)
    if local.is_dir():
        return _directory_to_pod(container, local, remote_path)
    if not local.is_file():
        what = "is neither a file nor a directory" if local.exists() else "not found"
        raise TaskFailed(f"O(local_path) {what}: {one_line(local_path)}.")
    return _file_to_pod(container, local, os.path.basename(local_path), remote_path)


def send_to_pod(container: Container, sides: Sides, plan: CopyPlan) -> None:
    """Raises TaskFailed."""
    archive = Archive(lambda name: Path(sides.source_path, sides.named(name)), sides.source, plan)
    command = receive_files(sides.dest_path, f"{STAGE}{secrets.token_hex(8)}", archive.size)
    try:
        result = container.run(
            command, _counted_pieces(archive.pieces(), ByteCounter(container.progress, archive.size))
        )
    except FileChanged as problem:
        raise TaskFailed(f"{problem}. Nothing was copied. {_AGAIN}") from None
    except ConnectionLost as problem:
        known = "It is not known whether the files were copied." if problem.may_be_written else "Nothing was copied."
        raise TaskFailed(f"{problem} {known} {_AGAIN}", changed=problem.may_be_written) from None
    if result.exit_code == CORRUPTED:
        raise TaskFailed(f"the files arrived damaged in {container}. Nothing was copied. {_AGAIN}")
    if result.exit_code:
        begun = result.exit_code == INCOMPLETE
        outcome = "Some files may have been copied." if begun else "Nothing was copied."
        where = one_line(sides.dest_path)
        raise TaskFailed(f"{container} cannot write to {where}: {failure_text(result)}. {outcome}", changed=begun)


def _counted_pieces(pieces: Iterable[bytes], counter: ByteCounter) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        counter.add(len(piece))


def _directory_to_pod(container: Container, local: Path, remote_path: str) -> Sides:
    source, remote = list_directory(local), _without_slash(remote_path)
    names = (name for name, entry in source.items() if name != ROOT and can_copy(name, entry))
    listing = _list_dest(container, remote, *names)
    if listing.kind == OTHER:
        hint = "Remove it, or name another path."
        raise TaskFailed(f"O(remote_path) is not a directory: {one_line(remote_path)}. {hint}")
    dest = {**listing.entries, **({ROOT: FileEntry(DIRECTORY)} if listing.kind == DIRECTORY else {})}
    source = with_digests(source, dest, lambda name: file_digest(local / name))
    return Sides(source, dest, str(local), remote, space=listing.space, comparable=listing.has_digests)


def _file_to_pod(container: Container, local: Path, name: str, remote_path: str) -> Sides:
    parent, remote_name = posixpath.split(remote_path)
    if remote_name in ("", ".", ".."):
        parent, remote_name = remote_path, ""
    parent = _without_slash(parent or ROOT)
    within = f"{remote_name}/{name}"
    listing = _list_dest(container, parent, *([remote_name, within] if remote_name else [name]))
    there = listing.entries.get(remote_name)
    if there and there.kind == LINK:  # perhaps to a directory
        linked = _list_dest(container, remote_path, name)
        listing = linked if linked.kind == DIRECTORY else listing
        parent, dest_name = (remote_path, name) if linked.kind == DIRECTORY else (parent, remote_name)
        found = listing.entries.get(dest_name)
    elif there and there.kind == DIRECTORY:
        parent, dest_name, found = remote_path, name, listing.entries.get(within)
    else:
        dest_name = remote_name or name
        found = listing.entries.get(dest_name)
    dest = {dest_name: found} if found else {}
    entry = list_files(local.parent, [local.name])[local.name]
    source = with_digests({dest_name: entry}, dest, lambda _name: file_digest(local))
    names = {dest_name: local.name}
    return Sides(source, dest, str(local.parent), parent, names, listing.space, listing.has_digests)


def _list_dest(container: Container, root: str, *names: str) -> Listing:
    stdin = names_list(names)
    return container.list_files(list_dest(root, len(stdin)), [stdin])


# -- from a pod ------------------------------------------------------------------------------------------------------


def sides_from_pod(container: Container, local_path: str, remote_path: str) -> Sides:
    """Raises TaskFailed."""
    _resolved(local_path)  # before anything is asked of the pod
    remote = _without_slash(remote_path)
    listing = container.list_files(list_source(remote))
    if listing.kind not in (DIRECTORY, FILE):
        what = "not found" if listing.kind == MISSING else "is neither a file nor a directory"
        raise TaskFailed(f"O(remote_path) {what} in {container}: {one_line(remote_path)}.")
    source: Tree = listing.entries
    directory, remote_name = posixpath.split(remote)
    try:
        check_parents(source)
        if listing.kind == FILE:
            check_only_file(source, remote_name)
    except ValueError as problem:
        raise TaskFailed(f"{container} cannot list files: {one_line(str(problem))}.") from None
    local, names = Path(local_path), dict[str, str]()
    if listing.kind == FILE:
        remote = directory
        if not (local_path.endswith("/") or local.is_dir()):
            names = {local.name: remote_name}
            source, local = {local.name: source[remote_name]}, local.parent
    elif local.exists() and not local.is_dir():
        hint = "Remove it, or name another path."
        raise TaskFailed(f"O(local_path) is not a directory: {one_line(local_path)}. {hint}")
    local = _resolved(str(local))
    dest = with_digests(list_files(local, source), source, lambda name: file_digest(local / name))
    return Sides(source, dest, remote or ROOT, str(local), names, comparable=listing.has_digests)


def fetch_from_pod(container: Container, sides: Sides, plan: CopyPlan) -> None:
    """Raises TaskFailed."""
    with Receiver(Path(sides.dest_path), sides.source, plan) as receiver:
        size = sum(sides.source[name].size for name in plan.files)
        if size > receiver.space:
            raise TaskFailed(f"not enough space in {sides.dest_path}: {size} bytes to copy, {receiver.space} are free.")
        try:
            if plan.files:
                stdin = names_list([sides.named(name) for name in plan.files])
                counter = ByteCounter(container.progress, size)

                def write(data: bytes) -> None:
                    receiver.write(data)
                    counter.add(len(data))

                result = container.run(send_files(sides.source_path, len(stdin)), [stdin], write)
                if result.exit_code:
                    raise TaskFailed(f"{container} cannot read the files: {failure_text(result)}. Nothing was copied.")
            receiver.check_complete()
        except FileChanged as problem:
            raise TaskFailed(f"{problem}. Nothing was copied. {_AGAIN}") from None
        except ConnectionLost as problem:
            raise TaskFailed(f"{problem} Nothing was copied. {_AGAIN}") from None
        try:
            receiver.put_in_place()
        except OSError as problem:
            raise TaskFailed(f"{os_error_text(problem)}. Some files may have been copied.", changed=True) from None


def _resolved(local_path: str) -> Path:
    """Raises TaskFailed for a link of another user, which would choose what is read or written with our permissions."""
    try:
        return resolved(local_path)
    except ValueError as problem:
        raise TaskFailed(f"O(local_path): {problem}") from None


def _without_slash(path: str) -> str:
    return path.rstrip("/") or "/"


Direction = tuple[Callable[[Container, str, str], Sides], Callable[[Container, Sides, CopyPlan], None]]

DIRECTIONS: Mapping[str, Direction] = {
    "to_pod": (sides_to_pod, send_to_pod),
    "from_pod": (sides_from_pod, fetch_from_pod),
}
