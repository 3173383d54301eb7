#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_policy
short_description: Make the API server enforce what teams may do with GPUs
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Turns a manifest of kind C(policy) into ValidatingAdmissionPolicies, by which the API server refuses what a team may not do,
    from any client. It limits pools, GPU types, priorities and numbers of GPUs, paths of nodes, privileges, images,
    service accounts, pull secrets and types of Services, and the accounts that can set the labels C(runwhere.ai/).
  - In the namespaces of teams, it also sets the Pod Security level, a NetworkPolicy and a ResourceQuota, where the policy says so.
  - The policy applies to the namespaces of its teams, and to no others.
  - Numbers of GPUs that Kubernetes could not count, such as those of two pools with the same accelerators, are refused.
  - M(runwhere.gpuctl.gpuctl_job) obeys it too, and refuses such jobs before anything is sent.
  - Objects of the policy that no longer follow from it are deleted. Namespaces are neither created nor deleted, and keep their Pod
    Security level if the policy no longer has one.
  - Requires the permissions of a cluster administrator, and Kubernetes 1.30 or later.
options:
  src:
    description: File with the manifest.
    type: path
  definition:
    description: The manifest as YAML text or as data.
    type: raw
  name:
    description: Name of the policy to delete.
    type: str
  state:
    description: V(present) makes the cluster enforce the policy. V(absent) ends that, for the policy of O(src), O(definition) or O(name).
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: runwhere.gpuctl.gpuctl_access_info
    description: What a user may do.
  - ref: ansible_collections.runwhere.gpuctl.docsite.guide_policies
    description: Policies.
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.source
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.write_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Enforce a policy
  runwhere.gpuctl.gpuctl_policy:
    definition:
      kind: policy
      policy: {name: company, contact: gpu-admins@example.com}
      images: {registries: [registry.example.com]}
      teams:
        team-a: {pools: [training-pool], max_gpus_per_job: 16}

- name: Enforce a policy in a file
  runwhere.gpuctl.gpuctl_policy:
    src: policy.yaml

- name: Stop to enforce it
  runwhere.gpuctl.gpuctl_policy:
    name: company
    state: absent
"""

RETURN = r"""
resources:
  description: The objects of the policy, and what was done to each.
  returned: success, and if something was written
  type: list
  elements: dict
  sample: [{action: create, kind: ValidatingAdmissionPolicy, name: gpuctl-company-pods, namespace: null}]
action:
  description: V(create), V(update), V(unchanged), V(delete), or V(annotate) if only O(source) was recorded.
  returned: success, and if something was written
  type: str
name:
  description: Name of the policy.
  returned: success
  type: str
  sample: company
msg:
  description: A summary, or the error.
  returned: always
  type: str
  sample: "policy company: changed"
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.policy import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
