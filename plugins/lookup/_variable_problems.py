# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup plugin of the playbooks that checks their variables. PRIVATE: may change or go at any time."""

from __future__ import annotations

DOCUMENTATION = r"""
name: _variable_problems
short_description: Check the variables of a playbook
author: runwhere.gpuctl contributors (@runwhere)
description:
  - This plugin is for the playbooks of this collection. It may change or be removed at any time.
  - Finds variables that are missing or have a value that the playbook cannot take, extra variables that begin with C(gpuctl) but
    are not known, and others that are spelled almost like a known one.
options:
  _terms:
    description: Name of the playbook.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
---
- name: Check the variables
  ansible.builtin.assert:
    that: "'msg' not in query('runwhere.gpuctl._variable_problems', 'submit')[0]"
"""

RETURN = r"""
_raw:
  description: One result for M(runwhere.gpuctl.gpuctl_show), which fails if it has a C(msg), with a sentence for each problem.
  type: list
  elements: dict
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.awx import is_awx_job
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.cluster_hosts import clusters_of_play
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.playbook_variables import (
    Playbook,
    described_playbooks,
    role_variables,
    shared_variables,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.variable_problems import (
    cut_values,
    several_clusters,
    unknown_variables,
    value_problems,
)


class LookupModule(LookupBase):  # type: ignore[misc]
    def run(self, terms: list[str], variables: Mapping[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        (name,) = terms
        problems = self._problems(name, variables or {})
        return [{"msg": "\n".join(problems)} if problems else {"results": []}]

    def _problems(self, name: str, given: Mapping[str, Any]) -> list[str]:
        extra = load_extra_vars(self._loader)
        if unknown := unknown_variables(extra, {*shared_variables(), *role_variables()}):
            return unknown
        if cut := cut_values(extra):
            return cut
        playbook, in_awx = described_playbooks()[name], is_awx_job(given)
        values: dict[str, Any] = {}
        unusable = list(self._template(playbook, given, values))
        host = str(given.get("inventory_hostname"))
        several = several_clusters(playbook, clusters_of_play(given), values, host, in_awx=in_awx)
        return unusable or several or value_problems(playbook, values, in_awx=in_awx)

    def _template(self, playbook: Playbook, given: Mapping[str, Any], values: dict[str, Any]) -> Iterator[str]:
        """Fill in the values of the playbook's variables; a sentence for each that is a template which fails."""
        for variable in playbook.variables.values():
            for name in (variable.name, *variable.aliases):
                if name in given:
                    try:
                        values[name] = self._templar.template(given[name])
                    except AnsibleError as problem:
                        reason = str(getattr(problem, "message", problem)).strip().rstrip(".")
                        yield f"{name}: template that cannot be evaluated: {reason}. Correct it."
