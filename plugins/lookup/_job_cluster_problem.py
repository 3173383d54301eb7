# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup plugin of the playbooks that tells which cluster has a job. PRIVATE: may change or go at any time."""

from __future__ import annotations

DOCUMENTATION = r"""
name: _job_cluster_problem
short_description: Tell why it is not known which of several clusters has a job
author: runwhere.gpuctl contributors (@runwhere)
description:
  - This plugin is for the playbooks of this collection. It may change or be removed at any time.
  - Compares what tasks of M(runwhere.gpuctl.gpuctl_job_info) have registered as C(gpuctl_looked) for the clusters of a play.
options:
  _terms:
    description: Names of jobs.
    type: list
    elements: str
    required: true
  changes:
    description: Whether the job is to be changed, so that another one of its name in a cluster that could not be asked matters.
    type: bool
    default: false
"""

EXAMPLES = r"""
---
- name: Fail unless one cluster has the job
  ansible.builtin.assert:
    that: query('runwhere.gpuctl._job_cluster_problem', 'sft') | length == 0
"""

RETURN = r"""
_list:
  description: A sentence for each job of which it is not known.
  type: list
  elements: str
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.awx import is_awx_job
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.cluster_hosts import clusters_of_play
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.job_cluster import job_cluster_problem


class LookupModule(LookupBase):  # type: ignore[misc]
    def run(self, terms: Sequence[str], variables: Mapping[str, Any] | None = None, **kwargs: Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        given = variables or {}
        looked = {host: given["hostvars"][host].get("gpuctl_looked") or {} for host in clusters_of_play(given)}
        found = (
            job_cluster_problem(str(name), looked, changes=self.get_option("changes"), in_awx=is_awx_job(given))
            for name in terms
        )
        return [problem for problem in found if problem]
