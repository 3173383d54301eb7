#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_node_label
short_description: Manage labels on many nodes
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Sets or removes labels with the prefix C(runwhere.ai/) on any number of nodes. It never changes other labels.
  - Before it changes anything, the module reports all missing nodes and label conflicts together.
  - The module lists the nodes once and sends one patch for each node that changes.
  - The label C(runwhere.ai/pool) defines the pool of a node. If you change it, the module also updates the ConfigMaps of the
    pools that M(runwhere.gpuctl.gpuctl_pool) created. The next M(runwhere.gpuctl.gpuctl_pool) task restores the pool that the
    manifest declares.
attributes:
  diff_mode:
    details:
      - Shows the changed labels of each node, and changes to the declarations of pools.
    support: full
options:
  state:
    description:
      - V(present) sets O(labels).
      - V(absent) removes the labels in O(keys), or those of O(labels) that have these values.
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
    description: Select all nodes of this pool. V(default) selects nodes without a pool.
    type: str
  selector:
    description: Select nodes by a Kubernetes label selector, for example V(nvidia.com/gpu.present=true).
    type: str
  labels:
    description:
      - Labels as a dictionary. The prefix C(runwhere.ai/) is added to a key without a prefix. Other prefixes are an error.
      - The value V(null) removes a label. With O(state=absent), labels with other values than these stay.
      - Required if O(state=present).
    type: dict
  keys:
    description:
      - Keys of the labels to remove, with the same prefix rules as O(labels). Missing labels are ignored.
      - O(state=absent) requires either O(keys) or O(labels).
    type: list
    elements: str
  overwrite:
    description: Whether to change labels that have another value. If V(false), that is a conflict. Removing a label never is.
    type: bool
    default: false
  continue_on_error:
    description:
      - If V(false), the module changes nothing if a node is missing or has a conflict. If a write fails, it rolls back the nodes
        that it has changed.
      - If V(true), the module processes all other nodes and then fails. RV(success) and RV(failed_nodes) list the nodes.
    type: bool
    default: false
seealso:
  - module: runwhere.gpuctl.gpuctl_pool
    description: Declare the nodes of a pool.
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.concurrency
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.write_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Set the GPU type of two nodes
  runwhere.gpuctl.gpuctl_node_label:
    nodes: [gpu-node-1, gpu-node-2]
    labels:
      gpu-type: A100-100G

- name: Move a node to another pool
  runwhere.gpuctl.gpuctl_node_label:
    nodes: [gpu-node-6]
    labels:
      pool: inference-pool
    overwrite: true

- name: Label as many nodes as possible
  runwhere.gpuctl.gpuctl_node_label:
    nodes: "{{ nodes_of_the_new_rack }}"
    labels:
      rack: r17
    continue_on_error: true

- name: Remove a label
  runwhere.gpuctl.gpuctl_node_label:
    selector: runwhere.ai/rack=r17
    keys: [rack]
    state: absent
"""

RETURN = r"""
success:
  description: Nodes that now have the requested labels, changed or not.
  returned: when the arguments are valid
  type: list
  elements: str
  sample: [gpu-node-1]
failed_nodes:
  description: Nodes that do not have the requested labels.
  returned: when the arguments are valid
  type: list
  elements: dict
  contains:
    node_name:
      description: Name of the node.
      type: str
    error:
      description:
        - V(NodeNotFound), V(LabelConflict), V(Conflict), V(Forbidden), or another reason from the API server. V(NotKnown) if the
          API server did not respond, so that the labels may have been changed.
      type: str
      sample: NodeNotFound
    message:
      description: Explanation of the error.
      type: str
      sample: node gpu-node-9 not found. Did you mean gpu-node-1?
results:
  description: One entry for each node in RV(success).
  returned: on success, and on failure with O(continue_on_error=true)
  type: list
  elements: dict
  contains:
    node_name:
      description: Name of the node.
      type: str
    action:
      description: The change that was made, or would be made in check mode. V(update) or V(unchanged).
      type: str
    labels:
      description: Changed labels with their new values. V(none) for a removed label.
      type: dict
      sample: {"runwhere.ai/gpu-type": "A100-100G"}
msg:
  description: Summary of the changes. On failure, the errors.
  returned: always
  type: str
  sample: "2 nodes: 1 update, 1 unchanged"
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes.node_label import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
