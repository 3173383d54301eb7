# SPDX-License-Identifier: BSD-2-Clause
"""How the package is put together, and that the README names all of what is public."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import version
from pathlib import Path

import kubesim
from kubesim import Cluster

SOURCE = Path(kubesim.__file__).parent
PRODUCT = Path(__file__).parent.parent
README = PRODUCT / "README.md"
MODULES = {
    ".".join(("kubesim", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports in functions and those for types alone are counted: a reader meets them, too."""
    try:
        list(TopologicalSorter({name: set(imported(name)) for name in MODULES}).static_order())
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def imported(module: str) -> Iterator[str]:
    """The modules of the package that one imports. A name of a package's `__init__` is that package."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            source = absolute(module, node)
            names = {f"{source}.{alias.name}" for alias in node.names}
            yield from names & set(MODULES) or {source} & set(MODULES)


def absolute(module: str, node: ast.ImportFrom) -> str:
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    return importlib.util.resolve_name("." * node.level + (node.module or ""), package)


def test_the_readme_names_what_is_public() -> None:
    text = README.read_text()
    listed = text.partition("The public API is what `kubesim` itself exports")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == set(kubesim.__all__)


def test_the_readme_has_the_arguments_of_a_cluster() -> None:
    arguments = set(inspect.signature(Cluster).parameters)
    assert {name for row in first_cells("argument of `Cluster`") for name in re.findall(r"`(\w+)=", row)} == arguments


def test_the_readme_has_the_members_of_a_cluster() -> None:
    running = Cluster(nodes=0, controllers=False)
    members = {name for name in {*vars(running), *dir(Cluster)} if not name.startswith("_")}
    assert {name for row in first_cells("member of `Cluster`") for name in re.findall(r"`(\w+)", row)} == members


def first_cells(head: str) -> list[str]:
    """Of each row of the table with that head."""
    table = README.read_text().partition(f"| {head} |")[2].partition("\n\n")[0]
    return [line.split(" | ")[0] for line in table.splitlines()[2:]]


def test_the_changelog_begins_with_the_version() -> None:
    declared = re.search(r'^version = "(.+)"$', (PRODUCT / "pyproject.toml").read_text(), re.MULTILINE)
    newest = re.search(r"^## (.+)$", (PRODUCT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert declared
    assert newest
    assert newest[1].removesuffix(" (not released)") == declared[1] == version("kubesim")
