#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_pool
short_description: Manage pools of GPU nodes
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Assigns nodes to pools, for example for training or inference. A job that names a pool in C(resources.pool) runs only on the
    nodes of this pool. Other jobs run only on nodes without a pool. A node belongs to at most one pool.
  - The label C(runwhere.ai/pool) defines the pool of a node. If a GPU type is declared, the node also gets the labels
    C(runwhere.ai/gpu-type) and C(runwhere.ai/gpuType). The module patches only these labels of a node.
  - A pool also declares the hardware of its nodes, which jobs of the pool are built for. A change of it changes the next objects of
    these jobs, and restarts them when they are applied again.
  - The ConfigMap C(pool-<name>) stores the declaration of a pool. Its namespace C(gpuctl-system) is created if it does not
    exist.
  - A task that changes something also creates the PriorityClasses of jobs if they are missing and the account may.
  - A task can contain any number of pools. Before it changes anything, the module reports all missing nodes and conflicts with
    other pools together. If a write fails, it rolls back the changes.
  - If two tasks change the same pools or nodes at the same time, one of them changes nothing and fails with the name of the
    other, unless both want the same result.
  - The Lease C(pools) in C(gpuctl-system) admits one task at a time. If a task is killed, the next one waits until the Lease has
    not been renewed for 15 seconds, takes it over, and names the killed task in a warning. Each host measures that time itself,
    so the clocks of the hosts do not have to agree.
  - A task that is suspended while another one takes over its Lease fails, and lists what it had written before. It does not undo
    what the other task has found.
  - A node that leaves a pool loses the pool label and the GPU type that the pool set. Running pods are not affected.
options:
  state:
    description:
      - V(present) creates or updates the pools.
      - V(absent) deletes the pools and releases their nodes. Jobs keep running. If unfinished jobs use a pool, the task fails and
        reports them, unless O(force) is set.
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - Name of a pool, as an alternative to a manifest. The names V(default), V(none) and V(all) are reserved.
      - Exactly one of O(src), O(definition) and O(name) is required.
    type: str
  description:
    description:
      - Description of the pool. If unset, the current description is kept. An empty string removes it.
      - Requires O(name).
    type: str
  nodes:
    description:
      - Nodes of the pool, as a dictionary of node names and their C(gpu-type), a list of node names, or a comma-separated string.
      - If unset, the current nodes are kept, except those in O(remove_nodes).
      - A node without a GPU type keeps a type that was set with M(runwhere.gpuctl.gpuctl_node_label), and loses one that a pool
        has set.
      - Requires O(name).
    type: raw
  accelerator:
    description:
      - Accelerator of the nodes, by the name of its profile, such as V(nvidia), V(amd) or V(ascend). Jobs of the pool get it
        unless they name one. Without it, V(nvidia).
      - If this or one of the following options is unset, what the pool declares is kept. An empty value removes it.
      - Requires O(name).
    type: str
    version_added: 1.1.0
  share_backend:
    description:
      - How the nodes share their accelerators, by its name in the profile, such as V(aliyun), V(hami) or V(volcano). It decides
        what C(resources.gpu-share) becomes. Without it, the first of the profile.
      - Requires O(name).
    type: str
    version_added: 1.1.0
  device_class:
    description:
      - DeviceClass whose devices jobs of the pool claim (Dynamic Resource Allocation, Kubernetes 1.34 or later), such as
        V(gpu.nvidia.com). For nodes where a driver offers the accelerators and no device plugin does.
      - C(resources.gpu-type), C(resources.gpu-memory) and C(resources.partition) become conditions on the devices, by what
        the profile of the accelerator says of its driver.
      - Requires O(name).
    type: str
    version_added: 1.1.0
  sharing:
    description:
      - How many pods share each device of the nodes, as C(time_slicing) (they take turns) or C(mps) (they compute at the same time),
        from 2 to 48. For accelerators whose software reads that from a label of nodes, such as V(nvidia), where the module
        sets C(nvidia.com/device-plugin.config) to V(time-slicing-4). The device plugin needs a configuration of that name, which
        the role P(runwhere.gpuctl.accelerator_stack#role) provides.
      - A node loses the label when it leaves the pool, or when the pool no longer declares it. Labels that others have set stay.
      - Requires O(name).
    type: dict
    version_added: 1.1.0
  mig:
    description:
      - Configuration of NVIDIA's MIG manager for the nodes, such as V(all-1g.10gb) or V(all-disabled). The module sets the label
        C(nvidia.com/mig.config), as with O(sharing). Both exclude each other.
      - Requires O(name).
    type: str
    version_added: 1.1.0
  type_aliases:
    description:
      - Other names of GPU types, for C(resources.gpu-type). The value is a type of the pool's nodes, or what the label of the
        vendor says, such as C(nvidia.com/gpu.product).
      - Requires O(name).
    type: dict
    version_added: 1.1.0
  rdma_resource:
    description:
      - Extended resource of the nodes' RDMA devices, for jobs with C(resources.interconnect=rdma).
      - Requires O(name).
    type: str
    version_added: 1.1.0
  rdma_env:
    description:
      - Environment variables of jobs with C(resources.interconnect=rdma), such as C(NCCL_IB_HCA). What a manifest sets
        itself wins.
      - Requires O(name).
    type: dict
    version_added: 1.1.0
  topology:
    description:
      - Levels of the network, the widest first, with the labels of nodes that name their place in each.
      - Requires O(name).
    type: dict
    version_added: 1.1.0
  new_nodes:
    description:
      - What each node has that a cluster autoscaler, Karpenter or the node pool of a provider adds while pods wait. C(max) is the
        number of nodes that the pool has at most. C(gpu), C(gpu-type), C(cpu) and C(memory) describe each of them. CPUs and
        memory are no limit if they are not declared.
      - Such nodes come with the label C(runwhere.ai/pool), which their template sets. The module leaves the label on nodes that it did
        not add.
      - Jobs of the pool wait for nodes as with O(runwhere.gpuctl.gpuctl_job#module:wait_for_nodes), and
        M(runwhere.gpuctl.gpuctl_fit_info) says which of them run once nodes are added.
      - Requires O(name).
    type: dict
    version_added: 1.2.0
  time_limit:
    description:
      - How long trainings of the pool may run. C(max) is the longest C(job.time_limit) of a manifest, and C(default) that of manifests
        without one. Without C(default), these get C(max).
      - The next trainings get it. A training that runs keeps the limit that it has, or none.
      - C(notebook_max) and C(notebook_default) are the same for notebooks, C(service_max) and C(service_default) for inference and compute. They
        have no limit without them. Those that run are held to them too, once M(runwhere.gpuctl.gpuctl_expire) has warned of their end.
      - Requires O(name).
    type: dict
    version_added: 1.2.0
  queue:
    description:
      - How jobs wait for the pool. V(kueue), V(volcano), V(native), V(multikueue), or a dictionary with one of them as C(backend) and any of
        C(borrowing_limit), C(lending_limit) and C(preemption), as in the manifest of a pool. V(kueue) requires Kueue 0.15 or
        later in the cluster, and V(volcano) Volcano 1.11 or later.
      - A training in such a pool starts once there is room for all of its nodes. In Kueue and Volcano, each namespace with a quota has
        a share of the pool, which the C(shares) of M(runwhere.gpuctl.gpuctl_quota) say, and borrows what others leave free, up to its limits.
      - The module creates a ResourceFlavor and a Cohort for the pool, with a Topology if it declares O(topology), and a ClusterQueue
        and a LocalQueue for each namespace with a quota. In Volcano, it creates a Queue for each namespace with a quota, and with
        O(topology) a HyperNode for each place. It deletes only those that it has created.
      - With V(multikueue), Kueue hands the trainings of the pool to other clusters, see M(runwhere.gpuctl.gpuctl_multikueue). The pool has no nodes
        here, and no other key.
      - V(native) requires only Kubernetes 1.36 with its alpha API C(scheduling.k8s.io/v1alpha2) and the feature gates
        C(GenericWorkload), C(GangScheduling) and C(WorkloadWithJob). It has no order of jobs, and no shares or limits of teams.
      - If unset, the queue of the pool is kept. An empty value removes it. Jobs that run go on, and stay in the queue they started in.
      - Requires O(name).
    type: raw
    version_added: 1.1.0
  remove_nodes:
    description:
      - Nodes to remove from the pool. Nodes of other pools are ignored.
      - Requires O(name).
    type: list
    elements: str
  purge:
    description:
      - If V(true), nodes that are not listed are removed from the pool.
      - If V(false), the listed nodes are added to the pool.
    type: bool
    default: true
  force:
    description:
      - Whether to take nodes from other pools. Their declarations are updated, and RV(results[].taken_from) shows the former
        pools. Moving nodes between pools of the same task does not require this.
      - With O(state=absent), whether to delete pools that unfinished jobs use. Running pods continue, but new pods of these
        jobs stay pending.
    type: bool
    default: false
  drain:
    description:
      - Whether to pause the jobs on nodes whose devices are divided otherwise (O(sharing), O(mig)) until the vendor's software has done
        that, and to resume them afterwards. A training that is paused starts again from its last checkpoint. MIG cannot change
        while a GPU is in use.
      - Without it, a warning names these jobs. In check mode, RV(results[].busy_jobs) and the diff show which would be paused.
    type: bool
    default: false
    version_added: 1.1.0
  drain_timeout:
    description: How many seconds to wait at most, for the pods of paused jobs and for the vendor's software.
    type: int
    default: 600
    version_added: 1.1.0
  ignore_jobs:
    description:
      - Jobs that do not count as users of a deleted pool, as C(namespace/name), for example because the play deletes them, too.
    type: list
    elements: str
    version_added: 1.1.0
seealso:
  - module: runwhere.gpuctl.gpuctl_pool_info
  - module: runwhere.gpuctl.gpuctl_node_label
    description: Change labels of nodes.
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.source
  - runwhere.gpuctl.manifests
  - runwhere.gpuctl.connection.concurrency
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.write_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Apply all pools in a directory
  runwhere.gpuctl.gpuctl_pool:
    src: manifests/

- name: Define a pool with exactly two nodes
  runwhere.gpuctl.gpuctl_pool:
    name: training-pool
    description: Large trainings
    nodes:
      gpu-node-1: {gpu-type: A100-100G}
      gpu-node-2: {gpu-type: A100-100G}

- name: Declare nodes with Ascend NPUs, and a name for their type
  runwhere.gpuctl.gpuctl_pool:
    name: npu-pool
    nodes: [npu-node-1, npu-node-2]
    accelerator: ascend
    type_aliases: {910B: 910B3}
    rdma_resource: rdma/hca_shared_devices_a
    rdma_env: {HCCL_SOCKET_IFNAME: bond0}
    topology: {block: example.com/block, rack: example.com/rack}

- name: Divide the GPUs of a pool into MIG partitions, while its jobs are paused
  runwhere.gpuctl.gpuctl_pool:
    name: small-pool
    mig: all-1g.10gb
    drain: true

- name: Let the jobs of all teams wait for a pool in a queue of Kueue
  runwhere.gpuctl.gpuctl_pool:
    name: training-pool
    queue: kueue

- name: Declare a pool whose nodes an autoscaler adds
  runwhere.gpuctl.gpuctl_pool:
    name: burst
    new_nodes: {max: 8, gpu: 8, gpu-type: A100-80G, cpu: 96, memory: 1Ti}

- name: Give trainings of a pool 12 hours unless they ask for more, and three days at most
  runwhere.gpuctl.gpuctl_pool:
    name: training-pool
    time_limit: {default: 12h, max: 3d}

- name: Add two nodes to a pool
  runwhere.gpuctl.gpuctl_pool:
    name: training-pool
    nodes: [gpu-node-3, gpu-node-4]
    purge: false

- name: Remove a node from a pool
  runwhere.gpuctl.gpuctl_pool:
    name: training-pool
    remove_nodes: [gpu-node-3]

- name: Move a node from any other pool
  runwhere.gpuctl.gpuctl_pool:
    name: inference-pool
    nodes: [gpu-node-4]
    purge: false
    force: true

- name: Delete a pool
  runwhere.gpuctl.gpuctl_pool:
    name: training-pool
    state: absent
"""

RETURN = r"""
results:
  description: One entry for each pool, in the order of the manifests.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the pool.
      type: str
    action:
      description:
        - The change that was made, or would be made in check mode. One of V(create), V(update), V(unchanged), V(delete) and
          V(annotate), which only records O(source).
      type: str
    description:
      description: Description of the pool. Empty if it has none.
      type: str
    nodes:
      description: Nodes of the pool, sorted by name.
      type: list
      elements: str
    gpu_types:
      description: Declared GPU type of each node. V(none) if the pool declares none.
      type: dict
      sample: {"gpu-node-1": "A100-100G", "gpu-node-2": "A100-100G"}
    hardware:
      description:
        - What the pool declares of its hardware, by the options O(accelerator), O(share_backend), O(device_class),
          O(sharing), O(mig), O(type_aliases), O(rdma_resource), O(rdma_env), O(topology), O(new_nodes) and
          O(time_limit). Empty if it declares nothing.
      type: dict
      sample: {"accelerator": "ascend", "type_aliases": {"910B": "910B3"}}
      version_added: 1.1.0
    queue:
      description: How jobs wait for the pool, by the keys of O(queue). Empty if it has no queue.
      type: dict
      sample: {"backend": "kueue", "preemption": "reclaim"}
      version_added: 1.1.0
    divided:
      description: Nodes whose devices are divided otherwise, with the labels that say so, C(before) and C(after).
      type: dict
      sample: {"gpu-node-1": {"nvidia.com/mig.config": {"before": null, "after": "all-1g.10gb"}}}
      version_added: 1.1.0
    busy_jobs:
      description: Jobs with pods on these nodes, as C(namespace/name).
      type: list
      elements: str
      version_added: 1.1.0
    added:
      description: Nodes that were added to the pool.
      type: list
      elements: str
    removed:
      description: Nodes that were removed from the pool.
      type: list
      elements: str
    changed_types:
      description: GPU types C(before) and C(after) of nodes that stayed in the pool and whose GPU type label changed.
      type: dict
      sample: {"gpu-node-1": {"before": "A100-80G", "after": "A100-100G"}}
    taken_from:
      description: Former pools of nodes that were in another pool.
      type: dict
      sample: {"gpu-node-2": "inference-pool"}
msg:
  description: Summary of the changes.
  returned: success
  type: str
  sample: "2 pools: 1 unchanged, 1 update"
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
