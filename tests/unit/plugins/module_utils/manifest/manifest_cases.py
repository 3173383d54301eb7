# SPDX-License-Identifier: BSD-2-Clause
"""Manifests of the tables under cases/: a valid one of each kind, with the blocks of a case in place of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

CASES = Path(__file__).parent / "cases"
FIXTURES = Path(__file__).parents[3] / "fixtures" / "manifests"

_BLOCKS = {"job": "{name: a}", "environment": "{image: nginx}", "resources": "{cpu: 1, memory: 1Gi}"}


def table(name: str) -> list[dict[str, Any]]:
    """The cases of a table."""
    with (CASES / f"{name}.yaml").open(encoding="utf-8") as stream:
        cases: list[dict[str, Any]] = yaml.safe_load(stream)
    return cases


def manifest_text(case: dict[str, Any]) -> str:
    """The YAML text of a case."""
    if "text" in case:
        return str(case["text"])
    blocks = {"kind": case.get("kind", "training"), **_BLOCKS, **case.get("set", {})}
    return "".join(f"{name}: {text}\n" for name, text in blocks.items() if name not in case.get("drop", []))
