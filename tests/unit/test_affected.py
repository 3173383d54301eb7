# SPDX-License-Identifier: BSD-2-Clause
"""`make check` runs the integration tests of what has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.affected import MOST, TESTS, affected_tests, file_of_module, modules_that_import
from tools.tree import ROOT

MODULES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "plugins" / "modules").glob("gpuctl_*.py"))
CASES: dict[str, tuple[list[str], list[str]]] = {
    "nothing": ([], ["test_job_present.py"]),
    "only prose": (["README.md", "docs/architecture.md"], ["test_documents.py"]),
    "a module": (["plugins/modules/gpuctl_quota.py"], ["test_quota.py"]),
    "a part of two modules": (
        ["plugins/module_utils/rbac/rbac.py"],
        ["test_info_examples.py", "test_multikueue.py", "test_rbac.py"],
    ),
    "a part of a package": (["plugins/module_utils/pools/pool_info.py"], ["test_info_examples.py", "test_status.py"]),
    "a role": (["roles/pools/tasks/main.yml"], ["test_roles.py"]),
    "a test, and what it tests": (
        ["tests/integration/test_pool_races.py", "plugins/modules/gpuctl_pool.py"],
        ["test_pool_races.py", "test_pool.py"],
    ),
    "a test that was removed": (["tests/integration/test_removed.py"], ["test_job_present.py"]),
}


@pytest.mark.parametrize(("paths", "tests"), CASES.values(), ids=CASES)
def test_the_tests_of_a_change(paths: list[str], tests: list[str]) -> None:
    assert affected_tests(paths) == tests


def test_a_change_to_the_foundations_runs_a_few() -> None:
    assert len(affected_tests(["plugins/module_utils/kube/client.py"])) == MOST
    names = [Path(path).stem for path in MODULES]
    for name in ("gpuctl_advice", "gpuctl_notify", "gpuctl_show"):  # They have no core.
        names.remove(name)
    assert modules_that_import("plugins/module_utils/kube/client.py") == names


def test_every_path_and_test_file_exists() -> None:
    tests = {*TESTS.values(), *map(file_of_module, MODULES)}
    assert [prefix for prefix in TESTS if not (ROOT / prefix).exists()] == []
    assert [name for name in tests if not (ROOT / "tests" / "integration" / name).exists()] == []
