#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_node_label
short_description: Set and remove labels of many nodes
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Sets or removes labels under C(runwhere.ai/) on any number of nodes in one task. Labels of other prefixes belong to others
    and are never touched.
  - All mistakes in the arguments, all nodes that do not exist and all conflicts with labels that are there are reported at
    once, before anything is changed.
  - Reads the nodes with one list and writes only those that change, each with one request, many at a time.
  - C(runwhere.ai/pool) can be set and removed here too. The label is the truth about which pool a node is in. When the pool
    was declared with M(runwhere.gpuctl.gpuctl_pool), its ConfigMap is brought in line, so the declaration goes on saying what
    is. A manifest of the pool says what should be; the next M(runwhere.gpuctl.gpuctl_pool) task with it has its way again.
attributes:
  check_mode:
    support: full
    details:
      - Every write is sent as a dry run, so the server validates what would be sent. Without the right to write, the plan
        is worked out all the same and a warning says that the server did not validate it.
  diff_mode:
    support: full
    details:
      - Shows for each node the labels that change, and where a pool's declaration changes with them, how.
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) sets O(labels).
      - V(absent) removes the labels named by O(keys).
    type: str
    choices: [present, absent]
    default: present
  nodes:
    description:
      - Names of the nodes.
      - Exactly one of O(nodes), O(pool) and O(selector) is required.
    type: list
    elements: str
    aliases: [node, name]
  pool:
    description:
      - All nodes of this pool; V(default) stands for the nodes that are in no pool.
    type: str
  selector:
    description:
      - All nodes that this Kubernetes label selector chooses, such as V(nvidia.com/gpu.present=true).
    type: str
  labels:
    description:
      - The labels, key to value. A key without a prefix gets C(runwhere.ai/); any other prefix is an error. A value of V(null)
        removes the label.
      - Required with O(state=present).
    type: dict
  keys:
    description:
      - Keys of the labels to remove; prefixes as in O(labels). A label that is not there is no error.
      - Required with O(state=absent).
    type: list
    elements: str
  overwrite:
    description:
      - Change labels that have another value. Without it, such a label is a conflict. Removing is never one.
    type: bool
    default: false
  continue_on_error:
    description:
      - V(false) - when a node does not exist or has a conflict, nothing at all is changed. When a write fails, what was written
        is taken back.
      - V(true) - all other nodes are done, then the task fails. RV(success) and RV(failed_nodes) tell which is which.
    type: bool
    default: false
requirements:
  - kubernetes >= 31.0.0
  - pydantic >= 2.7
  - PyYAML >= 6.0
seealso:
  - module: runwhere.gpuctl.gpuctl_pool
    description: For declaring which nodes belong together.
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.concurrency
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Say which GPUs two nodes have
  runwhere.gpuctl.gpuctl_node_label:
    nodes: [gpu-node-1, gpu-node-2]
    labels:
      gpu-type: A100-100G

- name: The same for all nodes of a pool, whatever they say now
  runwhere.gpuctl.gpuctl_node_label:
    pool: training-pool
    labels:
      runwhere.ai/gpu-type: A100-100G
    overwrite: true

- name: Move a node to another pool
  runwhere.gpuctl.gpuctl_node_label:
    nodes: [gpu-node-6]
    labels:
      pool: inference-pool
    overwrite: true

- name: Label what can be labelled, and see what could not
  runwhere.gpuctl.gpuctl_node_label:
    nodes: "{{ nodes_of_the_new_rack }}"
    labels:
      rack: r17
    continue_on_error: true
  register: labelled
  ignore_errors: true

- name: Show which nodes were not labelled, and why
  ansible.builtin.debug:
    msg: "{{ labelled.failed_nodes | runwhere.gpuctl.table }}"

- name: Remove a label
  runwhere.gpuctl.gpuctl_node_label:
    selector: runwhere.ai/rack=r17
    keys: [rack]
    state: absent
"""

RETURN = r"""
success:
  description: The nodes that have the labels now, whether or not something had to be changed.
  returned: when the arguments are valid
  type: list
  elements: str
  sample: [gpu-node-1]
failed_nodes:
  description: The nodes that have not, and why.
  returned: when the arguments are valid
  type: list
  elements: dict
  contains:
    node_name:
      description: Name of the node.
      type: str
      sample: gpu-node-9
    error:
      description: The kind of failure - V(NodeNotFound), V(LabelConflict), V(Conflict), V(Forbidden) or another reason of the API
        server.
      type: str
      sample: NodeNotFound
    message:
      description: One sentence about it.
      type: str
      sample: "the cluster has no node gpu-node-9; did you mean gpu-node-1?"
results:
  description: One entry for each node in RV(success).
  returned: when nodes were written or nothing had to be
  type: list
  elements: dict
  contains:
    node_name:
      description: Name of the node.
      type: str
      sample: gpu-node-1
    action:
      description: What was done, or in check mode would be - V(update) or V(unchanged).
      type: str
      sample: update
    labels:
      description: The labels that changed with their new values, V(none) for removed ones.
      type: dict
      sample: {"runwhere.ai/gpu-type": "A100-100G"}
msg:
  description: How many nodes there were, and what was done to them.
  returned: success
  type: str
  sample: "2 nodes: 1 update, 1 unchanged"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes.node_label import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import run_module


def main() -> None:
    run_module(AnsibleModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
