#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_advice_info
short_description: Find out which jobs ask for more than they use, and what they should ask for
version_added: 1.2.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Compares what jobs ask for with what Prometheus has measured of their pods in a range of time, and says which value to write into the
    manifest, what that saves, and by which evidence. It changes nothing.
  - C(resources.gpu) is the largest number of GPUs, or partitions, that a pod has ever used. A GPU counts as used once its utilization has
    reached O(idle_below), or 1 GiB of its memory was in use, so that a model that waits for requests keeps its GPU.
  - C(resources.gpu-share) is the share of a GPU that is enough in place of C(resources.gpu=1), for jobs with one GPU per pod where a node of
    their pool offers shares. Its utilization has never been above 50 percent, and its highest memory and a quarter more, rounded up to
    what the pool shares by, are half of its memory at most, which a label of the nodes says. There is none for trainings of several
    pods, for a job that was killed for its memory, or where the use by a pod that is gone is not known.
  - C(resources.memory) is the highest peak of any pod, and a quarter more, rounded up. It is twice the peak where C(/dev/shm) is half of the
    memory, as it is in trainings with GPUs whose manifest has no C(storage.shm).
  - C(resources.cpu) is the highest average of five minutes of any pod, and a quarter more, rounded up.
  - C(service.replicas) is the number of replicas into which the peaks of all pods of a service with GPUs fit together, those of different times
    and of pods that are gone, with a quarter of memory and CPU to spare and GPUs that are busy for half of the time. It is two at least.
    There is none where an autoscaler sets the replicas, or for a service that did not run with as many for O(min_runtime). With
    it, there is no other advice on the job, because fewer replicas use more each.
  - There is advice on memory and CPU only if it saves a quarter of what the job asks for, and at least 1 GiB or one core.
  - What is not known is no reason for advice. There is none for a job that ran for less than O(min_runtime), for a pod of which less than 90
    percent of the time is known, or on the memory of a job that was killed for its memory (OOMKilled). RV(unknown) says why.
  - Peaks of pods that are gone count, as far as Prometheus has them. Only jobs that are there, created by this collection, are looked at.
  - Memory and CPU are those that the kubelets' cAdvisor reports as C(container_memory_working_set_bytes) and
    C(container_cpu_usage_seconds_total).
  - Of devices, exporters tell the pod by its name only. If Prometheus has series of several clusters, by their label C(cluster), there
    is no advice on GPUs.
  - Of a range of more than two days, it asks the peaks that the role P(runwhere.gpuctl.monitoring#role) records every quarter of an hour, if all of
    the range has been recorded, and raw samples otherwise. The advice is the same.
  - Sends the same number of requests whatever the number of jobs, except for pages of lists.
options:
  name:
    description: The only job to look at. By default, all are.
    type: str
  range:
    description:
      - How far to look back, such as V(24h), V(7d) or V(4w), or V(this-month) or V(last-month) in UTC. The default is V(7d) if
        O(start) is not set either. The maximum is 31 days.
    type: str
  min_runtime:
    description:
      - How long a job must have run in the range, such as V(2h) or V(3d). What a job needs only once a day, such as an evaluation, shows
        after a day. The minimum is ten minutes.
    type: str
    default: 6h
seealso:
  - module: runwhere.gpuctl.gpuctl_usage_info
  - module: runwhere.gpuctl.gpuctl_idle
  - module: runwhere.gpuctl.gpuctl_show
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.connection.all_namespaces
  - runwhere.gpuctl.prometheus
  - runwhere.gpuctl.accounts
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Find out which jobs have asked for more than they used in the last week
  runwhere.gpuctl.gpuctl_advice_info:
    all_namespaces: true
    prometheus_url: "{{ prometheus_url }}"
  register: advice

- name: Write what that would have saved to a page
  runwhere.gpuctl.gpuctl_show:
    result: "{{ advice }}"
    output: advice.html

- name: Look at the services of a team in August, with prices
  runwhere.gpuctl.gpuctl_advice_info:
    namespaces: [team-a]
    start: "2026-08-01"
    end: "2026-09-01"
    min_runtime: 7d
    prices:
      NVIDIA-H100-80GB-HBM3: 2.5
      default: 1.2
    currency: EUR
    prometheus_url: "{{ prometheus_url }}"
"""

RETURN = r"""
namespace:
  description: The namespace that O(all_namespaces=false) stands for; null if others were asked for.
  returned: success
  type: str
  sample: team-a
start:
  description: Beginning of the range.
  returned: success
  type: str
  sample: "2026-08-01T00:00:00Z"
end:
  description: End of the range.
  returned: success
  type: str
  sample: "2026-08-08T00:00:00Z"
currency:
  description: The value of O(currency).
  returned: success
  type: str
results:
  description: The advice, on GPUs first, and of that what saves most first. A job has a row for each field.
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
    image:
      description: Image of the job.
      type: str
    what:
      description: Field of the manifest, one of V(resources.gpu), V(resources.gpu-share), V(service.replicas), V(resources.memory) and
        V(resources.cpu).
      type: str
    asked:
      description: What the job asks for, of each pod, as the manifest has it. Where the advice is a share, the number of GPUs.
      type: raw
    advised:
      description: What it should ask for instead.
      type: raw
    used:
      description:
        - What was used in C(unit), by the pod with the highest peak. C(p50) and C(p95) were not exceeded in 50 and 95 percent of the
          time, and C(max) never. In long ranges, the first two are those of the peaks of half hours, or of samples 15 minutes
          apart. Of GPUs, the first two are those in use at the same time, and C(max) those that were ever used. Of replicas, C(max)
          is the sum of the peaks of their busiest GPUs, and the others are null. Of a share, C(max) is the part of the GPU or of its
          memory that was used at most.
      type: dict
    unit:
      description: Unit of C(used), one of V(GPU), V(GiB) and V(core).
      type: str
    coverage:
      description: Part of the time of the pods that is known, from 0 to 1.
      type: float
    measured_hours:
      description: Hours of pods that are known.
      type: float
    pods:
      description: Number of pods that ran in the range, and are there.
      type: int
    saved_hours:
      description: What the advice would have saved in the range, in hours of the C(unit), of the pods that are there.
      type: float
    saved_cost:
      description: Of GPUs, these hours times O(prices). V(none) without a price.
      type: float
    reason:
      description: What was measured, in a sentence.
      type: str
  sample:
    - name: sft
      namespace: team-a
      kind: training
      image: registry.example.com/llama-factory:v0.8.0
      what: resources.gpu
      asked: 8
      advised: 6
      used: { p50: 6.0, p95: 6.0, max: 6.0 }
      unit: GPU
      coverage: 0.998
      measured_hours: 167.7
      pods: 1
      saved_hours: 336.0
      saved_cost: 840.0
      reason: >-
        2 of its 8 GPUs were never used in 7 days: less than 5 % utilization, and less than 1 GiB of memory in use.
unknown:
  description: What nothing can be said about, with the C(name), C(namespace) and C(kind) of the job, the fields (C(what)), and the C(reason).
  returned: success
  type: list
  elements: dict
  sample:
    - name: eval
      namespace: team-a
      kind: training
      what: [resources.memory]
      reason: it was killed for its memory (OOMKilled), so its peak is not what it needs
unmeasured:
  description: The jobs of which Prometheus knows no pod, such as those that are paused or wait, as namespace/name.
  returned: success
  type: list
  elements: str
  sample: [team-b/later]
totals:
  description:
    - The number of C(jobs) that were looked at, of those with advice (C(advised_jobs)), and what all advice would have saved together, as
      C(saved_gpu_hours), C(saved_gib_hours), C(saved_core_hours) and C(saved_cost).
  returned: success
  type: dict
  sample: { jobs: 12, advised_jobs: 3, saved_gpu_hours: 336.0, saved_gib_hours: 36120.0, saved_core_hours: 0.0, saved_cost: 840.0 }
notes:
  description: What is not known of all jobs, and why.
  returned: success
  type: list
  elements: str
  sample: []
report:
  description: The name of the report that M(runwhere.gpuctl.gpuctl_show) makes of this result.
  returned: success
  type: str
  sample: advice
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advice.advice_info import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
