# SPDX-License-Identifier: BSD-2-Clause
"""Templates of Ansible in manifest files, where nothing renders them. Pure."""

from __future__ import annotations

import re

from .problems import DEFINITION
from .tree import Origin

TEMPLATE_HINT = (
    "Manifest files are not templates. Render this one in a playbook with lookup('ansible.builtin.template', FILE), "
    "and pass the result as O(definition)"
)

# A variable, perhaps with a filter, a call or an index. Those of Go begin with a dot or have words with spaces between
# them, and ${{ }} belongs to other tools.
_EXPRESSION = re.compile(r"(?<!\$)\{\{-?\s*(?P<name>(?!(?:end|else)\b)[A-Za-z_][\w.]*)\s*(?:[|(\[][^{}]*)?-?\}\}")


def unrendered(text: str, origin: Origin) -> str | None:
    """The first expression that only Ansible can have been meant to fill in, without what it is made of.

    In a definition, Ansible has. A text with statements, such as the chat template of a model, is for the program.
    """
    if "{{" not in text or "{%" in text or origin.file == DEFINITION:
        return None
    found = _EXPRESSION.search(text)
    return f"{{{{ {found['name']} }}}}" if found else None
