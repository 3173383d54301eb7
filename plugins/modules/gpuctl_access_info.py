#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_access_info
short_description: Get what an account may do with jobs, pools and quotas
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Asks the API server what the account may do, and adds what policies allow it in each pool and what is left of its quotas.
  - Rights are those of RBAC and of other authorizers, of which the API server tells the outcome. Policies are those that
    M(runwhere.gpuctl.gpuctl_policy) wrote. Admission webhooks are not asked.
options:
  namespaces:
    description: Namespaces to ask about. The default is that of E(GPUCTL_NAMESPACE), else that of the kubeconfig's context, else V(default).
    type: list
    elements: str
  pools:
    description: Pools to ask about. By default, all declared pools.
    type: list
    elements: str
  user:
    description:
      - User to ask about. By default, the account itself. A service account is V(system:serviceaccount:NAMESPACE:NAME).
      - Requires permission to create subjectaccessreviews.
    type: str
  groups:
    description: Groups of the user. Kubernetes knows them only when the user logs in, so they are not looked up.
    type: list
    elements: str
seealso:
  - module: runwhere.gpuctl.gpuctl_policy
  - module: runwhere.gpuctl.gpuctl_rbac
  - module: runwhere.gpuctl.gpuctl_fit_info
    description: Whether a job would run now.
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Ask what the account may do for team A
  runwhere.gpuctl.gpuctl_access_info:
    namespaces: [team-a]
  register: access

- name: Show the rights
  ansible.builtin.debug:
    msg: "{{ (access.rights | runwhere.gpuctl.table(columns=['namespace', 'right', 'allowed', 'missing'])).splitlines() }}"

- name: Show the pools
  ansible.builtin.debug:
    msg: "{{ (access.pools | runwhere.gpuctl.table(columns=['pool', 'allowed', 'max_gpus_per_job', 'refused_by'])).splitlines() }}"

- name: Ask about a colleague
  runwhere.gpuctl.gpuctl_access_info:
    user: alice@example.com
    groups: [vision]
    namespaces: [team-a]
"""

RETURN = r"""
rights:
  description: One entry for each right in each namespace, and those in the whole cluster.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: Name of the namespace. V(none) for the whole cluster.
      type: str
    right:
      description: What people do, such as V(submit jobs).
      type: str
      sample: submit jobs
    allowed:
      description: Whether the account has all permissions for it.
      type: bool
    missing:
      description: Permissions that it lacks, as C(kubectl auth can-i) takes them.
      type: list
      elements: str
      sample: [create jobs.batch]
pools:
  description: One entry for each pool and namespace. Empty if the account may not read what administrators declare.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: Name of the namespace.
      type: str
    pool:
      description: Name of the pool.
      type: str
    allowed:
      description: Whether the policies let jobs of the namespace use the pool.
      type: bool
    policies:
      description: The policies that apply to the namespace, with whom to ask about them.
      type: list
      elements: str
      sample: ["policy company (gpu-admins@example.com)"]
    refused_by:
      description: Those of them that do not allow the pool.
      type: list
      elements: str
    gpu_types:
      description: GPU types that are allowed. V(none) if they are not limited.
      type: list
      elements: str
    priorities:
      description: Priorities that are allowed. V(none) if they are not limited.
      type: list
      elements: str
    max_gpus_per_job:
      description: Number of accelerators that a job may have. V(none) if it is not limited.
      type: int
    max_gpus:
      description: Number of accelerators that all jobs of the namespace may have. V(none) if it is not limited.
      type: int
    notebooks:
      description: When notebooks count as idle, as C(idle_for) and C(below). V(none) if no policy says so. M(runwhere.gpuctl.gpuctl_idle) acts by it.
      type: dict
quotas:
  description: The limits of accelerators in the namespaces. Empty if there are none, or if the account may not read them.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: Name of the namespace.
      type: str
    quota:
      description: Name of the ResourceQuota.
      type: str
    resource:
      description: V(gpu), or the name of another accelerator.
      type: str
    used:
      description: What pods have requested. V(none) until Kubernetes has calculated it.
      type: raw
    hard:
      description: The limit.
      type: raw
    percent:
      description: Usage as a percentage of the limit.
      type: float
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.access_info import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
