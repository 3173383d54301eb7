# SPDX-License-Identifier: BSD-2-Clause
"""Texts of others that Ansible must not take for templates. Pure.

ansible-rulebook passes an event to a playbook in a file of extra variables, and Ansible evaluates templates in those: a
line in the log of a job could run commands where the rulebook runs. Jinja finds a template by two characters.
"""

from __future__ import annotations

import re
from typing import Any

_OPENING = re.compile(r"\{(?=[{%#])")


def inert(data: Any) -> Any:
    """Texts, lists and dictionaries with a space in what would open a template: ``{ {``."""
    if isinstance(data, str):
        return _OPENING.sub("{ ", data)
    if isinstance(data, dict):
        return {inert(key): inert(value) for key, value in data.items()}
    return [inert(item) for item in data] if isinstance(data, (list, tuple)) else data
