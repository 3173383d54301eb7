# SPDX-License-Identifier: BSD-2-Clause
"""The pages of the playbooks, from playbooks/vars/playbooks.yml, and that of the event plugins.

tools/generate_reference.py writes them.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".cache" / "collections"))

from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.playbook_variables import (  # noqa: E402
    Playbook,
    Variable,
    described_playbooks,
)

from tools.event_pages import PAGE, event_page  # noqa: E402
from tools.generated_page import page_head  # noqa: E402

_INDEX = """<!--
Copyright (c) 2026, runwhere.gpuctl contributors
SPDX-License-Identifier: BSD-2-Clause
Generated from playbooks/vars/playbooks.yml by tools/generate_reference.py
-->

# Playbooks

Each page has a complete command and all variables. Variables are given with `-e`, by a survey or as extra variables of
AWX, and as `vars` where a playbook imports one of these. An empty value counts as not given. A misspelled name, a
missing variable and a value of the wrong type are errors before anything is done.

The connection comes from the environment variables `K8S_AUTH_*`, else from the usual kubeconfig.

| playbook | what it does |
|---|---|
"""
_TYPES = {
    "bool": "boolean",
    "float": "number",
    "int": "number",
    "list": "list, or text with commas",
    "path": "path",
    "raw": "text or data",
    "str": "text",
}
_ROLES = {path.name for path in (ROOT / "roles").iterdir()}


def pages() -> dict[Path, str]:
    """The text of each page by its path."""
    site = ROOT / "docs" / "docsite" / "rst"
    found = {site / f"playbook_{playbook.name}.rst": page(playbook) for playbook in described_playbooks().values()}
    return {**found, ROOT / "docs" / "playbooks.md": index(), PAGE: event_page()}


def index() -> str:
    rows = (
        f"| [{each.full_name}](docsite/rst/playbook_{each.name}.rst) | {each.short_description} |\n"
        for each in described_playbooks().values()
    )
    return _INDEX + "".join(rows)


def command(playbook: Playbook) -> str:
    """The shortest command that the playbook accepts."""
    required = [name for name, each in playbook.variables.items() if each.required]
    alternatives = [group[0] for group in playbook.required_one_of]
    names = dict.fromkeys((*alternatives, *required, *playbook.in_command))
    return " ".join(
        ["ansible-playbook", playbook.full_name]
        + [_given(name, str(playbook.variables[name].example)) for name in names]
    )


def _given(name: str, example: str) -> str:
    """Ansible cuts what follows the = at its first space."""
    if " " not in example:
        return f"-e {name}={shlex.quote(example)}"
    value = example if example.startswith("{") else json.dumps(example)
    return f"-e '{{\"{name}\": {value}}}'"


def page(playbook: Playbook) -> str:
    """The page of a playbook, in reStructuredText."""
    name, title = f"playbook_{playbook.name}", f"runwhere.gpuctl.{playbook.name}"
    return "\n".join(
        [
            page_head(name, title, "playbooks/vars/playbooks.yml"),
            f"{playbook.short_description}.\n",
            *(f"{_rst(paragraph)}\n" for paragraph in playbook.description),
            f".. code-block:: console\n\n   $ {_broken(command(playbook))}\n",
            *_rules(playbook),
            *_table(playbook.variables.values()),
            _runs(playbook),
        ]
    )


def _broken(words: str) -> str:
    """A long command, broken before its variables."""
    return words if len(words) <= 120 else words.replace(" -e ", " \\\n       -e ")


def _rules(playbook: Playbook) -> Iterator[str]:
    for group in playbook.required_one_of:
        yield f"{_enumerated(group, 'or')} is required.\n"
    for name, value, names in playbook.required_if:
        yield f"{_enumerated(names, 'and')} is required with ``{name}={value}``.\n"
    for group in playbook.mutually_exclusive:
        yield f"{_enumerated(group, 'and')} exclude each other.\n"


def _enumerated(names: Iterable[str], last: str) -> str:
    return f" {last} ".join(f"``{name}``" for name in names)


def _table(variables: Iterable[Variable]) -> Iterator[str]:
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 25 20 15 40", ""]
    for cells in [("Variable", "Value", "Default", "Meaning"), *map(_cells, variables)]:
        lines += [f"   {'*' if number == 0 else ' '} - {cell}".rstrip() for number, cell in enumerate(cells)]
    yield "\n".join([*lines, ""])


def _cells(variable: Variable) -> tuple[str, str, str, str]:
    names = ", ".join(f"``{name}``" for name in variable.names)
    value = " ".join(f"``{choice}``" for choice in variable.choices) or _TYPES[variable.type]
    default = "**required**" if variable.required else _default(variable)
    options = [fed.split(".", 1) for fed in variable.feeds if not fed.startswith("gpuctl_show.")]
    links = ", ".join(f":ansopt:`runwhere.gpuctl.{module}#module:{option}`" for module, option in options)
    meaning = " ".join(map(_rst, variable.description))
    return names, value, default, f"{meaning} See {links}." if links else meaning


def _default(variable: Variable) -> str:
    if variable.default is None:
        return ""
    shown = str(variable.default).lower() if isinstance(variable.default, bool) else variable.default
    return f"``{shown}``"


def _runs(playbook: Playbook) -> str:
    modules = [name for name in playbook.modules if name != "gpuctl_show"]
    links = " and ".join(f":ansplugin:`runwhere.gpuctl.{name}#module`" for name in modules)
    return f"The playbook runs {links}.\n"


def _rst(text: str) -> str:
    """Ansible's markup for documentation as reStructuredText."""

    def link(found: re.Match[str]) -> str:
        kind = "role" if found[1].rpartition(".")[2] in _ROLES else "module"
        return f":ansplugin:`{found[1]}#{kind}`"

    return re.sub(r"\b[EOVC]\(([^)]+)\)", r"``\1``", re.sub(r"\bM\(([^)]+)\)", link, text))
