#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_job_info
short_description: Show jobs, where they stand, and why some do not run
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Lists the jobs with their status. For a job that does not run, says the reason in one sentence - what is short, where,
    and what would help - from the conditions of its pods, from events, and from what the nodes have free.
  - Sends a fixed number of list requests, in pages, for each of O(namespaces), or for all namespaces at once.
  - Shows the jobs of the former gpuctl command line as well, which use GPUs like any other; RV(results[].managed) tells them
    apart. This collection never changes them.
  - Needs the right to list jobs, deployments and statefulsets, and for O(pods) and O(details) pods. Where pods, events,
    services or nodes may not be looked at, reasons and URLs are left out as far as they depend on them.
options:
  name:
    description: Name of a job. Without it, all of them.
    type: str
  kind:
    description: Only jobs of this kind.
    type: str
    choices: [training, inference, notebook, compute]
  pool:
    description: Only jobs of this pool. V(default) stands for jobs that name none.
    type: str
  status:
    description:
      - Only jobs in this state - V(Pending), V(Running), V(Partially Running), V(Paused), V(Succeeded) or V(Failed), in
        whatever case.
    type: str
  namespaces:
    description: Only jobs in these namespaces. Without it, in all; that needs the right to list jobs everywhere.
    type: list
    elements: str
    aliases: [namespace]
  label_selectors:
    description: More label selectors in the syntax of Kubernetes, all of which must hold.
    type: list
    elements: str
  pods:
    description: Return RV(pods) too, one entry for each pod of the jobs.
    type: bool
    default: false
  details:
    description: Add the pods and the recent warnings of each job to its entry.
    type: bool
    default: false
  full:
    description: Return the Kubernetes object of each job's workload as well, without C(managedFields).
    type: bool
    default: false
  show_token:
    description:
      - Make links of the RV(results[].access_urls) of notebooks that sign in, with the token of their Jupyter.
      - The token is read from the notebook's command line (C(--IdentityProvider.token), C(--ServerApp.token),
        C(--NotebookApp.token)) or its variable E(JUPYTER_TOKEN); where that comes from a Secret, the right to get the
        Secret is needed, and a warning says when it is missing.
      - The links are in the result of the task, which Ansible prints with C(-v) and hands to callbacks. Set C(no_log) on
        the task where others read along.
    type: bool
    default: false
requirements:
  - kubernetes >= 31.0.0
  - pydantic >= 2.7
  - PyYAML >= 6.0
seealso:
  - module: runwhere.gpuctl.gpuctl_job
  - module: runwhere.gpuctl.gpuctl_pool_info
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Look at the jobs of a team
  runwhere.gpuctl.gpuctl_job_info:
    namespaces: [team-a]
  register: jobs

- name: Show where they stand
  ansible.builtin.debug:
    msg: "{{ (jobs.results | runwhere.gpuctl.table(columns=['name', 'kind', 'status', 'ready', 'reason'])).splitlines() }}"

- name: Look at everything about one job
  runwhere.gpuctl.gpuctl_job_info:
    name: qwen2-7b-sft
    namespaces: [team-a]
    details: true

- name: Look where a notebook answers, and sign in
  runwhere.gpuctl.gpuctl_job_info:
    name: data-prep-notebook
    namespaces: [team-a]
    show_token: true
  register: notebook
  no_log: true

- name: List the pods of all pending trainings
  runwhere.gpuctl.gpuctl_job_info:
    kind: training
    status: pending
    pods: true
"""

RETURN = r"""
results:
  description: One entry for each job, by namespace and name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the job.
      type: str
      sample: qwen2-7b-sft
    namespace:
      description: Its namespace.
      type: str
      sample: team-a
    kind:
      description: Its kind.
      type: str
      sample: training
    status:
      description: V(Pending), V(Running), V(Partially Running), V(Paused), V(Succeeded) or V(Failed).
      type: str
      sample: Pending
    reason:
      description: Why it does not run, in one sentence; V(none) when it runs or nothing stands in the way.
      type: str
      sample: >-
        pod qwen2-7b-sft-zlflg cannot be placed: it asks for 8 GPUs on one node, and the most that is free on one of the 2 nodes
        of pool training-pool is 4 GPUs (on node-1), 4 GPUs short; wait for other jobs to end, delete one, or raise
        job.priority.
    ready:
      description: Pods that are ready, of those wanted.
      type: str
      sample: 1/2
    pool:
      description: Its pool.
      type: str
      sample: training-pool
    priority:
      description: Its priority.
      type: str
      sample: high
    gpu:
      description: GPUs of each of its pods.
      type: int
      sample: 4
    gpu_type:
      description: The type of GPU that it asks for.
      type: str
      sample: A100-100G
    gpu_share:
      description: Memory of a shared GPU that it asks for instead of whole ones.
      type: str
      sample: 4Gi
    cpu:
      description: CPU of each of its pods.
      type: str
      sample: "32"
    memory:
      description: Memory of each of its pods.
      type: str
      sample: 128Gi
    image:
      description: Its image.
      type: str
    description:
      description: What its manifest says of it.
      type: str
    managed:
      description: V(false) for a job of the former gpuctl command line, which this collection leaves alone.
      type: bool
      sample: true
    workload:
      description: Kind and name of the Kubernetes object that runs it.
      type: str
      sample: Job/qwen2-7b-sft
    created_at:
      description: When it was created.
      type: str
      sample: "2026-01-02T03:04:05Z"
    started_at:
      description: When a training started.
      type: str
    finished_at:
      description: When a training succeeded or failed.
      type: str
    age:
      description: Time since it was created.
      type: str
      sample: 5h
    access_urls:
      description:
        - Where its services answer - load balancer, node port, name inside the cluster. With O(show_token=true) those of a
          notebook carry its token.
      type: list
      elements: str
      sample: ["http://10.0.0.11:30088", "http://svc-data-prep-notebook.team-a.svc:8888"]
    pods:
      description: Its pods, as in RV(pods).
      returned: with O(details=true)
      type: list
      elements: dict
    events:
      description: Recent warnings about it and its pods - object, reason, message, count, age.
      returned: with O(details=true)
      type: list
      elements: dict
    object:
      description: The Kubernetes object of its workload, secrets masked.
      returned: with O(full=true)
      type: dict
pods:
  description: One entry for each pod of the jobs.
  returned: with O(pods=true)
  type: list
  elements: dict
  contains:
    job_id:
      description: Name of the pod.
      type: str
      sample: qwen2-7b-sft-zlflg
    name:
      description: Name of the job.
      type: str
    namespace:
      description: Its namespace.
      type: str
    kind:
      description: Kind of the job.
      type: str
    status:
      description: Phase of the pod, or the reason of its container where that says more.
      type: str
      sample: ImagePullBackOff
    ready:
      description: Containers that are ready, of all.
      type: str
      sample: 1/1
    restarts:
      description: How often its containers were restarted.
      type: int
    node:
      description: The node that it is on.
      type: str
    ip:
      description: Its address.
      type: str
    age:
      description: Time since it was created.
      type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_info import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import run_module


def main() -> None:
    run_module(AnsibleModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
