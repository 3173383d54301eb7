# SPDX-License-Identifier: BSD-2-Clause
"""Which files of tests a change cannot have broken: those of tests/when_changed.yml whose paths are as on main.

conftest.py leaves them out of a run with --relevant, as `make test` has it.
"""

from __future__ import annotations

from collections.abc import Collection

import yaml

from tools.changed import changed_paths, find_base
from tools.tree import ROOT

TABLE = ROOT / "tests" / "when_changed.yml"
#: What all tests stand on.
FOUNDATIONS = (
    "conftest.py",
    "requirements.txt",
    "tests/integration/ansible.py",
    "tests/integration/forked_tools.py",
    "tests/integration/api.py",
    "tests/integration/conftest.py",
    "tests/requirements.txt",
    "tests/when_changed.yml",
    "tools/relevant_tests.py",
)


def irrelevant_files() -> frozenset[str]:
    """Paths of files of tests, as they begin the ids of their tests."""
    table: dict[str, list[str]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return files_left_out(table, changed_paths(find_base()))


def files_left_out(table: dict[str, list[str]], changed: Collection[str]) -> frozenset[str]:
    if any(path in FOUNDATIONS for path in changed):
        return frozenset()
    return frozenset(
        file for file, prefixes in table.items() if not any(path.startswith((file, *prefixes)) for path in changed)
    )
