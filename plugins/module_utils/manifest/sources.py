# SPDX-License-Identifier: BSD-2-Clause
"""Find manifest files by path, directory or glob, and read them. The only part of the package that touches the disk."""

from __future__ import annotations

import glob
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from .problems import ManifestError, number_of
from .yaml_text import MAX_BYTES

_SUFFIXES = (".yaml", ".yml")


def read_files(paths: Iterable[str]) -> Iterator[tuple[str, str] | ManifestError]:
    """The path, as the user would write it, and text of each file, each file once, or why it cannot be read.

    A path is a file of any name, a directory (all *.yaml and *.yml below it, sorted, without hidden ones) or a glob
    with *, ?, [] and **. A path without a file is an error, and so is a link out of a directory that is searched: its
    author need not be allowed to read what the controller may.
    """
    read: set[str] = set()
    for path in paths:
        try:
            files = list(_matching_files(path))
        except OSError as error:
            yield _unreadable(path, error)
            continue
        if not files:
            yield _path_not_found(path)
        directory = os.path.realpath(_searched(path))
        for file in files:
            real = os.path.realpath(file)
            if file != path and not _is_within(real, directory):
                hint = "Copy the file into it, or name the file itself"
                yield ManifestError(file, "symbolic link out of the directory", hint, directory)
            elif real not in read:
                read.add(real)
                text = _read_file(file)
                yield text if isinstance(text, ManifestError) else (file, text)


def without_text_behind_links(errors: Sequence[ManifestError], paths: Iterable[str]) -> list[ManifestError]:
    """The errors, with only the number of those about the text of files that a link leads to from a named path.

    A checkout can have such a link in place of the file or directory that the user names. It is one that leads out of
    the working directory, or of the path's own directory if that is elsewhere.
    """
    hidden: dict[str, str] = {}
    for path in paths:
        named = os.path.abspath(_searched(path))
        directory = os.getcwd() if _is_within(named, os.getcwd()) else os.path.dirname(named)
        if not _is_within(os.path.realpath(named), os.path.realpath(directory)):
            with suppress(OSError):  # Then nothing of it was read.
                hidden.update(dict.fromkeys(_matching_files(path), directory))
    shown = [error for error in errors if error.document is None or error.file not in hidden]
    count = Counter(error.file for error in errors if error.document is not None and error.file in hidden)
    return shown + [
        ManifestError(
            file,
            f"{number_of(number, 'error')}, not shown because a symbolic link leads to this file out of {hidden[file]}",
            "To see them, name the file itself",
        )
        for file, number in count.items()
    ]


def _is_within(path: str, directory: str) -> bool:
    return os.path.commonpath([path, directory]) == directory


def _searched(path: str) -> str:
    """What a path names: a file or directory; of a glob, the directory above its first pattern."""
    while glob.has_magic(path) and not os.path.lexists(path):
        path = os.path.dirname(path)
    return path or os.curdir


def _is_glob(path: str) -> bool:
    return glob.has_magic(path) and not os.path.lexists(path)


def _matching_files(path: str) -> Iterator[str]:
    for match in sorted(glob.glob(path, recursive=True)) if _is_glob(path) else [path]:
        if os.path.isdir(match):
            yield from _files_below(match)
        elif os.path.lexists(match):
            yield match


def _files_below(directory: str) -> Iterator[str]:
    with os.scandir(directory) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path)
        elif entry.name.endswith(_SUFFIXES) and not entry.is_dir():
            yield entry.path


def _read_file(file: str) -> str | ManifestError:
    try:
        # Without blocking on a FIFO: only regular files are read.
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ManifestError(file, "not a regular file", "Use a YAML file or a directory")
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return _unreadable(file, error)
    if len(content) > MAX_BYTES:
        return ManifestError(file, f"larger than {MAX_BYTES // 1024} KiB", "Split it into several files")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ManifestError(file, "UTF-16 encoding", "Save it as UTF-8")
    if b"\0" in content:
        return ManifestError(file, "binary file", "Use a manifest in YAML")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{content[error.start]:02x} on line {line}"
        return ManifestError(file, "not UTF-8", "Save it as UTF-8", byte)


def _path_not_found(path: str) -> ManifestError:
    absolute = os.path.abspath(path)
    searched = f"Searched {absolute}" if absolute != path else ""  # else the message begins with it
    if os.path.isdir(path):
        hint = f"{searched} and below" if searched else "Searched below it, too"
        return ManifestError(path, "no .yaml or .yml file in the directory", hint)
    problem = "no matching file" if glob.has_magic(path) else "file or directory not found"
    return ManifestError(path, problem, searched or "Check the path")


def _unreadable(file: str, error: OSError) -> ManifestError:
    return ManifestError(file, "not readable", value=(error.strerror or str(error)).lower())
