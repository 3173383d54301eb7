#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_quota
short_description: Limit what users and namespaces may use
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Turns quota manifests into limits. Each user of a quota gets a namespace of their name with a ResourceQuota, called
    C(<quota>-<namespace>), and a LimitRange of that name.
  - A namespace that is missing is made. One that is there gets the label C(runwhere.ai/namespace=true), and nothing else of
    it is touched.
  - CPU and memory are limited as requests and as limits, GPUs as C(requests.nvidia.com/gpu). What the manifest does not
    limit is unlimited. Amounts are compared by value, V(1Gi) is V(1024Mi).
  - The LimitRange says what containers get that ask for no CPU or memory, because Kubernetes refuses them under a quota.
    That is 1 CPU and 1Gi of memory, and at most a quarter of the quota. Containers never get a GPU that they did not ask for.
  - A limit may be set lower than what is in use. Nothing is stopped then; the result and a warning say what is over.
  - A namespace that is no longer in the manifest loses the limits of this quota. The namespace stays, with all that is in it.
  - A namespace belongs to one quota. Limits that somebody else has set in it are reported and not touched.
attributes:
  check_mode:
    support: full
    details:
      - Every write is sent as a dry run, so the server validates what would be sent. Without the right to write, the plan
        is worked out all the same and a warning says that the server did not validate it.
  diff_mode:
    support: full
    details:
      - Shows the fields that change and nothing else.
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) creates the quotas or brings them up to date.
      - V(absent) deletes the limits. The namespaces stay, unless O(delete_namespaces) is set.
    type: str
    choices: [present, absent]
    default: present
  src:
    description:
      - Manifest files, directories (all C(*.yaml) and C(*.yml) files below them) or globs. Manifests of other kinds are
        passed over.
      - Paths are those of the host that the module runs on; with a local connection, the controller.
      - One of O(src), O(definition), O(name) and O(namespaces) is required.
    type: list
    elements: path
  definition:
    description:
      - The manifests themselves, a dictionary, a list of dictionaries, or YAML text with one or several documents.
    type: raw
  allow_empty:
    description:
      - Whether it is right that there is no quota in what O(src) or O(definition) gives, as in a directory that may hold any
        kinds of manifests. Without it, that is an error.
    type: bool
    default: false
  name:
    description:
      - Name of the quota to delete. Only with O(state=absent).
    type: str
  namespaces:
    description:
      - Delete the quota named by O(name) in these namespaces only; without O(name), whichever quota they have. An
        empty list is no namespace. Only with O(state=absent).
    type: list
    elements: str
  delete_namespaces:
    description:
      - Delete the namespaces, too, with everything in them. Only with O(state=absent).
      - Namespaces that this module did not make are kept, and so are V(default), V(gpuctl-system) and C(kube-*); a warning says so.
      - While pods run in one of the namespaces, or it has volume claims, nothing is deleted and the task fails, unless
        O(force) is set.
      - A quota that is deleted by O(name) alone is found by its limits. A namespace that has lost them needs the manifest or
        O(namespaces) to be found.
    type: bool
    default: false
  force:
    description:
      - Delete namespaces in which pods run or that have volume claims.
    type: bool
    default: false
  force_conflicts:
    description:
      - Take over fields that somebody else (C(kubectl edit), another controller) has changed since. Without it, such a
        field is an error that names the field and its manager.
    type: bool
    default: false
  wait:
    description:
      - Wait until the namespaces that are deleted are gone.
    type: bool
    default: false
  wait_timeout:
    description:
      - Seconds to wait, also for a former namespace to go before it is made anew.
    type: int
    default: 600
requirements:
  - kubernetes >= 31.0.0
  - pydantic >= 2.7
  - PyYAML >= 6.0
seealso:
  - module: runwhere.gpuctl.gpuctl_quota_info
  - module: runwhere.gpuctl.gpuctl_job
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.concurrency
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Give two users their share
  runwhere.gpuctl.gpuctl_quota:
    definition:
      kind: quota
      quota:
        name: team-resource-quota
        description: Quotas of the team
      users:
        elon-musk:
          cpu: 10
          memory: 20Gi
          gpu: 4
        sam-altman:
          cpu: 10
          memory: 20Gi
          gpu: 4

- name: Bring all quotas of a directory up to date
  runwhere.gpuctl.gpuctl_quota:
    src: manifests/
  register: quotas

- name: Show where more is in use than allowed
  ansible.builtin.debug:
    msg: "{{ quotas.results | selectattr('over_quota') | map(attribute='namespace') }}"

- name: Take the limits away; the namespaces stay
  runwhere.gpuctl.gpuctl_quota:
    src: quota.yaml
    state: absent

- name: Remove a user who has left, with the namespace
  runwhere.gpuctl.gpuctl_quota:
    namespaces: [sam-altman]
    state: absent
    delete_namespaces: true
    wait: true
"""

RETURN = r"""
results:
  description:
    - One entry for each namespace of each quota, in the order of the manifests; then the namespaces that a quota no longer
      has. Also returned on failure, with what was done until then.
  returned: when the manifests are valid
  type: list
  elements: dict
  contains:
    name:
      description: Name of the quota; V(none) when a namespace was to lose its quota and has none.
      type: str
      sample: team-resource-quota
    namespace:
      description: The namespace.
      type: str
      sample: sam-altman
    description:
      description: What the manifest says of the quota; V(none) when it is deleted.
      type: str
      sample: Quotas of the team
    action:
      description: What was done, or in check mode would be - V(create), V(update), V(unchanged) or V(delete).
      type: str
      sample: update
    cpu:
      description: CPU cores in use and allowed; V(none) when they are not limited, or the quota is deleted.
      type: dict
      contains: &use
        used:
          description: What unfinished pods have requested; V(none) until Kubernetes has counted it.
          type: raw
          sample: "12"
        hard:
          description: What they may request together.
          type: raw
          sample: "10"
        percent:
          description: The one of the other. Of a limit of 0 everything is used.
          type: float
          sample: 120.0
    memory:
      description: The same for memory, in bytes with a unit.
      type: dict
      contains: *use
    gpu:
      description: The same for whole GPUs, as integers.
      type: dict
      contains: *use
    gpu_share:
      description: The same for memory of shared GPUs, as integers, in GiB.
      type: dict
      contains: *use
    pods:
      description: The same for the number of pods.
      type: dict
      contains: *use
    over_quota:
      description: What is used more than it may be. Nothing new starts until less is in use.
      type: list
      elements: dict
      contains:
        resource:
          description: One of V(cpu), V(memory), V(gpu), V(gpu_share) and V(pods).
          type: str
          sample: cpu
        used:
          description: What is in use.
          type: raw
          sample: "12"
        hard:
          description: What is allowed.
          type: raw
          sample: "10"
    other_quotas:
      description: ResourceQuotas in the namespace that somebody else made; they limit it as well.
      type: list
      elements: str
      sample: []
    reason:
      description: Why the namespace was kept though O(delete_namespaces) was set.
      type: str
      sample: gpuctl did not make it
    resources:
      description: The Kubernetes objects of the quota in the namespace.
      type: list
      elements: dict
      contains:
        api_version:
          description: Its API version.
          type: str
          sample: v1
        kind:
          description: Its kind.
          type: str
          sample: ResourceQuota
        name:
          description: Its name.
          type: str
          sample: team-resource-quota-sam-altman
        action:
          description: What was done to it; the same words as above.
          type: str
          sample: update
        changes:
          description: The paths of the fields that changed.
          type: list
          elements: str
          sample: ["spec.hard[requests.cpu]", "spec.hard[limits.cpu]"]
msg:
  description: How many namespaces there were, and what was done to their quotas.
  returned: success
  type: str
  sample: "2 namespaces: 1 unchanged, 1 update"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import run_module


def main() -> None:
    run_module(AnsibleModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
