#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_fit_info
short_description: Find out whether jobs would run now, and what they wait for otherwise
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Tells for job manifests, before anything is submitted, whether they would run on the cluster as it is. Prints the answers as
    text, and returns them as data.
  - A job runs now, by preempting others, after other jobs end, after nodes return, once its quota allows it, or never. The
    numbers, the other jobs and the cheapest change that would make it run are part of the answer.
  - The module follows the rules of the scheduler of Kubernetes with its default configuration. These are requests with init
    containers, sidecars and overhead, the number of pods of a node, node selectors and affinity, taints, cordoned nodes, affinity
    and anti-affinity between pods, topology spread, host ports, volumes, claimed devices (Dynamic Resource Allocation), priorities,
    preemption and PodDisruptionBudgets. Quotas and LimitRanges of the namespace count as well, and what policies
    (M(runwhere.gpuctl.gpuctl_policy)) and Pod Security levels forbid.
  - The jobs of a task are judged together. Those of a higher priority come first, and each finds what the ones before it leave.
    Which of several jobs of one priority is scheduled first is not certain. Where they compete for the last room of nodes, or
    for what is left of a quota, RV(results[].reason) names the others.
  - A job that exists already is judged as if it were submitted again, without its current pods.
  - What cannot be judged makes the answer V(unknown), with the reason. This applies to other schedulers and queues, to what
    the account may not read, and to jobs whose answer depends on which of several nodes the scheduler chooses. Whether the images,
    secrets and paths of a job exist is not judged. Pods that are pending already are not counted, although the scheduler
    serves the more important of them first. Nor does it keep room for them, so that a job which runs now may delay them, see
    RV(results[].delays).
  - Changes nothing, and sends only requests that read objects. Their number does not depend on the number of jobs.
  - The level V(read) of M(runwhere.gpuctl.gpuctl_rbac) in the whole cluster is enough. With the level V(submit) alone, the pods
    of other namespaces are not known, so that the answer is V(unknown) unless it is V(never).
options:
  src:
    description:
      - Manifest files, directories or globs. Directories are searched recursively for C(*.yaml) and C(*.yml) files.
      - Manifests of other kinds are validated but otherwise ignored.
      - Exactly one of O(src) and O(definition) is required.
    type: list
    elements: path
  definition:
    description:
      - The manifests as a dictionary, a list of dictionaries, or YAML text with one or more documents.
      - Exactly one of O(src) and O(definition) is required.
    type: raw
  policy:
    description:
      - File with a manifest of kind C(policy), as for M(runwhere.gpuctl.gpuctl_job). Without this option, the environment variable
        E(GPUCTL_POLICY) names it.
    type: path
  fail_on:
    description: Fail the task if the verdict on one of the jobs is one of these, for example V(never). By default, the module only reports.
    type: list
    elements: str
    choices: [now, after_preemption, after_jobs, after_nodes, after_quota, never, unknown]
  show:
    description: Whether to print the answers. V(false) only returns them, for example for O(runwhere.gpuctl.gpuctl_show#module:clusters).
    type: bool
    default: true
seealso:
  - module: runwhere.gpuctl.gpuctl_job
    description: In check mode, it returns the same for the jobs that it would start.
  - module: runwhere.gpuctl.gpuctl_node_info
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.manifests.job_namespace
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Would these jobs run now?
  runwhere.gpuctl.gpuctl_fit_info:
    src: manifests/
    namespace: team-a
  register: fit

- name: Show the cheapest change for each job that would not
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.hint }}"
  loop: "{{ fit.results | selectattr('hint') }}"

- name: Fail before a job is submitted that can never run
  runwhere.gpuctl.gpuctl_fit_info:
    definition:
      kind: training
      job: {name: qwen2-7b-sft}
      environment:
        image: registry.example.com/llama-factory-deepspeed:v0.8.0
        command: [llamafactory-cli, train, /config/sft.yaml]
      resources: {gpu: 4, cpu: 32, memory: 128Gi}
    namespace: team-a
    fail_on: [never]
"""

RETURN = r"""
results:
  description: One entry for each job, in the order of the manifests.
  returned: success, and if O(fail_on) applies
  type: list
  elements: dict
  contains:
    name:
      description: Name of the job.
      type: str
    namespace:
      description: Namespace of the job.
      type: str
    kind:
      description: Kind of the job.
      type: str
    verdict:
      description:
        - V(now) means that all its pods find nodes at once.
        - V(after_preemption) means that it preempts other jobs, which have a lower priority.
        - V(after_jobs) means that it finds nodes once other jobs have ended, see RV(results[].after).
        - V(after_nodes) means that it needs nodes that are cordoned or not ready at the moment, or that an autoscaler may still
          add to its pool (C(new_nodes) of the pool). Each job is judged as if it were the only one that such nodes are added for.
        - V(after_quota) means that other pods of the namespace use the quota that it needs.
        - V(never) means that no node is large enough or meets its conditions, or that its quota is too small, whatever else runs.
        - V(unknown) means that it cannot be determined, see RV(results[].unknown).
      type: str
      sample: after_jobs
    reason:
      description: The verdict with its reason and its numbers, as sentences.
      type: str
      sample: >-
        It needs 8 GPUs on one node, but the most free on one of the 4 nodes of pool a100 is 4 (on gpu-node-2), 4 short. It runs
        after job team-b/pretrain (in 3 h at the latest) ends.
    hint:
      description:
        - The cheapest change that makes the job run. V(none) if it runs now, or if none is known.
        - For a job that runs now and delays others, the time limit with which it does not, see RV(results[].backfill_limit).
      type: str
      sample: "With resources.gpu 4 instead of 8, it runs now."
    pods_wanted:
      description: Number of pods of the job.
      type: int
    gpu:
      description: Number of whole GPUs of each pod.
      type: int
    nodes:
      description: Nodes that take its pods, as far as they find some. The scheduler may choose others that are as good.
      type: list
      elements: dict
      contains:
        node:
          description: Name of the node.
          type: str
        pods:
          description: Number of the job's pods.
          type: int
    possible_nodes:
      description: Number of nodes that would take one of its pods now. At most 200 are counted.
      type: int
    preempts:
      description:
        - Jobs of which pods would be preempted, with V(namespace) and V(name). Others with the same priority may be preempted instead.
        - A job that does not run preempts others too, if only some of its pods find room. Until the others do, these wait.
      type: list
      elements: dict
      sample: [{"namespace": "team-b", "name": "batch-7"}]
    after:
      description:
        - Jobs that have to end before it runs, with V(after_quota) those that use the quota. Those that end first are preferred, and
          services and notebooks, which do not end by themselves, come last.
      type: list
      elements: dict
      contains:
        namespace:
          description: Namespace of the other job.
          type: str
        name:
          description: Name of the other job, or of a pod that belongs to none.
          type: str
        ends_at:
          description: When it is expected to end. V(none) if that is not known.
          type: str
        basis:
          description:
            - V(deadline) if Kubernetes ends it by then at the latest. V(sweep) if that is how long the finished trainings of its
              sweep took, V(last_runs) if that is how long its earlier runs took that succeeded, of
              which the last five count.
            - V(time_limit) of a notebook or service that M(runwhere.gpuctl.gpuctl_expire) pauses at its time limit.
          type: str
    runs_at:
      description: When all of RV(results[].after) are expected to have ended. V(none) if the end of one is not known, or overdue.
      type: str
      sample: "2026-03-01T18:40:00Z"
    delays:
      description:
        - Jobs that wait in the cluster and would run at a known time, because others have ended by then, but later or at an unknown
          time if this job runs now and has not ended by then. Kubernetes keeps no room for pods that wait. Only jobs that run now,
          and have no pods yet, have such an entry. Each job is judged as if it were submitted alone.
        - A job is only named if it is delayed on whichever nodes the scheduler puts this one, and if it would not simply preempt it.
          Its start has to be as certain as RV(results[].runs_at). Not named are jobs in pools that grow, and jobs with volumes of a
          namespace of which no job is judged that has volumes, claimed devices, another scheduler or a spread that must be kept.
        - Of the jobs that wait for nodes where jobs of the task may go, the five that the scheduler serves first are looked at, and of
          the jobs of the task, the first 20 that differ. Jobs that wait further back are not considered at all.
      type: list
      elements: dict
      version_added: 1.2.0
      contains:
        namespace:
          description: Namespace of the other job.
          type: str
        name:
          description: Name of the other job.
          type: str
        runs_at:
          description: When it is expected to run without this job. The first one comes first.
          type: str
          sample: "2026-03-01T18:40:00Z"
    backfill_limit:
      description:
        - The longest C(job.time_limit) with which the job ends before the first of RV(results[].delays) would run, with five minutes to
          spare, in whole hours or, below three hours, quarters of an hour. V(none) if it delays nothing, or if that would be below 15 minutes.
      type: str
      version_added: 1.2.0
      sample: 4h
    forbidden:
      description:
        - What policies and the Pod Security level of the namespace do not allow of the job, each with its place in the manifest. The
          verdict is V(never) then.
      type: list
      elements: str
      sample: ["train.yaml, resources.pool: policy company (gpu-admins@example.com): team vision may not use pool research. Use pool
        training-pool."]
    quotas:
      description: What quotas lack, for each resource with the amounts V(requested), V(used), V(hard) and V(short).
      type: list
      elements: dict
      sample: [{"quota": "team-a", "resource": "requests.nvidia.com/gpu", "requested": "8", "used": "12", "hard": "16", "short": "4"}]
    refusals:
      description: How many nodes do not take the next pod, by reason. A lack of resources is given by their names.
      type: dict
      sample: {"nvidia.com/gpu": 3, "taint": 1}
    changes:
      description: Changes that make the job run, the cheapest first, each by itself. Limits of quotas are among them.
      type: list
      elements: dict
      contains:
        fields:
          description: Fields of the manifest that change together, or the limit of a quota.
          type: list
          elements: dict
          contains:
            field:
              description: Field of the manifest, or limit of a quota.
              type: str
            before:
              description: The value now.
              type: str
            after:
              description: The value with which it runs. V(none) if the field is to be left out.
              type: str
        verdict:
          description:
            - V(now) or V(after_preemption). If neither can be had, and the job never runs otherwise, V(after_jobs), or V(unknown) if it
              may also run before that.
          type: str
    gpu_hours:
      description:
        - Budget of the namespace, as RV(runwhere.gpuctl.gpuctl_quota_info#module:results[].gpu_hours). C(cost) are the GPU-hours that the job takes
          until its time limit, V(none) without one, and C(cost_per_day) those of a day. Each of C(accelerators) has both as well. V(none) without a
          budget, and for a job without whole GPUs.
      type: dict
    dispatched:
      description:
        - Whether Kueue chooses another cluster for the job, because its pool has the queue V(multikueue). The verdict is then V(unknown), and
          the nodes of this cluster do not matter.
      returned: if it is so
      type: bool
      version_added: 1.2.0
    unknown:
      description: What cannot be judged. Empty unless the verdict is V(unknown), or V(never) in spite of that.
      type: list
      elements: str
not_judged:
  description:
    - Admission policies and webhooks of others that objects of the jobs, or their pods, go through. They may refuse a job whatever
      its verdict, or change it. What policies of M(runwhere.gpuctl.gpuctl_policy) forbid is judged, see RV(results[].forbidden).
    - Policies without a binding that denies, and what the rules and selectors leave out, are not among them.
  returned: success, and if O(fail_on) applies
  type: list
  elements: str
  sample: ["ValidatingAdmissionPolicy image-registries", "validating webhook validation.gatekeeper.sh (gatekeeper)"]
report:
  description: The name of the report that M(runwhere.gpuctl.gpuctl_show) makes of this result.
  returned: success
  type: str
  sample: fit
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_info import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
