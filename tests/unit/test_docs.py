# SPDX-License-Identifier: BSD-2-Clause
"""What the guides and READMEs say is so: fields, sentences, names of plugins and playbooks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from outside_packages import imported

ROOT = Path(__file__).resolve().parents[2]
DOCSITE = ROOT / "docs" / "docsite"
GUIDES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((DOCSITE / "rst").glob("*.rst"))}


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
    places = {
        "module": "plugins/modules/*.py",
        "filter": "plugins/filter/*.py",
        "inventory plugin": "plugins/inventory/*.py",
        "playbook": "playbooks/*.yml",
        "role": "roles/*",
    }
    return {path.stem: word for word, pattern in places.items() for path in ROOT.glob(pattern)}


TEXTS = {**GUIDES, **{path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("README*.md")}}


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_named_is_there(text: str) -> None:
    names = set(re.findall(r"runwhere\.gpuctl\.([a-z]\w*)", TEXTS[text])) - {"docsite", "gpuctl"}
    assert names - included().keys() == set()


# -- the READMEs -------------------------------------------------------------------------------------------------------

ENGLISH, CHINESE = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))


def listed(readme: str) -> list[tuple[str, str]]:
    """The table of contents: what a thing is, and its name."""
    return re.findall(r"^\| (.+?) `runwhere\.gpuctl\.(\w+)` \| .+ \|$", readme, re.MULTILINE)


def test_the_readme_lists_what_the_collection_has_one_line_each() -> None:
    there = [(word, name) for (name, word) in included().items()]
    assert sorted(listed(ENGLISH)) == sorted([*there, ("action group", "gpuctl")])


# What stays as it is when a text is translated.
UNTRANSLATED = {
    "headings": lambda text: re.findall(r"^(#+) ", text, re.MULTILINE),
    "code": lambda text: re.findall(r"^```.*?^```$", text, re.MULTILINE | re.DOTALL),
    "names": lambda text: [name for _word, name in listed(text)],
    "links": lambda text: sorted(
        target for target in re.findall(r"\]\(([^)]+)\)", text) if not target.startswith(("#", "README"))
    ),
    "literals": lambda text: sorted(set(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text))),
    "versions": lambda text: sorted(set(re.findall(r"\d+\.\d+(?:\.\d+)?", text))),
    "paragraphs in bold": lambda text: len(re.findall(r"^\*\*", text, re.MULTILINE)),
    "items": lambda text: len(re.findall(r"^- ", text, re.MULTILINE)),
}


@pytest.mark.parametrize("what", UNTRANSLATED)
def test_the_chinese_readme_has_what_the_english_one_has(what: str) -> None:
    assert UNTRANSLATED[what](CHINESE) == UNTRANSLATED[what](ENGLISH)


@pytest.mark.parametrize("readme", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_links_within_a_readme_lead_to_a_heading(readme: str) -> None:
    headings = re.findall(r"^#+ (.+)$", readme, re.MULTILINE)
    anchors = {re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", readme)) <= anchors
