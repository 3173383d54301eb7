# SPDX-License-Identifier: BSD-2-Clause
"""`make test` leaves out what a change cannot have broken, and nothing else."""

from __future__ import annotations

import pytest
import yaml

from tools import relevant_tests
from tools.affected import affected_tests
from tools.relevant_tests import FOUNDATIONS, TABLE, files_left_out
from tools.tree import ROOT, files

TABLE_OF_THIS = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
MODULES = [path for path in files(ROOT) if path.startswith("plugins/modules/gpuctl_")]
SAMPLE = {"tests/a.py": ["plugins/a/"], "tests/b.py": ["plugins/b/", "roles/b"]}


@pytest.mark.parametrize(
    ("changed", "left_out"),
    [
        ([], {"tests/a.py", "tests/b.py"}),
        (["docs/x.md"], {"tests/a.py", "tests/b.py"}),
        (["plugins/a/c.py"], {"tests/b.py"}),
        (["roles/b/tasks/main.yml", "tests/a.py"], set()),
        (["conftest.py"], set()),
    ],
)
def test_a_file_runs_if_its_subject_has_changed(changed: list[str], left_out: set[str]) -> None:
    assert files_left_out(SAMPLE, changed) == left_out


def test_a_test_of_such_a_file_runs_if_what_it_alone_is_about_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    file = next(iter(TABLE_OF_THIS))
    monkeypatch.setattr(relevant_tests, "changed_paths", lambda base: ["docs/a.rst"])
    is_relevant = relevant_tests.relevance()
    assert not is_relevant(file, [])
    assert not is_relevant(file, ["docs/b.rst"])
    assert is_relevant(file, ["docs/a.rst", "docs/b.rst"])
    assert is_relevant("tests/unit/test_relevant_tests.py", [])


@pytest.mark.parametrize("module", MODULES)
def test_what_make_check_runs_for_a_module_is_not_left_out_of_make_test(module: str) -> None:
    left_out = files_left_out(TABLE_OF_THIS, [module])
    assert [test for test in affected_tests([module]) if f"tests/integration/{test}" in left_out] == []


def test_the_paths_of_the_table_exist() -> None:
    """A path that was renamed would never change again."""
    known = files(ROOT)
    stale = [
        (file, path)
        for file, paths in TABLE_OF_THIS.items()
        for path in (file, *paths)
        if not any(name.startswith(path) for name in known)
    ]
    assert stale == []
    assert [name for name in FOUNDATIONS if name not in known] == []
