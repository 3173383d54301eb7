# SPDX-License-Identifier: BSD-2-Clause
"""The code blocks of the documentation, found by the parsers of its two markups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import roles
from markdown_it import MarkdownIt

from tools.tree import ROOT, files

# A paragraph such as "The job, in `sft.yaml`:", or a first line such as "# cluster/pools.yaml".
_NAME = r"[\w./-]+\.(?:ya?ml|json|cfg|py)"
_NAMED_BEFORE = re.compile(rf"`({_NAME})`[^`.]*:\s*$")
_NAMED_WITHIN = re.compile(rf"# ({_NAME})\n")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    file: str = ""  # the name that the document gives it

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """The commands of a console block, each with the lines that it prints here."""
        found: list[tuple[str, list[str]]] = []
        goes_on = False
        for line in self.text.splitlines():
            if goes_on:
                found[-1] = (f"{found[-1][0]}\n{line}", [])
            elif line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
                continue
            goes_on = line.endswith("\\")
        return found


def documents() -> list[str]:
    """The paths of all texts with code blocks."""
    texts = [name for name in files(ROOT) if name.endswith((".md", ".rst")) and not name.startswith("changelogs/")]
    return [name for name in texts if blocks_of(name)]


def blocks_of(document: str) -> list[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return list(_rst(text) if document.endswith(".rst") else _markdown(text))


def _markdown(text: str) -> Iterator[Block]:
    before = ""
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "inline":
            before = token.content
        elif token.type == "fence":
            yield _block(token.info.strip(), token.content, before)


def _rst(text: str) -> Iterator[Block]:
    # Those that only Sphinx and Ansible know are not looked at.
    for role in ("ref", "doc", "ansplugin", "ansopt", "ansval", "ansenvvar", "ansretval"):
        roles.register_generic_role(role, nodes.inline)
    settings = {"report_level": 5, "syntax_highlight": "none", "file_insertion_enabled": False}
    before = ""
    for node in publish_doctree(text, settings_overrides=settings).findall():
        if isinstance(node, nodes.paragraph):
            before = "".join(
                f"`{part.astext()}`" if isinstance(part, nodes.literal) else part.astext() for part in node
            )
        elif isinstance(node, nodes.literal_block):
            language = next((name for name in node["classes"] if name != "code"), "")
            yield _block(language, node.astext() + "\n", before)


def _block(language: str, text: str, before: str) -> Block:
    named = _NAMED_WITHIN.match(text) or _NAMED_BEFORE.search(before)
    return Block(language, text, named[1] if named else "")
