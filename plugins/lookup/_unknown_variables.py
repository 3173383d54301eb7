# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup plugin of the playbooks that finds misspelled variables. PRIVATE: may change or go at any time."""

from __future__ import annotations

DOCUMENTATION = r"""
name: _unknown_variables
short_description: Find misspelled extra variables
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - This plugin is for the playbooks of this collection. It may change or be removed at any time.
  - Finds extra variables that begin with C(gpuctl) but are not known, and others that are spelled almost like a known one.
options:
  _terms:
    description: Names of the known variables.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
---
- name: Check the names of the variables
  ansible.builtin.assert:
    that: query('runwhere.gpuctl._unknown_variables', 'gpuctl_name', 'gpuctl_namespace') | length == 0
"""

RETURN = r"""
_list:
  description: A sentence for each unknown variable.
  type: list
  elements: str
"""

from difflib import get_close_matches
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.problems import nearest

_PREFIX = "gpuctl"
_ALMOST_THE_SAME = 0.85


class LookupModule(LookupBase):  # type: ignore[misc]
    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[str]:
        return unknown_variables(load_extra_vars(self._loader), terms)


def unknown_variables(given: Any, known: list[str]) -> list[str]:
    """A sentence for each given name that is meant for the playbooks and is not known."""
    sentences = []
    for name in sorted(str(name) for name in given if name not in known):
        meant = next(iter(get_close_matches(name, known, n=1, cutoff=_ALMOST_THE_SAME)), None)
        if name.lower().startswith(_PREFIX):
            meant = meant or _with_similar_end(name, known)
        elif meant is None:
            continue  # It has nothing to do with the playbooks.
        hint = f"Did you mean {meant}?" if meant else f"Rename it. {_PREFIX}* is for the playbooks."
        sentences.append(f"Unknown variable: {name}. {hint}")
    return sentences


def _with_similar_end(name: str, known: list[str]) -> str | None:
    """The known name that is similar after the prefix, which alone would make any two of them similar."""
    by_end = {each[len(_PREFIX) + 1 :]: each for each in known if each.startswith(_PREFIX)}
    return by_end.get(nearest(name[len(_PREFIX) + 1 :], by_end) or "")
