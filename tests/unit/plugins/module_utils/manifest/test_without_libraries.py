# SPDX-License-Identifier: BSD-2-Clause
"""Without pydantic or PyYAML every module imports, and what is missing can be told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest import load

PACKAGE = "ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest"
MODULES = sorted(path.stem for path in Path(load.__file__).parent.glob("*.py") if path.stem != "__init__")
SCRIPT = f"""
import importlib, json, sys
sys.path.insert(0, {str(Path(load.__file__).parents[6])!r})
sys.modules.update(dict.fromkeys(["pydantic", "pydantic_core", "yaml"]))
for name in {MODULES!r}:
    importlib.import_module("{PACKAGE}." + name)
missing = importlib.import_module("{PACKAGE}.load").missing_libraries()
print(json.dumps([[each.name, each.traceback.strip().splitlines()[-1]] for each in missing]))
"""


def test_every_module_imports_without_the_libraries_and_says_which_are_missing() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    missing = json.loads(done.stdout)
    assert [name for name, _error in missing] == ["pydantic", "PyYAML"]
    assert all("ModuleNotFoundError" in error for _name, error in missing)


def test_with_the_libraries_nothing_is_missing() -> None:
    assert load.missing_libraries() == []


def test_loading_the_loader_imports_no_pydantic() -> None:
    path = str(Path(load.__file__).parents[6])
    script = f"import sys; sys.path.insert(0, {path!r}); import {PACKAGE}.load; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
