#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_plan_info
short_description: Report what a directory of manifests would change in a cluster, and what that means
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Plans all pools, quotas, policies, labels of nodes and jobs of a directory, as the playbook C(runwhere.gpuctl.provision)
    would apply them, and writes nothing. The jobs are planned in the pools, namespaces and quotas that the directory declares, also
    where these do not exist yet.
  - Tells which jobs are created, changed in place or restarted, how many of their pods end, how many hours of work that loses,
    which GPUs become free and which are taken, which nodes change their pool with which jobs on them, and the GPUs and quotas of each
    pool and team before and after.
  - What cannot be applied is in RV(problems). It goes on then, so that all problems are found at once.
  - With O(plan), it finds out whether a plan that was saved before would still be the same, and fails otherwise. What matters are the
    manifests, the options, and the values that each change begins from. A status that changes does not matter. Of a plan that was
    applied before, as a whole or until it was interrupted, the steps that are done are in RV(steps_done), and only the others are
    compared.
  - Changes nothing. It sends lists and dry runs, which need the permissions of the level V(administer) of
    M(runwhere.gpuctl.gpuctl_rbac). With less, what the server could not validate is among RV(notes).
options:
  force:
    description: Whether pools take nodes from other pools, and labels of nodes replace other values.
    type: bool
    default: false
  drain:
    description: Whether jobs on nodes whose GPUs are divided otherwise are paused meanwhile.
    type: bool
    default: false
  rerun:
    description: When a training that has ended runs again, as for M(runwhere.gpuctl.gpuctl_job).
    type: str
    choices: [never, on_change, on_failure, always]
    default: on_change
  upgrade:
    description: Whether jobs get what only this version of the collection builds otherwise.
    type: bool
    default: false
  on_immutable:
    description: What happens to a job that cannot be changed in place.
    type: str
    choices: [recreate, fail]
    default: recreate
  recreate:
    description:
      - Whether jobs that have run may be deleted and created again. Unlike that of M(runwhere.gpuctl.gpuctl_job), the default is
        V(false), as in the playbook. Such a job is among RV(problems) then.
    type: bool
    default: false
  strict:
    description: Whether what is probably a mistake in a manifest is an error.
    type: bool
    default: false
  takeover:
    description: Whether jobs that another user submitted may be changed.
    type: bool
    default: false
  force_conflicts:
    description: Whether fields that another client has changed are overwritten.
    type: bool
    default: false
  wait_for_nodes:
    description: Whether nodes may be added, so that jobs that find no room on those that there are can run all the same.
    type: bool
    default: false
  plan:
    description:
      - A plan to compare with, as RV(plan) returns it, or the path of a file with the result of this module as JSON.
      - If E(GPUCTL_PLAN_KEY) is set, RV(plan) is signed with this key, of at least 16 characters, and a plan without its signature is
        refused. Without a key, a plan is as trusted as those who can write it.
    type: raw
  permissions:
    description:
      - With V(true), it asks the API server whether the account may write all that changes, and fails if not. The message names what is
        missing and who grants it. In check mode, that is a warning. The question itself needs no permission.
      - Without O(plan), nothing else is done then, and RV(msg) is all that is returned.
    type: bool
    default: false
seealso:
  - module: runwhere.gpuctl.gpuctl_fit_info
    description: Whether jobs would run.
  - ref: ansible_collections.runwhere.gpuctl.docsite.guide_plan
    description: Plans.
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.concurrency
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.source.compared
  - runwhere.gpuctl.source.cluster
  - runwhere.gpuctl.source.adopt
  - runwhere.gpuctl.manifests.directory
  - runwhere.gpuctl.manifests.job_namespace
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Plan what a directory would change
  runwhere.gpuctl.gpuctl_plan_info:
    src: cluster/
  register: planned

- name: Show it, and write it as a page
  runwhere.gpuctl.gpuctl_show:
    result: "{{ planned }}"
    output: plan.html

- name: Fail if the cluster or the manifests have changed since
  runwhere.gpuctl.gpuctl_plan_info:
    src: cluster/
    plan: "{{ planned.plan }}"
"""

RETURN = r"""
results:
  description: One entry for each manifest that changes something, or cannot be applied, and for what follows from manifests.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description:
        - Kind of the manifest. V(node) stands for labels of a node, V(queue) for the queues of a pool, V(access) for what
          accounts get in new namespaces, V(priority) for PriorityClasses.
      type: str
    namespace:
      description: Namespace, if it has one.
      type: str
    name:
      description: Name of the pool, quota, policy, node or job.
      type: str
    action:
      description: What is done, V(create), V(update), V(recreate) or V(delete); V(unchanged) for what cannot be applied.
      type: str
    restarts:
      description: Whether pods of the job end, and others take their place.
      type: bool
    pods_before:
      description: Number of pods of the job that have not ended.
      type: int
    pods_after:
      description: The same after the change.
      type: int
    pods_ending:
      description: Number of pods that end.
      type: int
    hours_lost:
      description: For how many hours the longest of these has run, for trainings and notebooks.
      type: float
    gpu_hours_lost:
      description: GPU-hours of all of these, for trainings and notebooks.
      type: float
    gpus_before:
      description: GPUs that the pods of the job hold.
      type: int
    gpus_after:
      description: GPUs that they hold after the change, as far as the new ones find room.
      type: int
    gpus_wanted:
      description: GPUs that they request after the change.
      type: int
    stops:
      description: What a recreation stops, as a sentence.
      type: str
    resources:
      description: The objects that change, each with V(kind), V(name), V(action) and the paths of its V(changes).
      type: list
      elements: dict
    verdict:
      description: Whether the new pods run, as for M(runwhere.gpuctl.gpuctl_fit_info).
      type: str
    reason:
      description: Why they do not run at once, or that other jobs may be the first to get their quota.
      type: str
    hint:
      description: The cheapest change that helps.
      type: str
    preempts:
      description: The jobs that they preempt. Others with the same priority may be preempted instead.
      type: list
      elements: str
    note:
      description:
        - Why a training does not run again, or keeps an outdated spec.
        - Which jobs of the plan preempt it. The numbers of its row are those of its own change, without that.
      type: str
    problem:
      description: Why the manifest cannot be applied.
      type: str
unchanged:
  description: Number of manifests that change nothing.
  returned: success
  type: int
source:
  description: The source of the manifests. V(none) without one.
  returned: success
  type: str
unmarked:
  description: Number of manifests that only change because their objects do not record the source yet. They are not in RV(results).
  returned: success
  type: int
problems:
  description: All that would make the playbook fail, each with V(kind), V(namespace), V(name) and V(problem).
  returned: success
  type: list
  elements: dict
notes:
  description: Warnings, such as of jobs that would never run.
  returned: success
  type: list
  elements: str
not_declared:
  description: What O(source) has declared and O(src) does not have any more. It stays.
  returned: success
  type: list
  elements: dict
  sample: [{kind: pool, namespace: null, name: former-pool}]
pools:
  description: Nodes, GPUs and GPUs in use of each pool, before and after.
  returned: success
  type: list
  elements: dict
  sample:
    - {pool: training-pool, nodes_before: 4, nodes_after: 5, gpus_before: 32, gpus_after: 40, used_before: 24, used_after: 30}
nodes:
  description: Pool and GPUs in use of each node, before and after. RV(nodes[].jobs) are those with pods on a node that changes its pool.
  returned: success
  type: list
  elements: dict
  contains:
    jobs:
      description: The jobs with pods on the node.
      type: list
      elements: dict
  sample:
    - {node: node-5, pool_before: default, pool_after: training-pool, moves: true, gpus: 8, used_before: 0, used_after: 6, jobs: []}
teams:
  description: GPUs that the pods of each namespace hold, before and after.
  returned: success
  type: list
  elements: dict
  sample: [{namespace: team-a, gpus_before: 8, gpus_after: 14}]
quotas:
  description: The limits of quotas and what is used of them, before and after. V(none) is no limit, and a usage that is not known.
  returned: success
  type: list
  elements: dict
  sample:
    - {namespace: team-a, quota: teams, resource: gpu, hard_before: 16, hard_after: 24, used_before: 8, used_after: 14}
totals:
  description: The sums of the results.
  returned: success
  type: dict
  sample:
    restarts: 1
    pods_ending: 2
    hours_lost: 3.5
    gpu_hours_lost: 56.0
    gpus_freed: 16
    gpus_taken: 22
    jobs_preempted: 1
    nodes_moved: 1
plan:
  description: What the plan was made from. It has digests of contents, not the contents.
  returned: success
  type: dict
steps_done:
  description: The steps of O(plan) that are done already. Empty without O(plan).
  returned: success
  type: list
  elements: str
  sample: [Job team-a/qwen2-7b-sft, Service team-a/svc-qwen2-7b-sft]
made_at:
  description: When the plan was made.
  returned: success
  type: str
src:
  description: The option O(src).
  returned: success
  type: list
  elements: str
msg:
  description: A summary, or the error.
  returned: always
  type: str
  sample: "12 changes: 3 to create, 9 to update in place; 2 jobs restart."
report:
  description: The name of the report that M(runwhere.gpuctl.gpuctl_show) makes of this result.
  returned: success
  type: str
  sample: plan
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.plan.plan_info import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
