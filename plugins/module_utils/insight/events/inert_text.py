# SPDX-License-Identifier: BSD-2-Clause
"""Text from outside that Ansible must not evaluate as a template. Pure.

ansible-rulebook passes an event to a playbook in a file of extra variables, and Ansible evaluates templates in those: a
line in the log of a job could run commands where the rulebook runs. Two characters make a template for Jinja. Ansible
also knows a header that sets other delimiters (``#jinja2:variable_start_string:'[['``, JINJA2_OVERRIDE in its
templating). It counts only at the beginning of a string, where trimming or splitting can bring it, so it is broken
anywhere.
"""

from __future__ import annotations

import re
from typing import Any

_OPENING = re.compile(r"\{(?=[{%#])|#(?=jinja2:)", re.IGNORECASE)


def inert(data: Any) -> Any:
    """Strings, lists and dictionaries, keys too, with a space in what would make a template: ``{ {``, ``# jinja2:``."""
    if isinstance(data, str):
        return _OPENING.sub(r"\g<0> ", data)
    if isinstance(data, dict):
        return {inert(key): inert(value) for key, value in data.items()}
    return [inert(item) for item in data] if isinstance(data, (list, tuple)) else data
