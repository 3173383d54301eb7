#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_node_info
short_description: Show GPU nodes, what they have and what is used of it
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Lists the nodes of the cluster with their GPUs, CPU and memory, the pool that they are in, and their state.
  - GPUs in use are the requests of all pods that are bound to a node and not finished. What is free counts from what the node
    offers to pods (allocatable). Nothing is free on a node that takes no pods.
  - Sends two list requests, for nodes and for the pods of all namespaces, in pages, whatever the size of the cluster. Needs
    the right to do so.
options:
  nodes:
    description: Names of nodes. Without it, all of them.
    type: list
    elements: str
  pool:
    description: Only the nodes of this pool. V(default) stands for the nodes that are in no pool.
    type: str
  gpu_type:
    description: Only the nodes with this type of GPU.
    type: str
  status:
    description:
      - Only the nodes in this state - V(active) takes pods, V(maintaining) is cordoned, V(faulty) is not ready.
    type: str
    choices: [active, maintaining, faulty]
  label_keys:
    description:
      - The labels to return. A key without a slash stands for the one under C(runwhere.ai/). Without it, all those under
        C(runwhere.ai/).
    type: list
    elements: str
  full:
    description: Return the Kubernetes object of each node as well, without C(managedFields).
    type: bool
    default: false
requirements:
  - kubernetes >= 31.0.0
  - pydantic >= 2.7
  - PyYAML >= 6.0
seealso:
  - module: runwhere.gpuctl.gpuctl_pool_info
  - module: runwhere.gpuctl.gpuctl_node_label
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Look for free GPUs
  runwhere.gpuctl.gpuctl_node_info:
    pool: training-pool
    status: active
  register: training_nodes

- name: Show them
  ansible.builtin.debug:
    msg: "{{ (training_nodes.results | runwhere.gpuctl.table(columns=['node_name', 'gpu_type', 'gpu_free'])).splitlines() }}"

- name: Read which type of GPU each node has, as set and as found by NVIDIA's discovery
  runwhere.gpuctl.gpuctl_node_info:
    label_keys: [gpu-type, nvidia.com/gpu.product]

- name: Read everything about one node
  runwhere.gpuctl.gpuctl_node_info:
    nodes: [node-1]
    full: true
"""

RETURN = r"""
results:
  description: One entry for each node, by name.
  returned: success
  type: list
  elements: dict
  contains:
    node_name:
      description: Name of the node.
      type: str
      sample: node-1
    status:
      description: V(active), V(maintaining) (cordoned) or V(faulty) (not ready).
      type: str
      sample: active
    gpu_total:
      description: GPUs that the node offers to pods.
      type: int
      sample: 8
    gpu_used:
      description: GPUs that pods on the node have requested.
      type: int
      sample: 4
    gpu_free:
      description: GPUs that a new pod could get; 0 on a node that takes no pods.
      type: int
      sample: 4
    gpu_type:
      description: Type of its GPUs, from the labels of the collection or of NVIDIA's feature discovery.
      type: str
      sample: A100-100G
    bound_pools:
      description: The pool that the node is in, as a list of one; V(default) for a node in no pool.
      type: list
      elements: str
      sample: [training-pool]
    cpu:
      description: CPU that the node offers to pods.
      type: str
      sample: "128"
    cpu_used:
      description: CPU that pods on the node have requested.
      type: str
      sample: 32500m
    memory:
      description: Memory that the node offers to pods.
      type: str
      sample: 1024Gi
    memory_used:
      description: Memory that pods on the node have requested.
      type: str
      sample: 128Gi
    labels:
      description: Its labels under C(runwhere.ai/), or those of O(label_keys) that it has.
      type: dict
      sample: {runwhere.ai/pool: training-pool, runwhere.ai/gpu-type: A100-100G}
    address:
      description: Its external address, or else the internal one.
      type: str
      sample: 10.0.0.11
    created_at:
      description: When it joined the cluster.
      type: str
      sample: "2026-01-02T03:04:05Z"
    last_updated_at:
      description: When the node last told of its state.
      type: str
      sample: "2026-01-02T04:03:05Z"
    object:
      description: The Kubernetes object.
      returned: with O(full=true)
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes.node_info import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import run_module


def main() -> None:
    run_module(AnsibleModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
