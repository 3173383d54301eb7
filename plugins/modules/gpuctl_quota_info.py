#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_quota_info
short_description: Show quotas and what is used of them
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Lists the quotas that M(runwhere.gpuctl.gpuctl_quota) made, by namespace, with what is in use and allowed of each resource.
  - Sends one list request, in pages, whatever the size of the cluster; or one for each of O(namespaces).
options:
  name:
    description: Name of a quota. Without it, all of them.
    type: str
  namespaces:
    description:
      - Users or namespaces to show. Without it, all of them, which needs the right to list resourcequotas in the whole
        cluster. With it, the right to list them in these namespaces is enough.
    type: list
    elements: str
  full:
    description: Return the ResourceQuotas themselves as well.
    type: bool
    default: false
requirements:
  - kubernetes >= 31.0.0
  - pydantic >= 2.7
  - PyYAML >= 6.0
seealso:
  - module: runwhere.gpuctl.gpuctl_quota
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Read all quotas
  runwhere.gpuctl.gpuctl_quota_info:
  register: quotas

- name: Show them
  ansible.builtin.debug:
    msg: "{{ (quotas.results | runwhere.gpuctl.table(columns=columns)).splitlines() }}"
  vars:
    columns:
      - namespace
      - {key: cpu.used, title: CPU USED}
      - {key: cpu.hard, title: CPU}
      - {key: memory.used, title: MEMORY USED}
      - {key: memory.hard, title: MEMORY}
      - {key: gpu.used, title: GPU USED}
      - {key: gpu.hard, title: GPU}

- name: Read what one user has left
  runwhere.gpuctl.gpuctl_quota_info:
    namespaces: [sam-altman]
"""

RETURN = r"""
results:
  description: One entry for each quota and namespace, by namespace.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the quota.
      type: str
      sample: team-resource-quota
    namespace:
      description: The namespace.
      type: str
      sample: sam-altman
    description:
      description: What the manifest says of the quota.
      type: str
      sample: Quotas of the team
    cpu:
      description: CPU cores in use and allowed; V(none) when they are not limited.
      type: dict
      contains: &use
        used:
          description: What unfinished pods have requested; V(none) until Kubernetes has counted it.
          type: raw
          sample: "8"
        hard:
          description: What they may request together.
          type: raw
          sample: "10"
        percent:
          description: The one of the other. Of a limit of 0 everything is used.
          type: float
          sample: 80.0
    memory:
      description: The same for memory, in bytes with a unit.
      type: dict
      contains: *use
    gpu:
      description: The same for whole GPUs, as integers.
      type: dict
      contains: *use
    gpu_share:
      description: The same for memory of shared GPUs, as integers, in GiB.
      type: dict
      contains: *use
    pods:
      description: The same for the number of pods.
      type: dict
      contains: *use
    over_quota:
      description: What is used more than it may be, because the limit was set lower. Nothing new starts until less is in use.
      type: list
      elements: dict
      contains:
        resource:
          description: One of V(cpu), V(memory), V(gpu), V(gpu_share) and V(pods).
          type: str
          sample: gpu
        used:
          description: What is in use.
          type: raw
          sample: 6
        hard:
          description: What is allowed.
          type: raw
          sample: 4
    object:
      description: The ResourceQuota.
      returned: when O(full) is set
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_info import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import run_module


def main() -> None:
    run_module(AnsibleModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
