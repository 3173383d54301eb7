# SPDX-License-Identifier: BSD-2-Clause
"""The collection and the simulated cluster, kubesim: two products, which meet at the public API of the second."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import kubesim
import pytest
from packaging.requirements import Requirement

from tools.tree import ROOT, files


def test_the_collection_uses_public_names_only() -> None:
    this = str(Path(__file__).relative_to(ROOT))
    sources = [name for name in files(ROOT) if name.endswith(".py") and not name.startswith("kubesim/")]
    private = {name: found for name in sources if name != this and (found := list(private_names(text(name))))}
    assert private == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from kubesim import Cluster", []),
        ("cluster.registry.get('Pod', 'a', 'b')", []),
        ("from kubesim import rest", ["kubesim.rest"]),
        ("def f():\n    from kubesim.rest import Rest", ["kubesim.rest"]),
        ("import kubesim.rest", ["kubesim.rest"]),
        ("import kubesim\nkubesim.rest", ["kubesim.rest"]),
        ("monkeypatch.setattr('kubesim.rest.Rest', 1)", ["kubesim.rest.Rest"]),
        ("self.cluster._backend.store", ["cluster._backend"]),
    ],
)
def test_private_names_are_found(source: str, found: list[str]) -> None:
    assert list(private_names(source)) == found


def private_names(source: str) -> Iterator[str]:
    """What a program takes of kubesim that is not public: by imports, as a text, or from an object called `cluster`."""
    public = set(kubesim.__all__)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "kubesim":
            yield from (f"kubesim.{alias.name}" for alias in node.names if alias.name not in public)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kubesim."):
            yield str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("kubesim."))
        elif isinstance(node, ast.Constant) and re.fullmatch(r"kubesim(\.\w+)+", str(node.value)):
            if node.value != "kubesim.kubeconfig":
                yield node.value
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value).rpartition(".")[2]
            private = node.attr.startswith("_") and owner.endswith("cluster")
            if private or (owner == "kubesim" and node.attr not in {*public, "__all__"}):
                yield f"{owner}.{node.attr}"


def test_the_simulator_knows_nothing_of_the_collection() -> None:
    imported = re.compile(r"^\s*(?:from|import) (?:ansible|ansible_collections|tests|tools)\b", re.MULTILINE)
    sources = [name for name in files(ROOT) if name.startswith("kubesim/") and name.endswith(".py")]
    assert [name for name in sources if imported.search(text(name))] == []


def test_the_collection_names_the_versions_that_it_works_with() -> None:
    lines = text("tests/requirements.txt").splitlines()
    (needed,) = (Requirement(line) for line in lines if line.startswith("kubesim"))
    assert {specifier.operator for specifier in needed.specifier} == {">=", "<"}
    assert needed.specifier.contains(version("kubesim"))


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
