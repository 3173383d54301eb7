# SPDX-License-Identifier: BSD-2-Clause
"""What the guides and READMEs say is so: fields, sentences, names of plugins and playbooks."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCSITE = ROOT / "docs" / "docsite"
GUIDES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((DOCSITE / "rst").glob("*.rst"))}


def imported(path: Path) -> Any:
    """A Python file outside of packages, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_all_guides_are_in_the_table_of_contents() -> None:
    sections = yaml.safe_load((DOCSITE / "extra-docs.yml").read_text(encoding="utf-8"))["sections"]
    assert sorted(name for section in sections for name in section["toctree"]) == sorted(GUIDES)


def test_the_fields_of_manifests_are_those_of_the_models() -> None:
    generator = imported(ROOT / "tools" / "generate_reference.py")
    _text, mark, fields = GUIDES["guide_manifests"].partition(generator.MARK)
    assert mark
    assert fields == f"\n{generator.reference()}", "run: make schemas"


# -- the sentences -----------------------------------------------------------------------------------------------------


def sentences() -> Iterator[str]:
    """Every text in the code, with … for what is put into it."""
    for path in (ROOT / "plugins" / "module_utils").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


SAID = "\n".join(sentences())
TOLD = re.findall(r"^   \* - ``(.*)``$", GUIDES["guide_troubleshooting"], re.MULTILINE)


def test_there_are_sentences() -> None:
    assert len(TOLD) > 20


@pytest.mark.parametrize("sentence", TOLD)
def test_the_sentences_are_what_the_modules_say(sentence: str) -> None:
    pattern = "[^\n]*".join(re.escape(part) for part in sentence.split("…"))
    assert re.search(pattern, SAID)


# -- names -------------------------------------------------------------------------------------------------------------


def included() -> dict[str, str]:
    """What the collection has, by its name, with the word for what it is."""
    kinds = {"modules": "module", "filter": "filter", "inventory": "inventory plugin"}
    plugins = {
        path.stem: word
        for directory, word in kinds.items()
        for path in (ROOT / "plugins" / directory).glob("*.py")
        if path.stem != "__init__"
    }
    playbooks = {path.stem: "playbook" for path in (ROOT / "playbooks").glob("*.yml")}
    roles = {path.name: "role" for path in (ROOT / "roles").iterdir() if path.is_dir()}
    return plugins | playbooks | roles


TEXTS = {**GUIDES, **{path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("README*.md")}}


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_named_is_there(text: str) -> None:
    names = set(re.findall(r"runwhere\.gpuctl\.([a-z]\w*)", TEXTS[text])) - {"docsite", "gpuctl"}
    assert names - included().keys() == set()
