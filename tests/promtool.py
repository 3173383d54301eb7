# SPDX-License-Identifier: BSD-2-Clause
"""promtool: Prometheus' own answers to rules and expressions, over series that a test writes down."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import debian_programs

Rule = Mapping[str, Any]


def program(name: str = "promtool") -> str:
    found = debian_programs.find(name)
    if found is None:
        pytest.skip(str(debian_programs.why_missing([name])))
    return str(found)


def rules_file(path: Path, rules: Sequence[Rule], interval: str = "1m") -> Path:
    """A file of rules that promtool has checked."""
    groups = [{"name": "test", "interval": interval, "rules": [dict(rule) for rule in rules]}]
    path.write_text(yaml.safe_dump({"groups": groups}, width=1_000_000))
    checked = subprocess.run([program(), "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    return path


def check(path: Path, rules: Sequence[Rule], series: Mapping[str, str], interval: str = "1m", **cases: Any) -> None:
    """Rules and expressions over series of minutes, as promtool tests them. What differs is the failure's message."""
    rules_file(path / "rules.yml", rules, interval)
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        **cases,
    }
    content = {"rule_files": ["rules.yml"], "evaluation_interval": interval, "tests": [test]}
    (path / "test.yml").write_text(yaml.safe_dump(content, width=1_000_000))
    command = [program(), "test", "rules", "test.yml"]
    done = subprocess.run(command, cwd=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
