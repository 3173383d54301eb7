# SPDX-License-Identifier: BSD-2-Clause
"""Which tests a change cannot have broken: those of the files in tests/when_changed.yml whose paths are as on main.

conftest.py leaves them out of a run with --relevant, as `make test` has it. A test with the marker `about` also runs if
one of its own paths has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

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
    "tests/integration/preloaded.py",
    "tests/integration/api.py",
    "tests/integration/conftest.py",
    "tests/requirements.txt",
    "tests/when_changed.yml",
    "tools/relevant_tests.py",
)


def relevance() -> Callable[[str, Collection[str]], bool]:
    """A function of a test's file and the paths that the test alone is about: whether the change may have broken it."""
    table: dict[str, list[str]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    changed = changed_paths(find_base())
    left_out = files_left_out(table, changed)
    return lambda file, about: file not in left_out or any(path in changed for path in about)


def files_left_out(table: dict[str, list[str]], changed: Collection[str]) -> frozenset[str]:
    if any(path in FOUNDATIONS for path in changed):
        return frozenset()
    return frozenset(
        file for file, prefixes in table.items() if not any(path.startswith((file, *prefixes)) for path in changed)
    )
