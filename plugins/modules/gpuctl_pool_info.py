#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_pool_info
short_description: Show GPU pools, what is used of them and by which jobs
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Lists the pools with their nodes, GPUs and jobs. Nodes that are in no pool make up the pool V(default).
  - A pool shows when it was declared, when a node carries its label, or when a job asks for it.
  - Sends three list requests, for nodes, for the pods of all namespaces and for the declarations, in pages, whatever the size
    of the cluster. Needs the right to do so.
options:
  name:
    description: Name of a pool. Without it, all of them.
    type: str
requirements:
  - kubernetes >= 31.0.0
  - pydantic >= 2.7
  - PyYAML >= 6.0
seealso:
  - module: runwhere.gpuctl.gpuctl_pool
  - module: runwhere.gpuctl.gpuctl_node_info
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Read all pools
  runwhere.gpuctl.gpuctl_pool_info:
  register: pools

- name: Show them
  ansible.builtin.debug:
    msg: "{{ (pools.results | runwhere.gpuctl.table(columns=columns)).splitlines() }}"
  vars:
    columns: [name, status, gpu_total, gpu_used, gpu_free, node_count]

- name: Read which jobs use a pool or wait for it
  runwhere.gpuctl.gpuctl_pool_info:
    name: training-pool
  register: pool

- name: Show these jobs
  ansible.builtin.debug:
    msg: "{{ (pool.results | map(attribute='jobs') | flatten | runwhere.gpuctl.table).splitlines() }}"
"""

RETURN = r"""
results:
  description: One entry for each pool, by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the pool.
      type: str
      sample: training-pool
    description:
      description: What its manifest says of it.
      type: str
      sample: Training of large models
    status:
      description:
        - V(active) while one of its nodes takes pods, or it has none; else V(faulty) if one of them is not ready, or
          V(maintaining) when all are cordoned.
      type: str
      sample: active
    gpu_total:
      description: GPUs that its nodes offer to pods.
      type: int
      sample: 16
    gpu_used:
      description: GPUs that pods on its nodes have requested.
      type: int
      sample: 12
    gpu_free:
      description: GPUs that new pods could get.
      type: int
      sample: 4
    gpu_type:
      description: Number of GPUs of each type.
      type: dict
      sample: {A100-100G: 16}
    node_count:
      description: Number of its nodes.
      type: int
      sample: 2
    nodes:
      description: Their names.
      type: list
      elements: str
      sample: [node-1, node-2]
    jobs:
      description: The jobs with pods on its nodes, or with pods that wait for it.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the job.
          type: str
          sample: qwen2-7b-sft
        namespace:
          description: Its namespace.
          type: str
          sample: team-a
        kind:
          description: Its kind.
          type: str
          sample: training
        gpu:
          description: GPUs that its pods on the nodes have requested.
          type: int
          sample: 4
        pods:
          description: Its pods on the nodes.
          type: int
          sample: 1
        pods_waiting:
          description: Its pods that have no node yet.
          type: int
          sample: 0
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool_info import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import run_module


def main() -> None:
    run_module(AnsibleModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
