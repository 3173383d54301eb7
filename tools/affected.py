# SPDX-License-Identifier: BSD-2-Clause
"""Print the integration tests of what has changed, for `make check`:  python -m tools.affected

A change to a file of plugins/module_utils affects the modules that import it, directly or not. Each module, role and
playbook has one file of integration tests that shows first whether it still works.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tools.changed import changed_paths, find_base
from tools.tree import ROOT

PLUGINS = ROOT / "plugins"
NAMESPACE = "ansible_collections.runwhere.gpuctl.plugins"

# Beginning of a path -> the tests. A module without a line has tests of its own name, or is an info module.
TESTS = {
    "plugins/modules/gpuctl_job.py": "test_job_present.py",
    "plugins/module_utils/jobs/": "test_job_states.py",
    "plugins/module_utils/wait/": "test_wait.py",
    "plugins/action/": "test_fast_path.py",
    "plugins/plugin_utils/": "test_fast_path.py",
    "plugins/inventory/": "test_inventory.py",
    "plugins/filter/": "test_status.py",
    "plugins/lookup/": "test_playbooks.py",
    "roles/": "test_roles.py",
    "playbooks/": "test_playbooks.py",
    "awx/": "test_awx.py",
    "examples/": "test_documents.py",
    "docs/": "test_documents.py",
    "README.md": "test_documents.py",
    "tests/chaos/": "test_chaos.py",
    "tests/demo/": "test_demo.py",
    "tests/month/": "test_month.py",
    "kubesim/src/": "test_job_present.py",
}
INFO_TESTS = "test_info_examples.py"
# A change to the foundations affects all tests; this many files are run as a sample.
MOST = 4


def main() -> None:
    print(*(f"tests/integration/{name}" for name in affected_tests(changed_paths(find_base()))))


def affected_tests(paths: Iterable[str]) -> list[str]:
    """At most MOST files of integration tests, those that have changed themselves first.

    Without any change: the file that shows whether jobs can be submitted.
    """
    paths = list(paths)
    changed_tests = [Path(path).name for path in paths if path.startswith("tests/integration/test_")]
    modules = {f"plugins/modules/{name}.py" for path in paths for name in modules_that_import(path)}
    found = [test for prefix, test in TESTS.items() if any(path.startswith(prefix) for path in (*modules, *paths))]
    found += [file_of_module(path) for path in sorted(modules - TESTS.keys())]
    return list(dict.fromkeys([*filter(_exists, changed_tests), *found]))[:MOST] or ["test_job_present.py"]


def file_of_module(path: str) -> str:
    """plugins/modules/gpuctl_pool.py -> test_pool.py"""
    name = f"{Path(path).name.replace('gpuctl_', 'test_')}"
    return name if _exists(name) else INFO_TESTS


def _exists(name: str) -> bool:
    return (ROOT / "tests" / "integration" / name).exists()


def modules_that_import(path: str) -> list[str]:
    """The names of the modules that import a file of plugins/, directly or through others."""
    changed = ROOT / path
    return sorted(module.stem for module in (PLUGINS / "modules").glob("gpuctl_*.py") if changed in _imports(module))


@cache
def _imports(start: Path) -> frozenset[Path]:
    """All files of plugins/ that a file imports, itself included."""
    found, pending = {start}, [start]
    while pending:
        new = {path for path in _direct_imports(pending.pop()) if path not in found}
        found |= new
        pending += new
    return frozenset(found)


@cache
def _direct_imports(path: Path) -> frozenset[Path]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return frozenset(found for node in nodes for found in _targets(node, path))


def _targets(node: ast.ImportFrom, path: Path) -> Iterator[Path]:
    if node.level:
        folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
    elif (node.module or "").startswith(NAMESPACE):
        folder = PLUGINS.joinpath(*str(node.module).removeprefix(NAMESPACE).strip(".").split("."))
    else:
        return
    candidates = [folder.with_suffix(".py"), *(folder / f"{alias.name}.py" for alias in node.names)]
    yield from (candidate for candidate in candidates if candidate.exists())


if __name__ == "__main__":
    main()
