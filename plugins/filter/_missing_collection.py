# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter plugin by which roles find out that a collection is not installed. PRIVATE: may change or go at any time."""

from __future__ import annotations

DOCUMENTATION = r"""
name: _missing_collection
short_description: Whether a collection is not installed
author: runwhere.gpuctl contributors (@runwhere)
description:
  - This plugin is for the roles of this collection. It may change or be removed at any time.
  - Looks for the collection where Ansible looks for it. A task of a collection that is missing ends the whole run with an error
    of Ansible about a misspelling.
options:
  _input:
    description: Name of the collection.
    type: str
    required: true
"""

EXAMPLES = r"""
---
- name: Check that the collection is installed
  ansible.builtin.assert:
    that: not 'kubernetes.core' | runwhere.gpuctl._missing_collection
"""

RETURN = r"""
_value:
  description: Whether it is missing.
  type: bool
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any


def missing_collection(name: str) -> bool:
    """Whether Ansible finds no collection of this name."""
    try:
        return find_spec(f"ansible_collections.{name}") is None
    except ModuleNotFoundError:  # of its namespace
        return True


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_missing_collection": missing_collection}
