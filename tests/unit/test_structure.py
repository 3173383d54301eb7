# SPDX-License-Identifier: BSD-2-Clause
"""The modules of the collection: packages in layers, and one thing for each name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from ansible.executor.module_common import ModuleDepFinder

from tools.structure import PLUGINS, circles, floors, import_graph, lines, module_file, packed, packed_bytes, reachable

COLLECTION = "ansible_collections.runwhere.gpuctl.plugins"
MODULE_UTILS = PLUGINS / "module_utils"
FILES = sorted(MODULE_UTILS.rglob("*.py"))
# Lines that a module may import, itself included. They go down, and up only with what people can declare, for speed,
# or to keep a secret.
BUDGETS = {
    "gpuctl_job": 13_880,
    "gpuctl_node_label": 7_010,
    "gpuctl_pool": 12_060,
    "gpuctl_quota": 11_240,
    "gpuctl_rbac": 8_210,
    "gpuctl_status": 14_550,
}
# Thousands of bytes that Ansible packs for a module, besides its own, to the next ten: how small zlib makes them
# depends on its version. They, too, go up only for these.
PACKED = {
    "gpuctl_access_info": 191,
    "gpuctl_advice": 10,
    "gpuctl_advice_info": 263,
    "gpuctl_budget": 280,
    "gpuctl_copy": 330,
    "gpuctl_doctor": 270,
    "gpuctl_drift": 569,
    "gpuctl_drift_info": 569,
    "gpuctl_expire": 470,
    "gpuctl_extend": 464,
    "gpuctl_fit_info": 428,
    "gpuctl_idle": 514,
    "gpuctl_job": 540,
    "gpuctl_job_history": 320,
    "gpuctl_job_history_info": 240,
    "gpuctl_job_info": 340,
    "gpuctl_job_log": 340,
    "gpuctl_job_metrics_info": 340,
    "gpuctl_kubeconfig": 242,
    "gpuctl_monitoring_info": 210,
    "gpuctl_multikueue": 290,
    "gpuctl_node_info": 210,
    "gpuctl_node_label": 210,
    "gpuctl_notify": 10,
    "gpuctl_placement": 290,
    "gpuctl_plan_info": 650,
    "gpuctl_policy": 251,
    "gpuctl_pool": 503,
    "gpuctl_pool_info": 210,
    "gpuctl_quota": 271,
    "gpuctl_quota_info": 212,
    "gpuctl_rbac": 230,
    "gpuctl_show": 10,
    "gpuctl_stack": 220,
    "gpuctl_status": 350,
    "gpuctl_usage_info": 280,
    "gpuctl_workspace": 230,
}
EVERYWHERE = {"run"}  # the entry point of each module


def imported_packages(file: Path) -> Iterator[str]:
    """The packages and modules right below module_utils that a file imports from, also within functions."""
    here = file.relative_to(MODULE_UTILS).parts
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level]
            if base:
                yield base[0]
            elif node.module:
                yield node.module.split(".")[0]
            else:
                yield from (alias.name for alias in node.names)


def public_names(file: Path) -> Iterator[str]:
    """The functions and classes that a file defines at its top level."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node.name


def test_packages_do_not_import_each_other_in_a_circle() -> None:
    imports: dict[str, set[str]] = defaultdict(set)
    for file in FILES:
        package = file.relative_to(MODULE_UTILS).parts[0].removesuffix(".py")
        imports[package].update(imported for imported in imported_packages(file) if imported != package)
    try:
        tuple(TopologicalSorter(imports).static_order())
    except CycleError as cycle:
        pytest.fail(" <- ".join(cycle.args[1]))


def test_files_do_not_import_each_other_in_a_circle() -> None:
    """Types count: a file that cannot be understood without another one belongs above or below it."""
    found = circles(import_graph(types=True, functions=True))
    assert [sorted(str(file.relative_to(PLUGINS)) for file in circle) for circle in found] == []


def test_circles_are_found() -> None:
    a, b, c = (Path(name) for name in "abc")
    alone: frozenset[Path] = frozenset()
    assert circles({a: frozenset([b]), b: frozenset([c]), c: alone}) == []
    assert circles({a: frozenset([b]), b: frozenset([a]), c: frozenset([a])}) == [{a, b}]


def test_floors_are_counted() -> None:
    a, b, c = (Path(name) for name in "abc")
    alone: frozenset[Path] = frozenset()
    assert floors({}) == 0
    assert floors({a: frozenset([b, c]), b: frozenset([c]), c: alone}) == 3


@pytest.mark.parametrize(("module", "most"), sorted(BUDGETS.items()))
def test_a_module_imports_no_more_lines_than_its_budget(module: str, most: int) -> None:
    """Each task pays for them where it runs as a process of its own, and each reader."""
    needed = reachable(import_graph(), module_file(module))
    assert len(needed) > 30
    assert lines(needed) <= most


def test_ansible_packs_no_more_for_a_module_than_its_budget() -> None:
    """The controller reads, packs and sends it where a task is a process of its own."""
    modules = sorted(file.stem for file in (PLUGINS / "modules").glob("gpuctl_*.py"))
    assert modules == sorted(PACKED)
    assert {name: size for name in modules if (size := packed_bytes(name)) > PACKED[name] * 1000} == {}


def test_what_ansible_packs_is_known() -> None:
    """Else the budgets above would hold whatever Ansible does."""
    known = {".".join(file.relative_to(PLUGINS).with_suffix("").parts): file for file in import_graph()}
    for file in packed("gpuctl_quota_info"):
        name = ".".join(file.relative_to(PLUGINS).with_suffix("").parts)
        tree = ast.parse(file.read_text(encoding="utf-8"))
        followed = ModuleDepFinder(f"{COLLECTION}.{name}", tree, file.name == "__init__.py").submodules
        paths = [".".join(parts).removeprefix(f"{COLLECTION}.") for parts in followed if parts[0] != "ansible"]
        found = {known.get(path) or known.get(path.rpartition(".")[0]) for path in paths}
        assert found - {None} == import_graph(types=True, functions=True)[file], name


def test_what_is_imported_is_seen() -> None:
    """Else the test above would find no circle whatever happens."""
    assert set(imported_packages(MODULE_UTILS / "wait" / "loop.py")) >= {"cluster", "kube", "labels", "wait"}


def test_a_public_name_is_defined_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file in FILES:
        for name in public_names(file):
            places[name].append(str(file.relative_to(PLUGINS)))
    assert len(places) > 100
    assert {name: files for name, files in places.items() if len(files) > 1 and name not in EVERYWHERE} == {}


def test_file_names_are_unique() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file in (*FILES, *(PLUGINS / "plugin_utils").rglob("*.py")):
        if file.name != "__init__.py":
            places[file.name].append(str(file.relative_to(PLUGINS)))
    assert len(places) > 100
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_each_package_says_which_file_to_open() -> None:
    """A newcomer reads these lines instead of the names of all files. They name files that exist."""
    packages = sorted(MODULE_UTILS.rglob("__init__.py"))
    assert len(packages) > 30
    for package in packages:
        text = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
        named = re.findall(r"(?<![\w*])[a-z][\w/]*\.py\b", text)
        assert named, package
        for name in named:
            assert (package.parent / name).exists() or (MODULE_UTILS / name).exists(), (package, name)


def test_the_core_does_not_import_insight() -> None:
    """What looks further is handed in (jobs/advisers.py), or calls the core."""
    insight = MODULE_UTILS / "insight"
    graph = import_graph(types=True, functions=True)
    core = [file for file in graph if MODULE_UTILS in file.parents and insight not in file.parents]
    assert len(core) > 150
    wrong = {(file, imported) for file in core for imported in graph[file] if insight in imported.parents}
    assert [(str(one.relative_to(PLUGINS)), str(other.relative_to(PLUGINS))) for one, other in sorted(wrong)] == []
