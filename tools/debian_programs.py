# SPDX-License-Identifier: BSD-2-Clause
"""Programs of Debian packages that tests run:  python -m tools.debian_programs

Those on PATH are used as they are. The packages of the others are downloaded and unpacked into .cache/programs, as any
user: nothing is installed, so no service of them is started, and `make clean` removes them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.tree import ROOT

#: package -> the programs in it that tests run
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "prometheus": ("prometheus", "promtool"),
    "prometheus-alertmanager": ("prometheus-alertmanager", "amtool"),
}
UNPACKED = ROOT / ".cache" / "programs"
_LISTS = ROOT / ".cache" / "apt"


def find(program: str) -> Path | None:
    """The path of a program; None where nobody has brought it."""
    found = shutil.which(program)
    if found is not None:
        return Path(found)
    own = UNPACKED / "usr" / "bin" / program
    return own if own.is_file() else None


def why_missing(programs: Iterable[str]) -> str | None:
    """For tests that cannot run: what is missing and how to get it. None when all are there."""
    missing = [program for program in programs if find(program) is None]
    if not missing:
        return None
    return f"programs not found: {', '.join(missing)}. Run `make programs`, or install their Debian packages"


def bring(packages: Iterable[str] = PACKAGES) -> bool:
    """Download and unpack the packages whose programs are missing; False when that is impossible."""
    wanted = [name for name in packages if why_missing(PACKAGES[name]) is not None]
    if not wanted:
        return True
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return _fail(wanted, "there is no apt-get here")
    archives = _LISTS / "archives"
    for directory in (_LISTS / "lists" / "partial", _LISTS / "cache" / "archives" / "partial", archives):
        directory.mkdir(parents=True, exist_ok=True)
    print(f"Downloading {', '.join(wanted)} into {os.path.relpath(UNPACKED, ROOT)}", flush=True)
    # Lists of its own, so that it needs no root and meets no other apt-get. The configured sources are used.
    own = [
        "-qq",
        "-o",
        f"Dir::State::Lists={_LISTS}/lists",
        "-o",
        f"Dir::Cache={_LISTS}/cache",
        "-o",
        "APT::Sandbox::User=",
    ]
    limits = ["-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30", "-o", "Acquire::https::Timeout=30"]
    for arguments in (["update"], ["download", *wanted]):
        done = subprocess.run(
            ["apt-get", *own, *limits, *arguments],
            cwd=archives,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            return _fail(wanted, f"apt-get {arguments[0]}: {done.stdout.strip()}")
    for archive in sorted(archives.glob("*.deb")):
        UNPACKED.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg", "-x", str(archive), str(UNPACKED)], check=True)
    shutil.rmtree(_LISTS)
    still = why_missing(program for name in wanted for program in PACKAGES[name])
    return still is None or _fail(wanted, still)


def _fail(packages: list[str], reason: str) -> bool:
    print(f"{', '.join(packages)} cannot be brought: {reason}. Tests that need them are skipped.", file=sys.stderr)
    return False


if __name__ == "__main__":
    sys.exit(not bring())
