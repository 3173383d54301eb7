#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_pool
short_description: Divide the nodes of a cluster into pools
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - A pool is a set of nodes for one purpose, such as training or inference. A job that names a pool in C(resources.pool) runs
    on its nodes only; a job that names none runs on the nodes that are in no pool. A node is in one pool at most.
  - The nodes of a pool carry the label C(runwhere.ai/pool), and where a GPU type is declared C(runwhere.ai/gpu-type) and
    C(runwhere.ai/gpuType). The scheduler goes by these labels, so they are the truth about who is in which pool. What was
    declared is kept in the ConfigMap C(pool-<name>) of the namespace C(gpuctl-system), which is created when it is missing.
  - Takes any number of pools in one task and changes all of them or none. Whatever stands in the way (nodes that do not
    exist, nodes of other pools) is reported all at once before anything is changed.
  - Every node that changes is written with one request, many nodes at a time. When a request is refused on the way, what was
    done until then is taken back.
  - Two tasks that change the same pools or nodes at the same time, from whatever hosts, do not mix. One of them wins, the
    other one changes nothing and fails with the name of the winner, unless the pools have become what it wanted too.
  - Nodes that leave a pool lose its label and the GPU type that the pool gave them. Running pods are never stopped.
attributes:
  check_mode:
    support: full
    details:
      - Every write is sent as a dry run, so the server validates what would be sent. Without the right to write, the plan
        is worked out all the same and a warning says that the server did not validate it.
  diff_mode:
    support: full
    details:
      - Shows for each pool and each node what changes and nothing else.
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) makes the pools what is declared.
      - V(absent) removes the pools and frees their nodes. Jobs are not stopped, but as long as unfinished jobs use a pool, the
        task fails and names them, unless O(force=true).
    type: str
    choices: [present, absent]
    default: present
  src:
    description:
      - Manifest files, directories (all C(*.yaml) and C(*.yml) files below them) or globs. Manifests of other kinds are left
        out, so a directory may hold them all.
      - Paths are those of the host that the module runs on; with a local connection, the controller.
      - Exactly one of O(src), O(definition) and O(name) is required.
    type: list
    elements: path
  definition:
    description:
      - The manifests themselves, a dictionary, a list of dictionaries, or YAML text with one or several documents.
    type: raw
  allow_empty:
    description:
      - Whether it is right that there is no pool in what O(src) or O(definition) gives, as in a directory that may hold any
        kinds of manifests. Without it, that is an error.
    type: bool
    default: false
  name:
    description:
      - Name of the pool. The names V(default), V(none) and V(all) are reserved.
    type: str
  description:
    description:
      - What the pool is for. Without it, the description stays as it is; an empty one removes it.
    type: str
  nodes:
    description:
      - The nodes of the pool, as a dictionary from node name to a dictionary with C(gpu-type) (or nothing), or as a list of
        names. A text is taken as names with commas between them.
      - Without it, the nodes of the pool stay as they are, but for O(remove_nodes).
      - A node for which no GPU type is given keeps one that a person has set (see M(runwhere.gpuctl.gpuctl_node_label)) and
        loses one that a pool has set.
    type: raw
  remove_nodes:
    description:
      - Nodes to take out of the pool. A node that is not in it is no error.
    type: list
    elements: str
  purge:
    description:
      - V(true) - the pool has exactly the given nodes, others leave it.
      - V(false) - the given nodes are added.
    type: bool
    default: true
  force:
    description:
      - Take over nodes that are in another pool; the other pool's declaration gives them up, and the result says where each
        came from. A node that moves between two pools of the same task needs no force.
      - With O(state=absent), delete pools that unfinished jobs use. Their running pods go on, but new ones wait until there
        is such a pool again.
    type: bool
    default: false
requirements:
  - kubernetes >= 31.0.0
  - pydantic >= 2.7
  - PyYAML >= 6.0
seealso:
  - module: runwhere.gpuctl.gpuctl_node_label
    description: For single labels of nodes.
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.concurrency
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Have the pools that a directory declares
  runwhere.gpuctl.gpuctl_pool:
    src: manifests/

- name: Have one pool with exactly these nodes
  runwhere.gpuctl.gpuctl_pool:
    name: training-pool
    description: Large trainings
    nodes:
      gpu-node-1: {gpu-type: A100-100G}
      gpu-node-2: {gpu-type: A100-100G}

- name: Add two nodes to a pool
  runwhere.gpuctl.gpuctl_pool:
    name: training-pool
    nodes: [gpu-node-3, gpu-node-4]
    purge: false

- name: Take a node out of a pool
  runwhere.gpuctl.gpuctl_pool:
    name: training-pool
    remove_nodes: [gpu-node-3]

- name: Move a node to another pool, wherever it is now
  runwhere.gpuctl.gpuctl_pool:
    name: inference-pool
    nodes: [gpu-node-4]
    purge: false
    force: true

- name: Delete a pool; its nodes become free
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
      sample: training-pool
    action:
      description: What was done, or in check mode would be - V(create), V(update), V(unchanged) or V(delete).
      type: str
      sample: update
    description:
      description: What the pool is for; empty where nobody said.
      type: str
      sample: Large trainings
    nodes:
      description: The nodes that the pool has now, sorted.
      type: list
      elements: str
      sample: [gpu-node-1, gpu-node-2]
    gpu_types:
      description: The GPU type that the pool declares for each of its nodes; V(none) where it declares none.
      type: dict
      sample: {"gpu-node-1": "A100-100G", "gpu-node-2": "A100-100G"}
    added:
      description: The nodes that got the pool's label.
      type: list
      elements: str
      sample: [gpu-node-2]
    removed:
      description: The nodes that are not in the pool any more.
      type: list
      elements: str
      sample: []
    changed_types:
      description: The GPU type C(before) and C(after) of each node that was in the pool and got another one.
      type: dict
      sample: {"gpu-node-1": {"before": "A100-80G", "after": "A100-100G"}}
    taken_from:
      description: For each node that was in another pool, which.
      type: dict
      sample: {"gpu-node-2": "inference-pool"}
msg:
  description: How many pools there were, and what was done to them.
  returned: success
  type: str
  sample: "2 pools: 1 unchanged, 1 update"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import run_module


def main() -> None:
    run_module(AnsibleModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
