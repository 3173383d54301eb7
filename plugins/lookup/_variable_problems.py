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
  - Looks at the variables of all hosts of the play, so that one task checks them for all.
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
        host = str(given.get("inventory_hostname"))
        values, unusable = self._values(playbook, given)
        several = several_clusters(playbook, clusters_of_play(given), values, host, in_awx=in_awx)
        if problems := unusable or several or value_problems(playbook, values, in_awx=in_awx):
            return problems
        found = []
        for other, variables in _other_hosts(playbook, given, host):
            values, unusable = self._values(playbook, variables)
            found += [f"{other}: {each}" for each in unusable or value_problems(playbook, values, in_awx=in_awx)]
        return found

    def _values(self, playbook: Playbook, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The values of the playbook's variables, and a sentence for each that is a template which fails."""
        templar = self._templar.copy_with_new_env(available_variables=given)
        values, unusable = {}, []
        for name in (name for name in playbook.names if name in given):
            try:
                values[name] = templar.template(given[name])
            except AnsibleError as problem:
                reason = str(getattr(problem, "message", problem)).strip().rstrip(".")
                unusable.append(f"{name}: template that cannot be evaluated: {reason}. Correct it.")
        return values, unusable


def _other_hosts(playbook: Playbook, given: Mapping[str, Any], host: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The other hosts of the play whose inventory sets the playbook's variables otherwise, with their variables."""
    others = [name for name in given.get("ansible_play_hosts") or () if name != host]
    if not others:
        return
    own = given["hostvars"].raw_get(host)
    of_play = {name: value for name, value in given.items() if name not in own}
    for other in others:
        its = given["hostvars"].raw_get(other)
        if any(own.get(name) != its.get(name) for name in playbook.names):
            yield str(other), {**of_play, **its}
