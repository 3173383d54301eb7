#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_pool_info
short_description: Get pools with their usage and their jobs
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Lists pools with their nodes, GPUs and jobs. Nodes without a pool form the pool V(default).
  - A pool is listed if it was declared, if a node has its label, or if a job requests it.
  - Sends paginated list requests for nodes, for the pods of all namespaces and for the ConfigMaps in C(gpuctl-system), and
    requires permission for all of them.
options:
  name:
    description:
      - Name of a pool. By default, all pools are returned.
      - If there is none of that name, the task succeeds, and a warning says so, with the nearest name.
    type: str
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
- name: Get all pools
  runwhere.gpuctl.gpuctl_pool_info:
  register: pools

- name: Show the pools
  ansible.builtin.debug:
    msg: "{{ (pools.results | runwhere.gpuctl.table(columns=columns)).splitlines() }}"
  vars:
    columns: [name, status, gpu_total, gpu_used, gpu_free, node_count]

- name: Get one pool
  runwhere.gpuctl.gpuctl_pool_info:
    name: training-pool
  register: pool

- name: Show the jobs that use the pool or are waiting for it
  ansible.builtin.debug:
    msg: "{{ (pool.results | map(attribute='jobs') | flatten | runwhere.gpuctl.table).splitlines() }}"
"""

RETURN = r"""
results:
  description: One entry for each pool, sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the pool.
      type: str
    description:
      description: Description of the pool. V(none) if it has none.
      type: str
    status:
      description:
        - V(active) if the pool is empty or at least one of its nodes accepts pods. Otherwise, V(faulty) if a node is not ready,
          or V(maintaining) if all nodes are cordoned.
      type: str
    gpu_total:
      description: Number of allocatable GPUs.
      type: int
    gpu_used:
      description: Number of GPUs that pods on the nodes request.
      type: int
    gpu_free:
      description: Number of GPUs available to new pods.
      type: int
    gpu_type:
      description: Number of GPUs of each type.
      type: dict
      sample: {A100-100G: 16}
    accelerators:
      description:
        - Accelerators of the nodes, apart from each other. RV(results[].gpu_total) is the sum of the whole devices.
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
    hardware:
      description: What the pool declares of its hardware, by the options of M(runwhere.gpuctl.gpuctl_pool).
      type: dict
      sample: {"accelerator": "ascend", "type_aliases": {"910B": "910B3"}}
      version_added: 1.1.0
    queue:
      description: How jobs wait for the pool, by the option O(runwhere.gpuctl.gpuctl_pool#module:queue). Empty if it has no queue.
      type: dict
      sample: {"backend": "kueue", "preemption": "reclaim"}
      version_added: 1.1.0
    division:
      description:
        - Whether the nodes are divided as the pool declares (O(runwhere.gpuctl.gpuctl_pool#module:sharing),
          O(runwhere.gpuctl.gpuctl_pool#module:mig)). Empty if it declares nothing of that.
      type: list
      elements: dict
      version_added: 1.1.0
      contains:
        node_name:
          description: Name of the node.
          type: str
        done:
          description: Whether the vendor's software says that it has done it. V(none) if it says nothing.
          type: bool
        state:
          description: V(done), V(unknown), or what is otherwise.
          type: str
          sample: nvidia.com/mig.config.state is pending
    node_count:
      description: Number of nodes.
      type: int
    nodes:
      description: Names of the nodes.
      type: list
      elements: str
    problem:
      description:
        - What of the ConfigMap that declares the pool cannot be read, and what to do about it. What can be read of it is returned.
        - V(none) if there is no problem.
      type: str
      version_added: 1.1.0
    jobs:
      description: Jobs with pods on the nodes of the pool, or with pods that are waiting for it.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the job.
          type: str
        namespace:
          description: Namespace of the job.
          type: str
        kind:
          description: Kind of the job.
          type: str
        gpu:
          description: Number of GPUs that the pods of the job on these nodes request.
          type: int
        pods:
          description: Number of pods of the job on these nodes.
          type: int
        pods_waiting:
          description: Number of pods of the job that are not assigned to a node.
          type: int
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool_info import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
