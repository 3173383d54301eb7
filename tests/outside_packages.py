# SPDX-License-Identifier: BSD-2-Clause
"""Use Python files that are in no package, such as the scripts in tools/."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def imported(path: Path) -> Any:
    """The file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
