#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_job_info
short_description: Get the status of jobs, and why some are not running
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Lists jobs with their status. For a job that is not running, RV(results[].reason) explains the cause in one sentence, based
    on pod conditions, events and the free resources of the nodes.
  - Also lists jobs created by the former gpuctl command line, see RV(results[].managed).
  - Sends a fixed number of paginated list requests for each namespace in O(namespaces), or for all namespaces at once.
  - If nothing is found, the task succeeds with empty RV(results), as scripts rely on. If O(name), O(pool) or a namespace of
    O(namespaces) does not exist, as far as the account may know, a warning says so, with the nearest name.
  - Requires permission to list jobs, deployments and statefulsets, and with O(pods) or O(details) also pods. Permissions for
    pods, events, services, autoscalers and nodes are otherwise optional. Without them, reasons and URLs can be incomplete.
options:
  name:
    description: Name of a job, of one of its pods, or of a sweep. By default, all jobs are returned.
    type: str
  kind:
    description: Return only jobs of this kind.
    type: str
    choices: [training, inference, notebook, compute]
  pool:
    description: Return only jobs of this pool. V(default) selects jobs without a pool.
    type: str
  status:
    description:
      - Return only jobs with this status. One of V(Pending), V(Running), V(Partially Running), V(Paused), V(Succeeded),
        V(Failed), V(TimedOut) and V(Unknown), case-insensitive.
    type: str
  namespaces:
    description:
      - Return only jobs in these namespaces. The default is the one in which M(runwhere.gpuctl.gpuctl_job) would act, see
        O(all_namespaces).
      - With O(all_namespaces), an account that may not list the jobs of the whole cluster gets the default, with a warning.
    type: list
    elements: str
    aliases: [namespace]
  sweep:
    description: Return only the trainings of this sweep, which are those of one C(matrix).
    type: str
    version_added: 1.2.0
  label_selectors:
    description: Additional Kubernetes label selectors. A job must match all of them.
    type: list
    elements: str
  must_exist:
    description:
      - Whether to fail, instead of a warning, if O(name), O(pool) or a namespace of O(namespaces) does not exist. RV(not_found) says
        what.
    type: bool
    default: false
    version_added: 1.1.0
  pods:
    description: Whether to return RV(pods).
    type: bool
    default: false
  details:
    description:
      - Whether to return the pods and the recent warning events of each job, and how it uses its accelerators now if O(prometheus_url) or
        O(prometheus_service), or their variable, is set.
    type: bool
    default: false
  full:
    description: Whether to return the Kubernetes object of each workload, without C(managedFields).
    type: bool
    default: false
  unmanaged:
    description: Whether to return RV(unmanaged). Filters other than O(namespaces) do not apply to it.
    type: bool
    default: false
    version_added: 1.2.0
  show_token:
    description:
      - Whether to add the Jupyter token of a notebook to its RV(results[].access_urls).
      - The token is read from the command line (C(--IdentityProvider.token), C(--ServerApp.token), C(--NotebookApp.token)) or
        from E(JUPYTER_TOKEN). If a Secret contains it, permission to get the Secret is required. Otherwise, the module prints a
        warning.
      - The task result then contains credentials. Set C(no_log) on the task to keep them out of logs and callbacks.
    type: bool
    default: false
seealso:
  - module: runwhere.gpuctl.gpuctl_job
  - module: runwhere.gpuctl.gpuctl_pool_info
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.connection.all_namespaces
  - runwhere.gpuctl.prometheus
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Get the jobs of a team
  runwhere.gpuctl.gpuctl_job_info:
    namespaces: [team-a]
  register: jobs

- name: Show their status
  ansible.builtin.debug:
    msg: "{{ (jobs.results | runwhere.gpuctl.table(columns=['name', 'kind', 'status', 'ready', 'reason'])).splitlines() }}"

- name: Get the details of one job
  runwhere.gpuctl.gpuctl_job_info:
    name: qwen2-7b-sft
    namespaces: [team-a]
    details: true

- name: Get the URLs of a notebook, including its token
  runwhere.gpuctl.gpuctl_job_info:
    name: data-prep-notebook
    namespaces: [team-a]
    show_token: true
  register: notebook
  no_log: true

- name: Get the pods of all pending trainings
  runwhere.gpuctl.gpuctl_job_info:
    all_namespaces: true
    kind: training
    status: pending
    pods: true
"""

RETURN = r"""
namespace:
  description: The namespace that O(all_namespaces=false) stands for; null if others were asked for.
  returned: success
  type: str
  sample: team-a
  version_added: 1.2.0
not_found:
  description: A sentence for each name that does not exist.
  returned: failure, with O(must_exist)
  type: list
  elements: str
  version_added: 1.1.0
results:
  description: One entry for each job, sorted by namespace and name.
  returned: success
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
    status:
      description:
        - One of V(Pending), V(Running), V(Partially Running), V(Paused), V(Succeeded), V(Failed) and
          V(TimedOut).
        - V(Pending) is also a training that waits in a queue. RV(results[].reason) says in which, since when, and for what.
        - V(Partially Running) is a training, or a service, of which some pods are ready and others are not.
        - V(TimedOut) is a training that Kubernetes has stopped at its C(job.time_limit).
        - V(Unknown) is a workload that cannot be read. RV(results[].reason) says what is malformed, and what to do. All other
          values are V(none) then. It does not affect other jobs.
      type: str
    reason:
      description:
        - Why the job is not running, or not with all its pods. V(none) if it is running or has succeeded, or if no cause was found.
        - For a job that is running, why its autoscaler does not work.
      type: str
      sample: >-
        pod qwen2-7b-sft-zlflg cannot be scheduled: it needs 8 GPUs on one node, but the most free on one of the 2 nodes of pool
        training-pool is 4 GPUs (on node-1), 4 GPUs short. Wait for other jobs to finish, delete one, or raise
        job.priority.
    autoscaler:
      description:
        - What scales the service. C(min_replicas) and C(max_replicas) are its limits, C(current_replicas) and C(desired_replicas) what it
          has counted and wants. Each of C(metrics) has its C(metric), C(type), C(target) and, once it was measured, C(current).
        - C(autoscaling_metric) is the name in manifests, such as C(gpu_utilization) for what exporters call C(DCGM_FI_DEV_GPU_UTIL).
        - C(limited) says if it would have more replicas without its maximum. C(problem) is why it cannot scale, and what to do about it.
      type: dict
      returned: for services with C(autoscaling)
      version_added: 1.1.0
      sample:
        min_replicas: 1
        max_replicas: 8
        current_replicas: 3
        desired_replicas: 4
        metrics: [{metric: DCGM_FI_DEV_GPU_UTIL, type: Pods, target: "80", current: "91", autoscaling_metric: gpu_utilization}]
        last_scaled_at: "2026-11-22T12:00:00Z"
        limited: null
        problem: null
    ready:
      description: Number of ready pods and number of desired pods.
      type: str
    pods_wanted:
      description: Number of desired pods.
      type: int
    sweep:
      description: Name of the sweep, for a training of a matrix.
      type: str
    pool:
      description: Pool of the job.
      type: str
    priority:
      description: Priority of the job.
      type: str
    gpu:
      description: Number of GPUs of each pod.
      type: int
    gpu_type:
      description: Requested GPU type.
      type: str
    gpu_share:
      description: Requested memory of a shared GPU, if the job uses one.
      type: str
    accelerators:
      description:
        - What each pod requests of accelerators. RV(results[].gpu) is the number of whole devices.
      type: list
      elements: dict
      version_added: 1.1.0
      contains:
        accelerator:
          description: Name of the accelerator's profile.
          type: str
        resource:
          description: Extended resource.
          type: str
        counts:
          description:
            - What its amounts are. V(devices), V(partitions), V(shares), V(memory) and V(cores) of shared devices, or V(broken) while
              the configuration of the node's devices is invalid.
          type: str
        partition:
          description: Name of the partition. V(none) for others.
          type: str
        unit:
          description: Unit of memory, such as V(Gi). V(none) for others; cores are in percent of a device.
          type: str
        amount:
          description: Amount that each pod requests.
          type: int
    cpu:
      description: CPU request of each pod.
      type: str
      sample: "32"
    memory:
      description: Memory request of each pod.
      type: str
      sample: 128Gi
    image:
      description: Container image.
      type: str
    description:
      description: Description in the manifest.
      type: str
    submitted_by:
      description:
        - Who submitted the job, as its annotation C(runwhere.ai/submitted-by) says. V(none) for jobs of version 1.0.0.
        - An account that can write the workload can change the annotation.
      type: str
      sample: Kubernetes user anna@example.com (anna on login-1)
      version_added: 1.1.0
    managed:
      description: Whether this collection manages the job. V(false) for jobs of the former gpuctl command line.
      type: bool
    workload:
      description: Kind and name of the Kubernetes workload.
      type: str
      sample: Job/qwen2-7b-sft
    copy_of_kueue:
      description: Whether MultiKueue has copied the job from another cluster, which has the job itself.
      type: bool
      version_added: 1.2.0
    created_at:
      description: Creation time.
      type: str
      sample: "2026-01-02T03:04:05Z"
    started_at:
      description: Start time of a training.
      type: str
    finished_at:
      description: Time when a training succeeded, failed or was stopped at its time limit.
      type: str
    ends_at:
      description:
        - When a training ends at the latest, by its time limit and with the time that its pods have for a last checkpoint. Of a notebook or
          service, when M(runwhere.gpuctl.gpuctl_expire) pauses it, by what the job records. A maximum that its pool was given later is not
          among that. V(none) without a limit, and while it is paused or has not started.
      type: str
      version_added: 1.2.0
    time_left:
      description: Time until then.
      type: str
      sample: 5h
      version_added: 1.2.0
    age:
      description: Time since creation.
      type: str
      sample: 5h
    access_urls:
      description: URLs of the services of the job, for the load balancer, the node port and the cluster-internal name.
      type: list
      elements: str
      sample: ["http://10.0.0.11:30088", "http://svc-data-prep-notebook.team-a.svc:8888"]
    pods:
      description: Pods of the job, as in RV(pods).
      returned: with O(details=true)
      type: list
      elements: dict
    events:
      description: Recent warning events of the job and its pods, with object, reason, message, count and age.
      returned: with O(details=true)
      type: list
      elements: dict
    metrics:
      description:
        - How the job uses its accelerators now. C(utilization) is the average of its pods, as a ratio, C(power) their sum in watts, and
          C(memory) (bytes) and C(temperature) (degrees Celsius) are the highest. V(none) if nothing is known, or Prometheus was not asked.
        - See M(runwhere.gpuctl.gpuctl_job_metrics_info) for curves.
      returned: with O(details=true)
      type: dict
      sample: {utilization: 0.91, memory: 71303168000.0, power: 2412.0, temperature: 71.0}
    object:
      description: Kubernetes object of the workload. Secrets are masked.
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
    name:
      description: Name of the job.
      type: str
    namespace:
      description: Namespace of the pod.
      type: str
    kind:
      description: Kind of the job.
      type: str
    status:
      description: Phase of the pod, or the reason of its container if that is more specific.
      type: str
      sample: ImagePullBackOff
    ready:
      description: Number of ready containers and number of containers.
      type: str
      sample: 1/1
    restarts:
      description: Number of container restarts.
      type: int
    image:
      description: Image of its main container, which during an update is not that of the job in every pod.
      type: str
    started_at:
      description: Time when the last of the running containers has started. V(none) if no container runs.
      type: str
    node:
      description: Node that the pod is assigned to.
      type: str
    ip:
      description: IP address of the pod.
      type: str
    age:
      description: Time since creation.
      type: str
unmanaged:
  description:
    - The Deployments, StatefulSets and Jobs of Kubernetes that are no jobs of this collection, with C(kind), C(namespace), C(name) and
      C(status), without those in namespaces of the system.
  returned: with O(unmanaged=true)
  type: list
  elements: dict
  version_added: 1.2.0
  sample: [{kind: Deployment, namespace: team-a, name: web, status: Running}]
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs.job_info import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
