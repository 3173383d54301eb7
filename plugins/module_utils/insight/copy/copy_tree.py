# SPDX-License-Identifier: BSD-2-Clause
"""The files below a directory, as data, and which of them a copy has to transfer. Pure.

What a container lists is not trusted: names and links must not lead out of the directory.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ...manifest.problems import number_of
from ...printable import one_line
from .copy_scripts import DIRECTORY, FILE, LACKS, MISSING, NO_DIGESTS, OTHER, SPACE

ROOT = "."  # the name of the directory itself

_KINDS = {stat.S_IFREG: FILE, stat.S_IFDIR: DIRECTORY, stat.S_IFLNK: "link"}
LINK = _KINDS[stat.S_IFLNK]


@dataclass(frozen=True)
class FileEntry:
    """A file, directory or link, or something else. ``mode``: permissions; ``digest``: SHA-256 of a file, if known."""

    kind: str
    mode: int = 0
    size: int = 0
    digest: str | None = None
    target: str = ""


Tree = Mapping[str, FileEntry]  # by name relative to the directory


@dataclass(frozen=True)
class Listing:
    """What a container has at a path. ``kind`` is one of the words of copy_scripts.py; ``space`` is in bytes."""

    kind: str
    entries: dict[str, FileEntry] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    has_digests: bool = True
    space: int | None = None


@dataclass(frozen=True)
class CopyPlan:
    """``modes``: permissions to set on what exists, and on directories to create. ``skipped``: cannot be copied."""

    files: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    modes: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    unchanged: int = 0

    @property
    def changed(self) -> tuple[str, ...]:
        return tuple(sorted({*self.files, *self.links, *self.directories, *self.modes}))


def entry_kind(mode: int) -> str:
    """From the mode of a file as stat returns it."""
    return _KINDS.get(stat.S_IFMT(mode), OTHER)


# -- comparing -------------------------------------------------------------------------------------------------------


def plan_copy(source: Tree, dest: Tree) -> CopyPlan:
    """What makes ``dest`` a copy of ``source``; files that only ``dest`` has stay.

    Directories keep their permissions. Raises ValueError with a message for the user if a file is in the place of a
    directory, or the other way round.
    """
    skipped = tuple(sorted(name for name, entry in source.items() if not can_copy(name, entry)))
    wanted = {name: entry for name, entry in sorted(source.items()) if can_copy(name, entry)}
    _check_conflicts(wanted, dest)
    new = [name for name, entry in wanted.items() if entry.kind == DIRECTORY and name not in dest]
    files = [name for name, entry in wanted.items() if entry.kind == FILE and not same_content(entry, dest.get(name))]
    links = [name for name, entry in wanted.items() if entry.kind == LINK and _differs_as_link(entry, dest.get(name))]
    modes = {name: wanted[name].mode | stat.S_IRWXU for name in new}
    for name, entry in wanted.items():
        if entry.kind == FILE and name not in files and entry.mode != dest[name].mode:
            modes[name] = entry.mode
    touched = {*files, *links, *modes}
    unchanged = sum(entry.kind != DIRECTORY and name not in touched for name, entry in wanted.items())
    return CopyPlan(tuple(files), tuple(links), tuple(new), modes, skipped, unchanged)


def can_copy(name: str, entry: FileEntry) -> bool:
    """Files, directories, and links within the copied directory."""
    return entry.kind in (FILE, DIRECTORY) or (entry.kind == LINK and stays_inside(name, entry.target))


def stays_inside(name: str, target: str) -> bool:
    """Whether a link cannot lead out of the directory, whatever the other links are.

    It may climb only from where it is, through real directories: after a name, which may be a link, ``..`` is anywhere.
    """
    parts = target.split("/")
    if not target or target.startswith("/") or "\0" in target:
        return False
    steps = [part for part in parts if part not in ("", ".")]
    climbs = next((number for number, part in enumerate(steps) if part != ".."), len(steps))
    return ".." not in steps[climbs:] and climbs <= name.count("/")


def same_content(one: FileEntry, other: FileEntry | None) -> bool:
    """Whether two files are known to have the same content."""
    if other is None or other.kind != FILE or one.size != other.size:
        return False
    return one.size == 0 or (one.digest is not None and one.digest == other.digest)


def _differs_as_link(link: FileEntry, other: FileEntry | None) -> bool:
    return other is None or (other.kind, other.target) != (LINK, link.target)


def _check_conflicts(source: Tree, dest: Tree) -> None:
    for name, entry in source.items():
        there = dest.get(name)
        if there and DIRECTORY in (entry.kind, there.kind) and entry.kind != there.kind:
            raise ValueError(
                f"{one_line(name)} is a {entry.kind}, but a {there.kind} at the destination. Remove it there first."
            )


def with_digests(tree: Tree, other: Tree, digest: Callable[[str], str]) -> dict[str, FileEntry]:
    """The tree with the digests of those files that only their content can distinguish from ``other``'s."""

    def needs_digest(name: str, entry: FileEntry) -> bool:
        there = other.get(name)
        return entry.kind == FILE and there is not None and bool(there.digest) and there.size == entry.size

    return {
        name: replace(entry, digest=digest(name)) if needs_digest(name, entry) else entry
        for name, entry in tree.items()
    }


# -- what a container lists ------------------------------------------------------------------------------------------


def parse_listing(output: bytes) -> Listing:
    """What the scripts ``list_source`` and ``list_dest`` print. Raises ValueError for anything else."""
    lines = iter(output.decode("utf-8", "surrogateescape").split("\n"))
    lacks: tuple[str, ...] = ()
    has_digests, space = True, None
    for line in lines:
        word, _blank, rest = line.partition(" ")
        if word == LACKS:
            lacks = tuple(rest.split())
        elif word == NO_DIGESTS:
            has_digests = False
        elif word == SPACE:
            space = int(rest) * 1024 if rest.isdecimal() else None
        elif line in (DIRECTORY, FILE, OTHER, MISSING):
            return Listing(line, _parse_entries(lines), lacks, has_digests, space)
        else:
            break
    if lacks:
        return Listing(MISSING, {}, lacks)
    raise ValueError("the container's list of files is incomplete")


def _parse_entries(lines: Iterator[str]) -> dict[str, FileEntry]:
    entries: dict[str, FileEntry] = {}
    digests: dict[str, str] = {}
    for line in lines:
        if found := _STATUS.fullmatch(line):
            bits = int(found["mode"], 16)
            entries[relative_name(found["name"])] = FileEntry(entry_kind(bits), bits & 0o777, int(found["size"]))
        elif line.startswith("l "):
            name, target = relative_name(line[2:]), next(lines, "")
            if name not in entries:
                raise ValueError(f"a link that was not listed before: {name!r}")
            entries[name] = replace(entries[name], target=target)
        elif line:
            name, digest = _parse_digest(line)
            digests[name] = digest
    return {name: replace(entry, digest=digests.get(name)) for name, entry in entries.items()}


_STATUS = re.compile(r"s (?P<mode>[0-9a-f]{1,8}) (?P<size>[0-9]{1,18}) (?P<name>.+)")


def _parse_digest(line: str) -> tuple[str, str]:
    """A line of sha256sum. GNU's starts with a backslash if it has escaped the name."""
    escaped = line.startswith("\\")
    digest, name = line[escaped : 64 + escaped], line[66 + escaped :]
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise ValueError(f"a name with a line break: {line!r}")
    return relative_name(name.replace("\\\\", "\\") if escaped else name), digest


def relative_name(name: str) -> str:
    """A listed name without its ``./``. Raises ValueError for one that is not below the directory."""
    if name == ROOT:
        return name
    parts = name.split("/")
    if parts[0] != "." or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]) or "\0" in name:
        raise ValueError(f"not a name below the directory: {name!r}")
    return name[2:]


def check_parents(tree: Tree) -> None:
    """Raises ValueError if anything is below what is no directory of the tree: a link, for example."""
    for name in tree:
        parent = name.rpartition("/")[0]
        if parent and (parent not in tree or tree[parent].kind != DIRECTORY):
            raise ValueError(f"{name!r} is not in a directory")


def check_only_file(tree: Tree, name: str) -> None:
    """Raises ValueError if the list of a single file has another one: it would be written beside the wanted one."""
    other = next((listed for listed in tree if listed != name), None)
    if other is not None:
        raise ValueError(f"not the file that was asked for: {other!r}")
    if name not in tree or tree[name].kind != FILE:
        raise ValueError(f"{name!r} is missing or no file")


# -- for people ------------------------------------------------------------------------------------------------------


def facts(tree: Tree, names: Iterable[str]) -> dict[str, str]:
    """Those of the names that a tree has, and what is there, for a diff."""
    return {one_line(name): _entry_facts(tree[name]) for name in names if name in tree}


def _entry_facts(entry: FileEntry) -> str:
    if entry.kind == LINK:
        return f"link to {one_line(entry.target)}"
    if entry.kind != FILE:
        return f"{entry.kind}, mode {entry.mode:04o}"
    digest = f", sha256 {entry.digest[:12]}" if entry.digest else ""
    return f"{number_of(entry.size, 'byte')}, mode {entry.mode:04o}{digest}"
