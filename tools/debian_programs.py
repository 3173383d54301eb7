# SPDX-License-Identifier: BSD-2-Clause
"""Programs of Debian packages that tests run:  python -m tools.debian_programs

Those on PATH are used as they are. The packages of the others are downloaded and unpacked into .cache/programs, as any
user: nothing is installed, so no service of them is started, and `make clean` removes them. A program counts as found
when it has been started once.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tools.local_server import DidNotStartError, free_port, running
from tools.tree import ROOT

#: package -> the programs in it that tests run
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "prometheus": ("prometheus", "promtool"),
    "prometheus-alertmanager": ("prometheus-alertmanager", "amtool"),
}
UNPACKED = ROOT / ".cache" / "programs"
_LISTS = ROOT / ".cache" / "apt"
#: package -> those that it needs here, as far as the release has them: promtool became a package in Debian 13.
_COMPANIONS: Mapping[str, tuple[str, ...]] = {
    "prometheus": ("promtool",),
    "prometheus-alertmanager": ("proot", "libtalloc2"),
}
#: A program -> how it is started where its package is only unpacked.
_LAUNCHERS: Mapping[str, str] = {
    # Debian's patch 02-Do_not_embed_blobs makes it read its default templates below /usr/share, and no option names
    # another directory. proot shows it the unpacked ones there. It traces system calls, so it needs no privileges.
    "prometheus-alertmanager": """\
#!/bin/sh
root=$(cd "$(dirname "$0")/.." && pwd) || exit
templates=usr/share/prometheus/alertmanager
LD_LIBRARY_PATH=$(dirname "$root"/usr/lib/*/libtalloc.so.2) \\
	exec "$root/usr/bin/proot" -b "$root/$templates:/$templates" "$root/usr/bin/prometheus-alertmanager" "$@"
"""
}
#: A server -> the configuration and the options with which it starts in an empty directory.
_SERVERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "prometheus": ("{}", ("--storage.tsdb.path={directory}/data",)),
    "prometheus-alertmanager": (
        '{"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}',
        ("--storage.path={directory}/data", "--cluster.listen-address="),
    ),
}
_PATIENCE = 30.0


def find(program: str) -> Path | None:
    """The path of a program that starts; None where there is none."""
    return next((path for path in _candidates(program) if _failure(path) is None), None)


def why_missing(programs: Iterable[str]) -> str | None:
    """For tests that cannot run: what is missing and how to get it. None when all programs start."""
    failures = {program: _failures(program) for program in programs if find(program) is None}
    if not failures:
        return None
    absent = [program for program, reasons in failures.items() if not reasons]
    problems = [f"programs not found: {', '.join(absent)}"] if absent else []
    problems += [f"{program} does not start: {reasons[0]}" for program, reasons in failures.items() if reasons]
    return f"{'; '.join(problems)}. Run `make programs`, or install their Debian packages"


def bring(packages: Iterable[str] = PACKAGES) -> bool:
    """Download and unpack the packages whose programs are missing; False when that is impossible."""
    wanted = [name for name in packages if why_missing(PACKAGES[name]) is not None]
    if not wanted:
        return True
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return _fail(wanted, "there is no apt-get here")
    try:
        _apt_get("update")
        brought = [_bring(name) for name in wanted]
        return all(brought)
    except subprocess.CalledProcessError as error:
        return _fail(wanted, _said(error))
    finally:
        shutil.rmtree(_LISTS, ignore_errors=True)


def _bring(package: str) -> bool:
    print(f"Downloading {package} into {os.path.relpath(UNPACKED, ROOT)}", flush=True)
    try:
        archives = _apt_get("download", package)
        for companion in _COMPANIONS.get(package, ()):
            with suppress(subprocess.CalledProcessError):  # whether it was needed shows when the programs are started
                _apt_get("download", companion)
        UNPACKED.mkdir(parents=True, exist_ok=True)
        for archive in sorted(archives.glob("*.deb")):
            _run(["dpkg", "-x", str(archive), str(UNPACKED)])
            archive.unlink()
    except subprocess.CalledProcessError as error:
        return _fail([package], _said(error))
    for program in PACKAGES[package]:
        if program in _LAUNCHERS:
            launcher = UNPACKED / "bin" / program
            launcher.parent.mkdir(exist_ok=True)
            launcher.write_text(_LAUNCHERS[program], encoding="utf-8")
            launcher.chmod(0o755)
    _failure.cache_clear()
    missing = why_missing(PACKAGES[package])
    return missing is None or _fail([package], missing)


def _apt_get(*arguments: str) -> Path:
    """Run it on lists of its own, so that it needs no root and meets no other apt-get; the directory of downloads.

    The configured sources are used."""
    archives = _LISTS / "archives"
    for directory in (_LISTS / "lists" / "partial", _LISTS / "cache" / "archives" / "partial", archives):
        directory.mkdir(parents=True, exist_ok=True)
    own = ["-o", f"Dir::State::Lists={_LISTS}/lists", "-o", f"Dir::Cache={_LISTS}/cache", "-o", "APT::Sandbox::User="]
    limits = ["-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30", "-o", "Acquire::https::Timeout=30"]
    _run(["apt-get", *arguments, "-qq", *own, *limits], archives)
    return archives


def _run(command: list[str], directory: Path = ROOT, patience: float | None = None) -> None:
    """CalledProcessError has what it printed."""
    subprocess.run(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=patience,
        check=True,
    )


def _said(error: subprocess.CalledProcessError) -> str:
    return f"{' '.join(error.cmd[:2])}: {error.stdout.strip()}"


def _fail(packages: list[str], reason: str) -> bool:
    print(f"{', '.join(packages)} cannot be used: {reason}. What needs them is left out.", file=sys.stderr)
    return False


def _candidates(program: str) -> Iterator[Path]:
    """In the order in which they are tried: the one of this machine first."""
    found = shutil.which(program)
    if found is not None:
        yield Path(found)
    unpacked = UNPACKED / "bin" / program if program in _LAUNCHERS else UNPACKED / "usr" / "bin" / program
    if unpacked.is_file():
        yield unpacked


def _failures(program: str) -> list[str]:
    return [reason for path in _candidates(program) if (reason := _failure(path)) is not None]


@functools.cache
def _failure(path: Path) -> str | None:
    """Start a program and stop it again: why that failed, in one line, or None."""
    try:
        if path.name in _SERVERS:
            _serve(path)
        else:
            _run([str(path), "--version"], patience=_PATIENCE)
    except subprocess.CalledProcessError as error:
        return _last_words(error.stdout) or f"exit status {error.returncode}"
    except (DidNotStartError, OSError, subprocess.TimeoutExpired) as error:
        return _last_words(str(error))
    return None


def _serve(path: Path) -> None:
    config, options = _SERVERS[path.name]
    with tempfile.TemporaryDirectory(prefix="gpuctl-start-") as directory:
        file, address = Path(directory, "config.yml"), f"127.0.0.1:{free_port()}"
        file.write_text(config, encoding="utf-8")
        given = [option.format(directory=directory) for option in options]
        command = [str(path), f"--config.file={file}", f"--web.listen-address={address}", *given]
        with running(command, Path(directory, "log"), f"http://{address}/-/ready", _PATIENCE):
            pass


def _last_words(output: str) -> str:
    """The error that a log ends with, without the time and the place in the source."""
    line = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    named = re.search(r'\berr="([^"]+)"', line)
    return named.group(1) if named else line


if __name__ == "__main__":
    sys.exit(not bring())
