# SPDX-License-Identifier: BSD-2-Clause
"""Check the tarball that `make collection` builds with Galaxy's importer and ansible-builder.

Galaxy shows the importer's warnings next to the collection, so a warning fails here. ansible-builder has to find the
libraries that an execution environment needs. Both run in a separate environment, because the importer needs older
libraries than the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tools.environments import ROOT, make

# The last two as in tools/requirements.txt. The importer brings ansible-builder.
PACKAGES = ["galaxy-importer==0.4.44", "ansible-core~=2.19.0", "ansible-lint==26.10.1"]
COMPLAINTS = ("WARNING", "ERROR", "CRITICAL")
FOLDER = ROOT / ".cache" / "importer"


def main() -> int:
    about = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    tarball = ROOT / "build" / f"{about['namespace']}-{about['name']}-{about['version']}.tar.gz"
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    binaries = make("galaxy-importer", PACKAGES, requirements=()).parent
    problems = [*_problems_of_the_importer(binaries, tarball), *_problems_of_ansible_builder(binaries, tarball)]
    print("\n".join(problems) or f"{tarball.name}: Galaxy's importer and ansible-builder found no problems")
    return 1 if problems else 0


def _problems_of_the_importer(binaries: Path, tarball: Path) -> list[str]:
    done = _run(binaries, "python", "-m", "galaxy_importer.main", str(tarball))  # writes its result where it runs
    complaints = [line for line in done.stdout.splitlines() if line.startswith(COMPLAINTS)]
    if "completed successfully" in done.stdout:
        return complaints
    return complaints or [done.stdout + done.stderr]


def _problems_of_ansible_builder(binaries: Path, tarball: Path) -> list[str]:
    """Whether the example's definition is valid, and the image gets the libraries in requirements.txt."""
    definition = str(ROOT / "awx" / "execution-environment.yml")
    created = _run(binaries, "ansible-builder", "create", "--file", definition)
    if created.returncode:
        return [created.stdout + created.stderr]
    # By force: molecule leaves the collection where ansible-galaxy would find it, and install nothing.
    _run(binaries, "ansible-galaxy", "collection", "install", "--force", "--offline", "-p", "collections", str(tarball))
    found = yaml.safe_load(_run(binaries, "ansible-builder", "introspect", "collections").stdout)
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    wanted = {line for line in lines if line and not line.startswith(("#", "PyYAML"))}  # ansible-core brings PyYAML
    missing = wanted - {line.partition("  #")[0] for line in found["python"]}
    return [f"ansible-builder does not find {line}" for line in sorted(missing)]


def _run(binaries: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    command = [str(binaries / program), *arguments]
    return subprocess.run(
        command, cwd=FOLDER, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    sys.exit(main())
