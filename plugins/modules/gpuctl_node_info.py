#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_node_info
short_description: Get nodes with their GPUs and their usage
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Lists the nodes of a cluster with their status, pool, GPUs, CPU and memory.
  - Usage is the sum of the requests of all unfinished pods on a node. Free GPUs are calculated from the allocatable GPUs. A
    node that is cordoned or not ready has no free GPUs.
  - Sends paginated list requests for nodes and for the pods of all namespaces, and requires permission for both.
  - If a node of O(nodes), O(pool) or O(gpu_type) does not exist, the task succeeds, and a warning says so, with the nearest name.
options:
  nodes:
    description: Names of nodes. By default, all nodes are returned.
    type: list
    elements: str
  pool:
    description: Return only nodes of this pool. V(default) selects nodes without a pool.
    type: str
  gpu_type:
    description: Return only nodes with this GPU type, in upper or lower case.
    type: str
  status:
    description:
      - Return only nodes with this status. V(active) nodes accept pods, V(maintaining) nodes are cordoned, and V(faulty) nodes
        are not ready.
    type: str
    choices: [active, maintaining, faulty]
  label_keys:
    description:
      - Keys of the labels to return. The prefix C(runwhere.ai/) is added to a key without a prefix. By default, all labels with
        this prefix are returned.
    type: list
    elements: str
  must_exist:
    description:
      - Whether to fail, instead of a warning, if a node of O(nodes), O(pool) or O(gpu_type) does not exist. RV(not_found) says what.
    type: bool
    default: false
    version_added: 1.2.0
  full:
    description: Whether to return the Kubernetes object of each node, without C(managedFields).
    type: bool
    default: false
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
- name: Get the active nodes of a pool
  runwhere.gpuctl.gpuctl_node_info:
    pool: training-pool
    status: active
  register: training_nodes

- name: Show their free GPUs
  ansible.builtin.debug:
    msg: "{{ (training_nodes.results | runwhere.gpuctl.table(columns=['node_name', 'gpu_type', 'gpu_free'])).splitlines() }}"

- name: Get the declared GPU type of each node, and the one that NVIDIA GPU Feature Discovery found
  runwhere.gpuctl.gpuctl_node_info:
    label_keys: [gpu-type, nvidia.com/gpu.product]

- name: Get the Kubernetes object of a node
  runwhere.gpuctl.gpuctl_node_info:
    nodes: [node-1]
    full: true
"""

RETURN = r"""
not_found:
  description: A sentence for each name that does not exist.
  returned: failure, with O(must_exist)
  type: list
  elements: str
  version_added: 1.2.0
results:
  description: One entry for each node, sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    node_name:
      description: Name of the node.
      type: str
    status:
      description: V(active), V(maintaining) (cordoned) or V(faulty) (not ready).
      type: str
    gpu_total:
      description: Number of allocatable GPUs.
      type: int
    gpu_used:
      description: Number of GPUs that pods on the node request.
      type: int
    gpu_free:
      description: Number of GPUs available to new pods. V(0) if the node is not active.
      type: int
    gpu_type:
      description: GPU type, from the labels of this collection or of the vendor.
      type: str
    accelerators:
      description:
        - Accelerators of the node, apart from each other. RV(results[].gpu_total) is the sum of the whole devices.
      type: list
      elements: dict
      version_added: 1.1.0
      contains:
        accelerator:
          description: Name of the accelerator's profile.
          type: str
        resource:
          description: Extended resource.
          type: str
        counts:
          description:
            - What its amounts are. V(devices), V(partitions), V(shares), V(memory) and V(cores) of shared devices, or V(broken) while
              the configuration of the node's devices is invalid.
          type: str
        partition:
          description: Name of the partition. V(none) for others.
          type: str
        unit:
          description: Unit of memory, such as V(Gi). V(none) for others; cores are in percent of a device.
          type: str
        total:
          description: Amount of the nodes. V(none) for what no node lists.
          type: int
        used:
          description: Amount that pods request. V(none) if the account may not list pods.
          type: int
        free:
          description: Amount available to new pods. V(none) if it is not known.
          type: int
    bound_pools:
      description: Pool of the node, as a list with one element. V(default) for a node without a pool.
      type: list
      elements: str
      sample: [training-pool]
    cpu:
      description: Allocatable CPU.
      type: str
      sample: "128"
    cpu_used:
      description: CPU that pods on the node request.
      type: str
    memory:
      description: Allocatable memory.
      type: str
      sample: 1024Gi
    memory_used:
      description: Memory that pods on the node request.
      type: str
    labels:
      description: Labels with the prefix C(runwhere.ai/), or the existing labels in O(label_keys).
      type: dict
      sample: {runwhere.ai/pool: training-pool, runwhere.ai/gpu-type: A100-100G}
    address:
      description: External address of the node, or its internal address if it has no external one.
      type: str
      sample: 10.0.0.11
    created_at:
      description: Time when the node joined the cluster.
      type: str
      sample: "2026-01-02T03:04:05Z"
    last_updated_at:
      description: Time of the last heartbeat in the conditions of the node.
      type: str
    problem:
      description: What of the node cannot be read, and what to do about it. All other values are V(none) then. V(none) if there is no problem.
      type: str
      version_added: 1.1.0
    object:
      description: Kubernetes object of the node.
      returned: with O(full=true)
      type: dict
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes.node_info import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
