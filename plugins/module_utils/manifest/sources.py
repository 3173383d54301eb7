# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Manifest files: found by path, directory or glob, and read. The only part of the package that touches the disk."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .problems import ManifestError
from .yaml_text import MAX_BYTES

_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Source:
    """A manifest file: its path as the user gave or would write it, and its text."""

    file: str
    text: str


def read_sources(paths: Iterable[str]) -> tuple[list[Source], list[ManifestError]]:
    """The texts of all files the paths stand for, each file once, and what could not be read.

    A path is a file of any name, a directory (all *.yaml and *.yml below it, sorted, without hidden ones) or a glob
    with *, ?, [] and **. A path that stands for no file is an error.
    """
    sources: list[Source] = []
    errors: list[ManifestError] = []
    read: set[str] = set()
    for path in paths:
        try:
            files = list(_files(path))
        except OSError as error:
            errors.append(_unreadable(path, error))
            continue
        if not files:
            errors.append(_nothing_found(path))
        for file in files:
            identity = os.path.realpath(file)
            if identity in read:
                continue
            read.add(identity)
            text = _read(file)
            if isinstance(text, ManifestError):
                errors.append(text)
            else:
                sources.append(Source(file, text))
    return sources, errors


def _files(path: str) -> Iterator[str]:
    is_glob = glob.has_magic(path) and not os.path.lexists(path)
    for match in sorted(glob.glob(path, recursive=True)) if is_glob else [path]:
        if os.path.isdir(match):
            yield from _files_below(match)
        elif os.path.lexists(match):
            yield match


def _files_below(directory: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        visible = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    for entry in visible:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path)
        elif entry.name.endswith(_SUFFIXES) and not entry.is_dir():
            yield entry.path


def _read(file: str) -> str | ManifestError:
    try:
        # Not blocking on a FIFO: what is no regular file is refused before anything is read.
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return _file_error(file, "is no regular file; give a YAML file or a directory")
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return _unreadable(file, error)
    if len(content) > MAX_BYTES:
        return _file_error(file, f"is larger than {MAX_BYTES // 1024} KiB; split it into several files")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _file_error(file, "is UTF-16; save it as UTF-8")
    if b"\0" in content:
        return _file_error(file, "is a binary file, not YAML; give a manifest")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        return _file_error(file, f"is not UTF-8 (byte 0x{byte:02x} on line {line}); save it as UTF-8")


def _nothing_found(path: str) -> ManifestError:
    absolute = os.path.abspath(path)
    if os.path.isdir(path):
        return _file_error(path, f"the directory has no .yaml or .yml file (looked in {absolute} and below)")
    if glob.has_magic(path):
        return _file_error(path, f"no file matches (looked for {absolute})")
    return _file_error(path, f"there is no such file or directory (looked for {absolute})")


def _unreadable(file: str, error: OSError) -> ManifestError:
    reason = (error.strerror or str(error)).lower()
    return _file_error(file, f"cannot be read: {reason}")


def _file_error(file: str, message: str) -> ManifestError:
    return ManifestError(file, None, "", message)
