# SPDX-License-Identifier: BSD-2-Clause
"""The page of the plugins for Event-Driven Ansible, which ansible-doc cannot show, from their documentation.

tools/generate_reference.py writes it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.generated_page import page_head

ROOT = Path(__file__).resolve().parent.parent
PLUGINS = ROOT / "extensions" / "eda" / "plugins"
PAGE = ROOT / "docs" / "docsite" / "rst" / "event_plugins.rst"

_INTRODUCTION = """\
Plugins of `ansible-rulebook <https://ansible.readthedocs.io/projects/rulebook/>`_. The
:ref:`guide <ansible_collections.runwhere.gpuctl.docsite.guide_events>` shows how to use them.
"""


def event_page() -> str:
    """The page, in reStructuredText."""
    parts = [
        part
        for kind, word in (("event_source", "source"), ("event_filter", "filter"))
        for path in sorted((PLUGINS / kind).glob("*.py"))
        for part in _plugin(path, word)
    ]
    head = page_head("event_plugins", "Event source and event filter", "extensions/eda/plugins")
    return "\n".join([head, _INTRODUCTION, *parts])


def documented(path: Path, name: str) -> Any:
    """The value of DOCUMENTATION or EXAMPLES in a plugin."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            continue
        if [target.id for target in node.targets if isinstance(target, ast.Name)] == [name]:
            return node.value.value
    raise KeyError(f"{path}: no {name}")


def _plugin(path: Path, word: str) -> Iterator[str]:
    facts = yaml.safe_load(documented(path, "DOCUMENTATION"))
    title = f"runwhere.gpuctl.{path.stem}, event {word}"
    yield f"{title}\n{'-' * len(title)}\n"
    yield f"{facts['short_description']}. Added in version {facts['version_added']}.\n"
    for paragraph in facts["description"]:
        yield f"* {_rst(paragraph)}"
    yield ""
    yield ".. list-table::\n   :header-rows: 1\n   :widths: auto\n"
    for cells in [("Option", "Value", "Default", "Meaning"), *map(_cells, facts["options"].items())]:
        yield "\n".join(f"   {'*' if number == 0 else ' '} - {cell}".rstrip() for number, cell in enumerate(cells))
    yield ""
    yield ".. code-block:: yaml\n"
    yield "\n".join(f"   {line}".rstrip() for line in documented(path, "EXAMPLES").strip().splitlines())
    yield ""


def _cells(option: tuple[str, Mapping[str, Any]]) -> tuple[str, str, str, str]:
    name, facts = option
    names = ", ".join(f"``{each}``" for each in (name, *facts.get("aliases", ())))
    value = " ".join(f"``{choice}``" for choice in facts.get("choices", ())) or str(facts["type"])
    default = facts.get("default")
    shown = "" if default is None else f"``{str(default).lower() if isinstance(default, bool) else default}``"
    text = facts["description"]
    return names, value, shown, " ".join(map(_rst, [text] if isinstance(text, str) else text))


def _rst(text: str) -> str:
    """Ansible's markup for documentation as reStructuredText."""
    linked = re.sub(r"\bM\(([^)]+)\)", r":ansplugin:`\1#module`", text)
    return re.sub(r"\b[EOVC]\(([^)]+)\)", r"``\1``", linked)
