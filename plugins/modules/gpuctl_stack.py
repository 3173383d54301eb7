#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_stack
short_description: Install the software of a vendor of accelerators from plain manifests
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Creates, updates and deletes the Kubernetes objects of a device plugin, an exporter and the like, and sets the labels of nodes by
    which such software is configured. The role P(runwhere.gpuctl.accelerator_stack#role) uses it.
  - The objects of a stack have its label. Those that are no longer in O(objects) are deleted, and no others. What exists without the
    label is an error. Namespaces are created, and never deleted.
  - The module needs neither Helm nor C(kubernetes.core), and supports the kinds that such software consists of. It requires the
    permissions of a cluster administrator, because device plugins are privileged.
options:
  name:
    description: Name of the stack.
    type: str
    required: true
  state:
    description: V(present) makes the stack what O(objects) are. V(absent) deletes its objects.
    type: str
    choices: [present, absent]
    default: present
  objects:
    description:
      - The objects. Namespaces, ServiceAccounts, Roles, ClusterRoles and their bindings, ConfigMaps, RuntimeClasses, Services,
        DaemonSets and CronJobs are supported, and where their operators are installed PrometheusRules, PodMonitors, ServiceMonitors,
        AlertmanagerConfigs, GrafanaDashboards and ScaledObjects.
      - Without it, O(state=present) only sets O(node_labels).
    type: list
    elements: dict
  node_labels:
    description:
      - >-
        Labels by node, such as C({node-1: {nvidia.com/mig.config: all-1g.10gb}}). The value V(null) removes a label. Labels with the
        prefixes C(kubernetes.io/), C(k8s.io/) and C(runwhere.ai/) are an error.
      - They are set whatever O(state) is.
    type: dict
seealso:
  - module: runwhere.gpuctl.gpuctl_doctor
    description: Find nodes whose device plugin is missing.
  - module: kubernetes.core.helm
    description: Install charts.
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.write_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Install the manifests of a vendor
  runwhere.gpuctl.gpuctl_stack:
    name: example
    objects: "{{ lookup('ansible.builtin.file', 'device-plugin.yaml') | from_yaml_all | list }}"

- name: Divide the GPUs of a node
  runwhere.gpuctl.gpuctl_stack:
    name: nvidia
    node_labels:
      node-1: {nvidia.com/mig.config: all-1g.10gb}
"""

RETURN = r"""
resources:
  description: The objects of the stack, and what was done to each.
  returned: success, and if something was written
  type: list
  elements: dict
  sample: [{action: create, kind: DaemonSet, name: nvidia-device-plugin, namespace: gpuctl-accelerators}]
nodes:
  description: The nodes whose labels were changed, and these labels.
  returned: success, and if something was written
  type: list
  elements: dict
  sample: [{node_name: node-1, labels: {nvidia.com/mig.config: all-1g.10gb}}]
msg:
  description: A summary, or the error.
  returned: always
  type: str
  sample: "stack nvidia: 6 objects created"
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.stack.stack import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
