# SPDX-License-Identifier: BSD-2-Clause
"""How large the collection is and what each module needs of it:  python -m tools.structure [MODULE...]

Prints the lines of plugins/, the lengths of functions, the private names that several files define, the floors (the
files in the longest chain of imports), circles of files, and for each module the lines that it imports, and the bytes
that Ansible packs for it where a task is a process of its own.
"""

from __future__ import annotations

import ast
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from statistics import median, quantiles

from tools.tree import ROOT

PLUGINS = ROOT / "plugins"
_PACKAGE = "ansible_collections.runwhere.gpuctl.plugins."
_MODULES = ("gpuctl_job", "gpuctl_node_label", "gpuctl_pool", "gpuctl_quota", "gpuctl_rbac", "gpuctl_status")
Graph = Mapping[Path, frozenset[Path]]


def files() -> list[Path]:
    return sorted(PLUGINS.rglob("*.py"))


@cache
def import_graph(*, types: bool = False, functions: bool = False) -> Graph:
    """The files of plugins/ that each file imports: at its top level, for type checking, within its functions."""
    named = {_dotted(file): file for file in files()}
    return {file: frozenset(_imports(file, named, types, functions)) - {file} for file in named.values()}


def reachable(graph: Graph, start: Path) -> frozenset[Path]:
    """The file and all that it needs, directly or not."""
    found, left = set(), [start]
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            left.extend(graph[file])
    return frozenset(found)


def circles(graph: Graph) -> list[frozenset[Path]]:
    """Files that need each other, the largest circle first."""
    needs = {file: reachable(graph, file) for file in graph}
    found = {frozenset(other for other in needs[file] if file in needs[other]) for file in graph}
    return sorted((circle for circle in found if len(circle) > 1), key=len, reverse=True)


def floors(graph: Graph) -> int:
    """The files in the longest chain of imports. Raises CycleError for a graph with circles."""
    height: dict[Path, int] = {}
    for file in TopologicalSorter(graph).static_order():
        height[file] = 1 + max((height[needed] for needed in graph[file]), default=0)
    return max(height.values(), default=0)


def repeated_private_names() -> list[str]:
    """Private functions, methods and classes whose name several files define, each for something of its own."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found: dict[str, set[Path]] = defaultdict(set)
    for file in files():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, kinds) and node.name.startswith("_") and not node.name.startswith("__"):
                found[node.name].add(file)
    return sorted(name for name, places in found.items() if len(places) > 1)


def lines(counted: Iterable[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in counted)


def packed(name: str) -> frozenset[Path]:
    """What Ansible sends with the module: it follows each import, also those in functions and for type checking
    (ModuleDepFinder in ansible/executor/module_common.py)."""
    return reachable(import_graph(types=True, functions=True), module_file(name))


def packed_bytes(name: str) -> int:
    """These files, compressed; without Ansible's own."""
    return sum(len(zlib.compress(file.read_bytes())) for file in packed(name))


def module_file(name: str) -> Path:
    return PLUGINS / "modules" / f"{name}.py"


def _dotted(file: Path) -> str:
    parts = file.relative_to(PLUGINS).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(file: Path, named: Mapping[str, Path], types: bool, functions: bool) -> Iterator[Path]:
    package = file.relative_to(PLUGINS).parts[:-1]
    for node in _statements(ast.parse(file.read_text(encoding="utf-8")), types, functions):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                base = ".".join((*package[: len(package) - node.level + 1], *filter(None, [module])))
            elif module.startswith(_PACKAGE):
                base = module.removeprefix(_PACKAGE)
            else:
                continue
            for alias in node.names:
                imported = named.get(f"{base}.{alias.name}") or named.get(base)
                if imported:
                    yield imported


def _statements(node: ast.AST, types: bool, functions: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and not functions:
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test) and not types:
            continue
        yield child
        yield from _statements(child, types, functions)


def _function_lengths() -> list[int]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in files())
    return sorted(
        (node.end_lineno or 0) - node.lineno + 1 for tree in trees for node in ast.walk(tree) if isinstance(node, kinds)
    )


def main(modules: list[str]) -> None:
    lengths = _function_lengths()
    p95 = quantiles(lengths, n=20)[-1]
    found = circles(import_graph(types=True))
    print(f"plugins/: {lines(files()):,} lines in {len(files())} files")
    print(f"functions: {median(lengths):.0f} lines (median), {p95:.0f} (p95), {lengths[-1]} (max)")
    print(f"private names of several files: {len(repeated_private_names())}")
    print(f"floors: {floors(import_graph())}")
    print(f"circles of files: {len(found)}, the largest of {max(map(len, found), default=0)}")
    print(f"\n{'imported by':<24} {'lines':>7} {'files':>6}   with imports in functions, packed")
    for module in modules or _MODULES:
        top, all_of_them = (reachable(import_graph(functions=deep), module_file(module)) for deep in (False, True))
        whole = f"{lines(all_of_them):,} in {len(all_of_them)}, {packed_bytes(module):,} bytes"
        print(f"{module:<24} {lines(top):>7,} {len(top):>6}   {whole}")


if __name__ == "__main__":
    main(sys.argv[1:])
