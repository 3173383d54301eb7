# SPDX-License-Identifier: BSD-2-Clause
"""What a module's process imports from the archive that Ansible sent is compiled once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from ansible_collections.runwhere.gpuctl.plugins.module_utils import _process

# Python warns of it whenever it compiles it.
WARNED_OF = "'a' is 'b'\n"

PROGRAM = """
import sys
sys.path[:] = [archive, *sys.path, home]
import package
from _process import compile_once
compile_once()
import package.module, package.inner, alone
import package.missing
"""


def test_an_archive_is_compiled_once(tmp_path: Path):
    archive = tmp_path / "payload.zip"
    with ZipFile(archive, "w") as made:
        made.writestr("package/__init__.py", "")
        for name in ("package/module.py", "package/inner/__init__.py", "alone.py"):
            made.writestr(name, f"{WARNED_OF}print(__file__, __spec__.origin, __package__)\n")
    home = str(Path(_process.__file__).parent)
    program = f"archive, home = {str(archive)!r}, {home!r}{PROGRAM}"
    done = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True, check=False)

    assert done.stderr.count("SyntaxWarning") == 3, done.stderr
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'package.missing'\n")
    module, inner, alone = (line.split(" ") for line in done.stdout.splitlines())
    assert module == [f"{archive}/package/module.py", f"{archive}/package/module.py", "package"]
    assert inner == [f"{archive}/package/inner/__init__.py", f"{archive}/package/inner/__init__.py", "package.inner"]
    assert alone == [f"{archive}/alone.py", f"{archive}/alone.py", ""]
