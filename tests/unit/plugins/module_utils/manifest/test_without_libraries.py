# SPDX-License-Identifier: BSD-2-Clause
"""Without pydantic or PyYAML every module imports, and the error names the missing library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest import load

PACKAGE = "ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest"
MODULES = sorted(path.stem for path in Path(load.__file__).parent.glob("*.py") if path.stem != "__init__")
SCRIPT = f"""
import importlib, json, sys
sys.path.insert(0, {str(Path(load.__file__).parents[6])!r})
sys.modules.update(dict.fromkeys(sys.argv[1:]))
for name in {MODULES!r}:
    importlib.import_module("{PACKAGE}." + name)
load = importlib.import_module("{PACKAGE}.load")
try:
    load.load(definition="kind: compute")
except load.MissingLibrary as missing:
    print(json.dumps([missing.name, missing.traceback.strip().splitlines()[-1]]))
"""


@pytest.mark.parametrize(
    ("absent", "reported"),
    [(["pydantic", "pydantic_core"], "pydantic"), (["yaml"], "PyYAML")],
    ids=["pydantic", "PyYAML"],
)
def test_every_module_imports_without_a_library_and_load_says_that_it_is_missing(
    absent: list[str], reported: str
) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *absent], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    name, error = json.loads(done.stdout)
    assert name == reported
    assert "ModuleNotFoundError" in error


def test_loading_the_loader_imports_no_pydantic() -> None:
    path = str(Path(load.__file__).parents[6])
    script = f"import sys; sys.path.insert(0, {path!r}); import {PACKAGE}.load; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
