# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The name of the source of manifests: the repository that they are in and the path within, or else their directory."""

from __future__ import annotations

import configparser
import glob
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

_SCP = re.compile(
    r"(?:[^@/]+@)?(?P<host>[^:/]+):(?P<path>(?!//).*)"
)  # git's short form: git@example.com:team/repository
_LONGEST = 253
_LARGEST = 1 << 20  # characters of a configuration of git
# Where a server has another name, or a repository another path, for one of its protocols.
_SSH_HOST = re.compile(r"(?:ssh|altssh)\.(?=[^.]+\.[^.]+)")
_PROTOCOL_PATHS = (
    re.compile(r"^scm/"),
    re.compile(r"^v3/"),
    re.compile(r"(?<=/)_git/"),
)  # Bitbucket, Azure (ssh, https)


def source_name(paths: Sequence[str]) -> str:
    """The name of what declares the files of some paths: of several, of the directory that has all of them.

    ``example.com/team/repository//cluster`` in a repository with a remote, ``cluster`` elsewhere; empty without paths.
    """
    if not paths:
        return ""
    directory = Path(os.path.commonpath([_directory(path) for path in paths]))
    for parent in (directory, *directory.parents):
        if os.path.lexists(parent / ".git"):
            if repository := repository_name(_remote(parent / ".git")):
                within = directory.relative_to(parent).as_posix()
                return _usable(repository if within == "." else f"{repository}//{within}")
            break
    return _usable(directory.name)


def _directory(path: str) -> str:
    """The directory that a path names, or that its files are in, without links."""
    while glob.has_magic(path) and not os.path.lexists(path):
        path = os.path.dirname(path)
    real = os.path.realpath(path or os.curdir)
    return os.path.dirname(real) if os.path.isfile(real) else real


def repository_name(url: str) -> str:
    """A repository as its URL names it, the same for all protocols, and without users, passwords and ports.

    Of one on a disk, the name of its directory.
    """
    if "://" in url:
        try:
            parts = urlsplit(url)
            host, path = parts.hostname or "", unquote(parts.path)
        except ValueError:
            return ""
    elif found := _SCP.fullmatch(url):
        host, path = found["host"], found["path"]
    else:
        host, path = "", url
    path = path.strip("/").removesuffix(".git").removesuffix("/")
    if not host:
        return path.rpartition("/")[2]
    for form in _PROTOCOL_PATHS:
        path = form.sub("", path, count=1)
    return f"{_SSH_HOST.sub('', host.lower(), count=1)}/{path}" if path else ""


def _remote(git: Path) -> str:
    """The URL of a repository's remote: origin, or else the only one. No program is needed to read it."""
    text = _read_start(_common_directory(git) / "config")
    config = configparser.RawConfigParser(
        strict=False, allow_no_value=True, delimiters=("=",), comment_prefixes=("#", ";")
    )
    try:
        config.read_string("\n".join(line.strip() for line in text.splitlines()))
    except configparser.Error:
        return ""
    remotes = {name: dict(config[name]).get("url") for name in config.sections() if name.startswith('remote "')}
    urls = [url for url in remotes.values() if url]
    return (remotes.get('remote "origin"') or (urls[0] if len(urls) == 1 else "")).strip().strip('"')


def _common_directory(git: Path) -> Path:
    """The directory with the configuration: a worktree and a submodule have a file that names theirs (gitfile)."""
    if git.is_dir():
        return git
    own = git.parent / _read_start(git).partition("gitdir:")[2].strip()
    return own / (_read_start(own / "commondir").strip() or ".")


def _read_start(file: Path) -> str:
    """The text of a file. Of an archive with manifests, it may be a device or a pipe, or have no end."""
    try:
        with open(file if file.is_file() else os.devnull, encoding="utf-8", errors="replace") as text:
            return text.read(_LARGEST)
    except (OSError, ValueError):
        return ""


def _usable(name: str) -> str:
    """The name in the characters that names of sources may have."""
    usable = re.sub(r"[^\w./:@~+-]+", "-", name).lstrip("-./:@~+")
    if len(usable) <= _LONGEST:
        return usable
    # The digest keeps apart the sources whose long names begin alike.
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:12]
    return f"{usable[: _LONGEST - 13]}~{digest}"
