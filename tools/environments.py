# SPDX-License-Identifier: BSD-2-Clause
"""Run pytest in the environments of tests/environments.yml:  python -m tools.environments NAME|all [pytest arguments]

Each is a virtual environment .venvs/NAME. It is created if it is missing or if the files that describe it have changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = [ROOT / "requirements.txt", ROOT / "tests" / "requirements.txt"]
# The requirements of kubesim, which tests/requirements.txt installs from the clone.
KUBESIM = ROOT / "kubesim" / "pyproject.toml"


def main(name: str, arguments: list[str]) -> int:
    environments = declared()
    if name != "all" and name not in environments:
        sys.exit(f"environment not found: {name}. tests/environments.yml has all, {', '.join(environments)}.")
    for each in environments if name == "all" else [name]:
        environment = environments[each]
        print(f"--- {each}: {environment['why']}", flush=True)
        python = make(
            each,
            environment["packages"],
            python=interpreter(environment.get("python")),
            alone=environment.get("alone", ()),
        )
        code = run_pytest(python, [*environment.get("tests", []), *arguments])
        if code != 0:
            return code
    return 0


def declared() -> dict[str, dict[str, Any]]:
    """name -> {why: str, packages: [pip requirement], alone: the same, installed afterwards whatever others ask for,
    python: version or None, tests: [path], all if not given}"""
    text = (ROOT / "tests" / "environments.yml").read_text(encoding="utf-8")
    environments: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return environments


def interpreter(version: str | None) -> str:
    """The Python of that version (``3.12``), from PATH or from pyenv; this one if None.

    Exits if there is none.
    """
    if version is None:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(pyenv.glob(f"{version}.*/bin/python3"))
    for candidate in (shutil.which(f"python{version}"), *map(str, found)):
        # pyenv puts a shim on PATH even for versions that are not in use; running it fails.
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
            return candidate
    sys.exit(
        f"Python {version} not found. Install it, or run one environment: make test-environments ENVIRONMENTS=oldest"
    )


def make(
    name: str,
    packages: list[str],
    requirements: Sequence[Path] = REQUIREMENTS,
    python: str = sys.executable,
    alone: Sequence[str] = (),
) -> Path:
    """Return the path of the environment's Python, with the packages and what the requirements files name installed."""
    folder = ROOT / ".venvs" / name
    stamp = folder / ".made-of"
    wanted = _digest(python, [*packages, *alone], requirements)
    installed = folder / "bin" / "python"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return installed
    print(f"Creating .venvs/{name}: {', '.join([*packages, *alone])}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    install = [str(installed), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--prefer-binary"]
    subprocess.run([*install, *(f"-r{path}" for path in requirements), *packages], check=True, cwd=ROOT)
    if alone:
        subprocess.run([*install, "--no-deps", *alone], check=True, cwd=ROOT)
    stamp.write_text(wanted, encoding="utf-8")
    return installed


def _digest(python: str, packages: list[str], requirements: Sequence[Path]) -> str:
    """What the environment is made of, and its path, because pip writes it into the scripts."""
    files = [*requirements, KUBESIM] if requirements else []
    parts = [str(ROOT), python, sys.version, *packages, *(path.read_text(encoding="utf-8") for path in files)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def run_pytest(python: Path, arguments: list[str]) -> int:
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run([str(python), "-m", "pytest", *arguments], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
