# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup plugin of the playbook provision that reads a saved plan. PRIVATE: may change or go at any time."""

from __future__ import annotations

DOCUMENTATION = r"""
name: _saved_plan
short_description: Read the options that a saved plan was made with
author: runwhere.gpuctl contributors (@runwhere)
description:
  - This plugin is for the playbooks of this collection. It may change or be removed at any time.
  - What cannot be read has no options. M(runwhere.gpuctl.gpuctl_plan_info) says what is wrong with it.
options:
  _terms:
    description: Path of a file with the plan, relative to the working directory, or the plan itself. Empty for none.
    type: list
    elements: raw
    required: true
"""

EXAMPLES = r"""
---
- name: Show what a plan was made with
  ansible.builtin.debug:
    msg: "{{ lookup('runwhere.gpuctl._saved_plan', 'plan.json') }}"
"""

RETURN = r"""
_list:
  description: The options of the plan that are set.
  type: list
  elements: dict
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):  # type: ignore[misc]
    def run(
        self, terms: Sequence[Any], variables: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        return [_given_options(term) for term in terms]


def _given_options(term: Any) -> dict[str, Any]:
    given = term if isinstance(term, Mapping) else _read_plan(str(term)) if term else {}
    saved = given.get("plan", given) if isinstance(given, Mapping) else {}
    options = saved.get("options") if isinstance(saved, Mapping) else None
    found = options if isinstance(options, Mapping) else {}
    return {str(name): value for name, value in found.items() if value is not None}


def _read_plan(path: str) -> Any:
    try:
        return json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
