# SPDX-License-Identifier: BSD-2-Clause
"""Text from outside that Ansible must not evaluate as a template. Pure.

ansible-rulebook passes an event to a playbook in a file of extra variables, and Ansible evaluates templates in those: a
line in the log of a job could run commands where the rulebook runs. Marks such as ``!unsafe`` do not outlive the rule
engine, and separating the braces is not enough. Jinja's native types, in ansible-rulebook always and in ansible-core
with ``jinja2_native``, read a text as a Python literal: ``"\\x7b\\x7b … }}"`` and ``'{' '{ … }}'`` become templates.
So do such texts in lists with ansible-core 2.16 to 2.18.

So an event has none of the characters without which there is no template, whatever a text is evaluated as, split by or
joined with. Their fullwidth forms take their place:

- ``{``: every delimiter of Jinja.
- a backslash: with it, a literal writes any other character.
- ``#`` where it could begin ``#jinja2:``, the header that sets other delimiters (JINJA2_OVERRIDE in its templating).
- ``$`` where it could begin ``$ANSIBLE_VAULT``, which ansible-rulebook tries to decrypt.
"""

from __future__ import annotations

import re
from typing import Any

_ENCODED = str.maketrans("{\\#$", "\uff5b\uff3c\uff03\uff04")
_DECODED = {new: old for old, new in _ENCODED.items()}
# "GPU #3", "$5" and most links stay as they are. A quote can end a literal that another one continues.
_OPENING = re.compile(r"""[{\\]|\#(?=[\s'"j]|\Z)|\$(?=[\s'"a]|\Z)""", re.IGNORECASE)
# Keys with which ansible-core marks types in its JSON (``__ansible_vault``, ``__ansible_type``).
_MARK = re.compile("^_(?=_ansible)", re.IGNORECASE)
_DEEPEST = 50


def inert(data: Any, _depth: int = 0) -> Any:
    """Strings, lists and dictionaries, keys too, in which nothing is a template, also after repeated evaluation."""
    if isinstance(data, str):
        return _OPENING.sub(lambda found: found[0].translate(_ENCODED), data)
    if not isinstance(data, (dict, list, tuple)):
        return data
    if _depth == _DEEPEST:  # A webhook may be sent hundreds of levels, which Python does not follow.
        return "…"
    if isinstance(data, dict):
        return {_inert_key(key): inert(value, _depth + 1) for key, value in data.items()}
    return [inert(item, _depth + 1) for item in data]


def readable(text: str) -> str:
    """The text as it was written, for people. Whatever may evaluate it must not get it."""
    return text.translate(_DECODED)


def _inert_key(key: Any) -> Any:
    return _MARK.sub("\uff3f", inert(key)) if isinstance(key, str) else key
