#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_workspace
short_description: Provide what jobs need in a namespace
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Creates a namespace if it is missing, and in it a claim for data and a Secret with the credentials of image registries.
  - Jobs name the claim in C(storage.workdirs[].claim) and the Secret in C(environment.imagePullSecret) of their manifest.
  - Tokens and passwords for jobs go into Secrets, so that no manifest has them.
  - What the options do not mention is left as it is.
options:
  state:
    description:
      - V(present) creates or updates what the options describe.
      - V(absent) deletes the claim with its data, the Secrets and the limits, if this module created them. The namespace is kept.
        M(runwhere.gpuctl.gpuctl_quota) deletes namespaces.
    type: str
    choices: [present, absent]
    default: present
  namespace:
    description:
      - Name of the namespace. The default is that of the environment variable E(GPUCTL_NAMESPACE), else that of the kubeconfig's
        context, as with C(kubectl), else V(default).
      - Required if O(state=absent).
    type: str
  claim:
    description: The claim for data. Jobs on any node can mount it, if its storage class allows that.
    type: dict
    suboptions:
      name:
        description: Name of the claim.
        type: str
        default: data
      size:
        description: Size of the volume, such as V(500Gi). A claim can grow, if its storage class allows that, and never shrinks.
          Required if O(state=present).
        type: str
      storage_class:
        description: Storage class that provides the volume. A new claim gets that of the cluster by default. It cannot be changed
          later.
        type: str
      access_mode:
        description: How nodes may mount the volume. A new claim gets V(ReadWriteMany) by default. It cannot be changed later. Many
          storage classes offer only V(ReadWriteOnce), with which all pods that use the claim have to run on one node.
        type: str
        choices: [ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod]
  registry:
    description:
      - Credentials of image registries, for the Secret C(gpuctl-registry). They are written into the Secret and nowhere else, and
        never returned.
      - Use either O(registry.config_file), or O(registry.server) with O(registry.username) and O(registry.password).
    type: dict
    suboptions:
      server:
        description: The registry, as it is named in images. For Docker Hub, V(https://index.docker.io/v1/).
        type: str
      username:
        description: Name of the user.
        type: str
      password:
        description: Password or token of the user.
        type: str
      config_file:
        description: Path of a docker config file on the host that the module runs on. It may have credentials of several registries.
          Those in a credential store are not in this file.
        type: path
  tokens:
    description:
      - Tokens and passwords by name, for the Secret C(gpuctl-tokens), to whose keys jobs refer with
        C(environment.env[].valueFrom.secretKeyRef). They are written into the Secret and nowhere else, and never returned. Keep them in a
        file that Ansible Vault encrypts.
      - Tokens that are not mentioned stay. The value V(null) removes one.
    type: dict
  object_counts:
    description:
      - How many objects of each kind the namespace may have, by the name of the resource, such as V(configmaps) and V(jobs.batch), for the
        ResourceQuota C(gpuctl-object-counts). Without a limit, an account that may write in one namespace can fill the storage of the
        whole cluster, and make lists of all namespaces too large to be read.
      - What the namespace has above a limit stays, and nothing is added. V({}) removes the ResourceQuota.
    type: dict
  keep_object_counts:
    description: Whether a ResourceQuota of O(object_counts) that the namespace has already is left as it is.
    type: bool
    default: false
seealso:
  - module: runwhere.gpuctl.gpuctl_quota
    description: Create and limit the namespaces of users.
  - module: runwhere.gpuctl.gpuctl_rbac
    description: Grant access to a namespace.
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.write_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Provide a namespace with a claim of 500 GiB that all nodes can mount
  runwhere.gpuctl.gpuctl_workspace:
    namespace: alice
    claim:
      size: 500Gi
      storage_class: cephfs

- name: Provide the credentials of a registry
  runwhere.gpuctl.gpuctl_workspace:
    namespace: alice
    registry:
      server: registry.example.com
      username: robot
      password: "{{ registry_password }}"

- name: Provide a token for Hugging Face
  runwhere.gpuctl.gpuctl_workspace:
    namespace: alice
    tokens:
      hugging-face: "{{ hugging_face_token }}"

- name: Limit how many objects the namespace may have
  runwhere.gpuctl.gpuctl_workspace:
    namespace: alice
    object_counts:
      configmaps: 300
      jobs.batch: 1000

- name: Delete the claim, with all data, and the credentials
  runwhere.gpuctl.gpuctl_workspace:
    namespace: alice
    state: absent
"""

RETURN = r"""
results:
  description: One entry for the namespace.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the namespace.
      type: str
    namespace:
      description: Name of the namespace.
      type: str
    claim:
      description: Name of the claim. V(none) if the options do not describe one.
      type: str
      sample: data
    pull_secret:
      description: Name of the Secret with the credentials of registries. V(none) if the options have none.
      type: str
      sample: gpuctl-registry
    token_secret:
      description: Name of the Secret with tokens. V(none) if the options have none.
      type: str
      sample: gpuctl-tokens
    action:
      description:
        - The change that was made, or would be made in check mode. One of V(create), V(update), V(unchanged) and V(delete).
      type: str
    reason:
      description: What is left to happen, such as that pods still mount a deleted claim.
      type: str
    resources:
      description: Kubernetes objects of the workspace.
      type: list
      elements: dict
      contains:
        api_version:
          description: API version of the object.
          type: str
        kind:
          description: Kind of the object.
          type: str
        name:
          description: Name of the object.
          type: str
        action:
          description: The change to the object, as in RV(results[].action).
          type: str
        changes:
          description: Paths of the changed fields.
          type: list
          elements: str
msg:
  description: Summary of the changes.
  returned: success
  type: str
  sample: "workspace alice: create"
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.workspace import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
