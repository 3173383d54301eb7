#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_quota_info
short_description: Get quotas and their usage
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Lists the quotas that M(runwhere.gpuctl.gpuctl_quota) created, with the usage and the limit of each resource.
  - Sends one paginated list request, or one for each namespace in O(namespaces).
  - If O(name) or a namespace of O(namespaces) does not exist, as far as the account may know, the task succeeds, and a warning
    says so, with the nearest name.
options:
  name:
    description: Name of a quota. By default, all quotas are returned.
    type: str
  namespaces:
    description:
      - Return only quotas in these namespaces. Requires permission to list resourcequotas in them. The default is the one in which
        M(runwhere.gpuctl.gpuctl_job) would act, see O(all_namespaces).
      - With O(all_namespaces), an account that may not list the quotas of the whole cluster gets the default, with a warning.
    type: list
    elements: str
    aliases: [namespace]
  full:
    description: Whether to return the Kubernetes objects.
    type: bool
    default: false
seealso:
  - module: runwhere.gpuctl.gpuctl_quota
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.connection.all_namespaces
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Get all quotas
  runwhere.gpuctl.gpuctl_quota_info:
    all_namespaces: true
  register: quotas

- name: Show the quotas
  ansible.builtin.debug:
    msg: "{{ (quotas.results | runwhere.gpuctl.table(columns=columns)).splitlines() }}"
  vars:
    columns:
      - namespace
      - {key: gpu.used, title: GPU USED}
      - {key: gpu.hard, title: GPU}

- name: Get the quota of one user
  runwhere.gpuctl.gpuctl_quota_info:
    namespaces: [sam-altman]
"""

RETURN = r"""
namespace:
  description: The namespace that O(all_namespaces=false) stands for; null if others were asked for.
  returned: success
  type: str
  sample: team-a
  version_added: 1.2.0
results:
  description: One entry for each quota and namespace, sorted by namespace.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the quota.
      type: str
    namespace:
      description: Name of the namespace.
      type: str
    description:
      description: Description of the quota.
      type: str
    cpu:
      description: Usage and limit of CPU cores. V(none) if they are not limited.
      type: dict
      contains: &use
        used:
          description: Sum of the requests of all unfinished pods. V(none) until Kubernetes has calculated it.
          type: raw
          sample: "8"
        hard:
          description: Limit.
          type: raw
        percent:
          description: Usage as a percentage of the limit. V(100.0) if the limit is 0.
          type: float
          sample: 80.0
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
    shares:
      description: GPUs of pools with a queue that are the namespace's own, by pool.
      type: dict
      sample: {"training-pool": 8}
      version_added: 1.1.0
    gpu_hours:
      description:
        - Budget of GPU-hours, with the period of now (C(since), C(until)), and what was C(used) of it and C(left) when
          M(runwhere.gpuctl.gpuctl_budget) recorded that last (C(counted_at)). These are V(none) until it has counted in the period. V(none) without
          a budget.
        - With C(then=stop_idle), M(runwhere.gpuctl.gpuctl_idle) pauses idle jobs once it is used up.
        - C(accelerators) has C(limit), C(used), C(left) and C(percent) of those that have a part of the budget.
      type: dict
      sample:
        limit: 5000
        per: month
        then: refuse
        used: 4210.0
        left: 790.0
        percent: 84.2
        since: "2026-01-01T00:00:00Z"
        until: "2026-02-01T00:00:00Z"
        counted_at: "2026-01-26T10:15:04Z"
        accelerators: {"amd": {"limit": 2000, "used": 1500.0, "left": 500.0, "percent": 75.0}}
      version_added: 1.2.0
    opportunistic:
      description: Whether the limits do not count jobs with priority V(opportunistic); null if the ResourceQuota cannot be read.
      type: bool
      version_added: 1.2.0
    pod_security:
      description:
        - Pod Security Standard that the namespace enforces, set by this collection or not. V(none) if it has no label, or if the
          account has no permission to read namespaces.
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
    problem:
      description: What of the ResourceQuota cannot be read, and what to do about it. All other values are V(none) then. V(none) if there is no problem.
      type: str
      version_added: 1.1.0
    object:
      description: Kubernetes object of the ResourceQuota.
      returned: with O(full=true)
      type: dict
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_info import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
