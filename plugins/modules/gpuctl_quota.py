#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_quota
short_description: Limit the resources of users and namespaces
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Creates ResourceQuotas from quota manifests. Each user in a quota gets a namespace with the name of the user, and a
    ResourceQuota C(<quota>-<namespace>) in it.
  - Missing namespaces are created. An existing namespace only gets the label C(runwhere.ai/namespace=true), and the labels of
    C(pod_security).
  - CPU and memory are limited as requests and as limits, GPUs as C(requests.nvidia.com/gpu). Resources that the manifest omits
    are unlimited. Quantities are compared by value, so V(1Gi) equals V(1024Mi).
  - If CPU or memory is limited, a LimitRange with the same name sets defaults for containers without requests, because
    Kubernetes would reject them. The defaults are 1 CPU and 1Gi of memory, but at most a quarter of the quota. GPUs have no
    default.
  - A limit can be lower than the current usage. Running pods are not affected. The module prints a warning, and
    RV(results[].over_quota) lists the resources.
  - With C(opportunistic) in the manifest, a limit does not count pods of the PriorityClass C(gpuctl-opportunistic). The
    ResourceQuota gets a scope for that, in place.
  - If a namespace is removed from the manifest, its limits are deleted and the namespace is kept.
  - After writing, the module reads the quotas again. If another task has changed them at the same time, it applies its own limits
    again, with a warning, so that two tasks never leave a mixture of both.
  - With C(pod_security) in the manifest, the namespaces enforce that Pod Security Standard, also those that the quota did not
    create. The module warns of what it forbids, and of running pods that violate it; they continue. Without it, or when the
    quota is removed, the labels that it has set are removed. Those that a policy or others have set are kept.
  - C(gpu_hours) of a namespace is only recorded, in an annotation of the ResourceQuota. M(runwhere.gpuctl.gpuctl_budget) counts and enforces it.
  - A namespace can belong to one quota only. The module reports unmanaged ResourceQuotas, but does not change them.
  - In a namespace that it creates, the module grants access to accounts that M(runwhere.gpuctl.gpuctl_rbac) has given a level for
    the whole cluster. A task that changes something also creates the PriorityClasses of jobs if they are missing and the
    account may.
  - Requires permission to manage namespaces, resourcequotas and limitranges in the whole cluster.
options:
  state:
    description:
      - V(present) creates or updates the quotas. Requires O(src) or O(definition).
      - V(absent) deletes the limits. The namespaces are kept unless O(delete_namespaces) is set.
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - Name of a quota to delete. Requires O(state=absent).
      - One of O(src), O(definition), O(name) and O(namespaces) is required.
    type: str
  namespaces:
    description:
      - Delete the quota O(name) in these namespaces only. Without O(name), delete any quota in these namespaces. An empty list
        selects no namespace. Requires O(state=absent).
      - Mutually exclusive with O(src) and O(definition).
    type: list
    elements: str
  delete_namespaces:
    description:
      - Whether to also delete the namespaces with everything in them. Requires O(state=absent).
      - Namespaces that this module did not create, V(default), V(gpuctl-system), C(kube-*), and namespaces with another quota are
        kept, with a warning.
      - If a namespace contains unfinished pods or PersistentVolumeClaims, the task fails and changes nothing, unless O(force) is
        set.
      - With O(name) alone, the module finds the namespaces by their ResourceQuotas. If these have been deleted, use a manifest or
        O(namespaces).
    type: bool
    default: false
  force:
    description: Whether to delete namespaces that contain unfinished pods or PersistentVolumeClaims.
    type: bool
    default: false
  ignore_jobs:
    description:
      - Jobs whose pods do not prevent the deletion of a namespace, as C(namespace/name), for example because the play deletes
        them, too.
    type: list
    elements: str
    version_added: 1.1.0
  wait:
    description: Whether to wait until the namespaces have been deleted.
    type: bool
    default: false
  wait_timeout:
    description: Timeout in seconds for O(wait), and for a terminating namespace to be deleted before it is created again.
    type: int
    default: 600
seealso:
  - module: runwhere.gpuctl.gpuctl_quota_info
  - module: runwhere.gpuctl.gpuctl_job
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.source
  - runwhere.gpuctl.source.cluster
  - runwhere.gpuctl.manifests
  - runwhere.gpuctl.manifests.conflicts
  - runwhere.gpuctl.connection.concurrency
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.write_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Set the quotas of two users
  runwhere.gpuctl.gpuctl_quota:
    definition:
      kind: quota
      quota: {name: team-resource-quota, description: Quotas of the team}
      users:
        elon-musk: {cpu: 10, memory: 20Gi, gpu: 4}
        sam-altman: {cpu: 10, memory: 20Gi, gpu: 4}

- name: Admit only pods without host paths and privileges
  runwhere.gpuctl.gpuctl_quota:
    definition:
      kind: quota
      quota: {name: team-resource-quota}
      pod_security: baseline
      users:
        elon-musk: {gpu: 4}

- name: Apply the shares that one of several clusters has of them
  runwhere.gpuctl.gpuctl_quota:
    src: manifests/
    cluster: frankfurt

- name: Apply all quotas in a directory
  runwhere.gpuctl.gpuctl_quota:
    src: manifests/
  register: quotas

- name: Show the namespaces that exceed their quota
  ansible.builtin.debug:
    msg: "{{ quotas.results | selectattr('over_quota') | map(attribute='namespace') }}"

- name: Delete the limits and keep the namespaces
  runwhere.gpuctl.gpuctl_quota:
    src: quota.yaml
    state: absent

- name: Delete the quota and the namespace of a user
  runwhere.gpuctl.gpuctl_quota:
    namespaces: [sam-altman]
    state: absent
    delete_namespaces: true
    wait: true
"""

RETURN = r"""
results:
  description:
    - One entry for each namespace of each quota, in the order of the manifests, followed by the namespaces that were removed
      from a quota. Empty if the task failed before the first write.
  returned: when the manifests are valid
  type: list
  elements: dict
  contains:
    name:
      description: Name of the quota. V(none) if a namespace in O(namespaces) has no quota to delete.
      type: str
    namespace:
      description: Name of the namespace.
      type: str
    description:
      description: Description of the quota. V(none) if the quota was deleted.
      type: str
    action:
      description:
        - The change that was made, or would be made in check mode. One of V(create), V(update), V(unchanged), V(delete) and
          V(annotate), which only records O(source).
      type: str
    cpu:
      description: Usage and limit of CPU cores. V(none) if they are not limited or the quota was deleted.
      type: dict
      contains: &use
        used:
          description: Sum of the requests of all unfinished pods. V(none) until Kubernetes has calculated it.
          type: raw
          sample: "12"
        hard:
          description: Limit.
          type: raw
        percent:
          description: Usage as a percentage of the limit. V(100.0) if the limit is 0.
          type: float
          sample: 120.0
    memory:
      description: Usage and limit of memory, as quantities.
      type: dict
      contains: *use
    gpu:
      description: Usage and limit of whole GPUs, as integers.
      type: dict
      contains: *use
    gpu_share:
      description: Usage and limit of shared GPU memory in GiB, as integers.
      type: dict
      contains: *use
    gpu_memory:
      description: Usage and limit of the memory of GPUs that HAMi or Volcano share, as quantities.
      type: dict
      contains: *use
      version_added: 1.1.0
    accelerators:
      description:
        - Usage and limit of each other accelerator that is limited, by its name, such as V(ascend), V(nvidia/1g.10gb) for partitions, or
          V(ascend/share) for memory of shared ones. V(none) if none is limited.
      type: dict
      sample: {"ascend": {"used": 4, "hard": 16, "percent": 25.0}}
      version_added: 1.1.0
    device_classes:
      description: Usage and limit of claimed devices, by DeviceClass, as integers. V(none) if no class is limited.
      type: dict
      sample: {"gpu.nvidia.com": {"used": 2, "hard": 8, "percent": 25.0}}
      version_added: 1.1.0
    pods:
      description: Usage and limit of the number of pods, as integers.
      type: dict
      contains: *use
    pod_security:
      description: Pod Security Standard that the namespace enforces, set by this module or not. V(none) if it has no label.
      type: str
      sample: baseline
      version_added: 1.1.0
    over_quota:
      description: Resources whose usage exceeds the limit. New pods that request them are rejected.
      type: list
      elements: dict
      contains:
        resource:
          description: V(cpu), V(memory), V(gpu), V(gpu_share), V(gpu_memory), V(pods), or V(accelerators.) or
            V(device_classes.) with a name.
          type: str
        used:
          description: Usage.
          type: raw
        hard:
          description: Limit.
          type: raw
    other_quotas:
      description: Unmanaged ResourceQuotas that also limit the namespace.
      type: list
      elements: str
    reason:
      description: Why the namespace was kept despite O(delete_namespaces).
      type: str
      sample: not created by gpuctl
    resources:
      description: Kubernetes objects of the quota in the namespace.
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
          sample: ["spec.hard[requests.cpu]", "spec.hard[limits.cpu]"]
msg:
  description: Summary of the changes.
  returned: success
  type: str
  sample: "2 namespaces: 1 unchanged, 1 update"
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
