#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_job_metrics_info
short_description: Read the utilization, memory, power, network and throughput of a job from Prometheus
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Returns curves of a job over a range of time, with their averages and peaks, and says how much of the range they cover.
  - Works with the exporters of all vendors that the profiles of accelerators know, whatever labels Prometheus gives their series, and with the
    recorded series of the role P(runwhere.gpuctl.monitoring#role) where they exist. Every metric has one unit.
  - A job that was created again under the same name is another job. The range is limited to the life of the one that exists.
    Of a job that does not exist any more, Prometheus may still know the pods.
  - Fails if there is no metric at all, and says why. What is missing of several metrics is in RV(missing).
  - Requires permission to list jobs, deployments, statefulsets and pods in the namespace, and without O(prometheus_url) to pass requests on
    to the service of Prometheus.
options:
  name:
    description: Name of the job, or of one of its pods.
    type: str
    required: true
  namespace:
    description: Namespace of the job. The default is that of E(GPUCTL_NAMESPACE), else that of the kubeconfig's context, else V(default).
    type: str
  start:
    description:
      - Start of the range, as a time with its zone (V(2026-01-31T08:00:00Z)), a date in UTC or a time before now (V(-2h), V(-1d12h)).
      - The default is the last day of the range, or what the job has lived of that.
    type: str
  end:
    description: End of the range, as O(start). The default is now, or the end of the job.
    type: str
  step:
    description: Time between two points, such as V(30s) or V(5m). With V(auto), a curve has some 120 points.
    type: str
    default: auto
  metrics:
    description:
      - Metrics to read. By default all, and what a job does not have is only in RV(missing). Of those that are named, the task warns.
      - V(utilization) and V(tensor_activity) are ratios from 0 to 1, V(memory) is in bytes, V(power) in watts, V(temperature) in
        degrees Celsius, and V(network) in bytes per second, received and transmitted. What goes over RDMA is not in V(network).
      - V(throughput) is O(throughput_query), or the tokens per second of vLLM and SGLang.
    type: list
    elements: str
    choices: [utilization, memory, tensor_activity, power, temperature, network, throughput]
  aggregate:
    description:
      - Whether to return a curve of the whole job, or one for each of its pods or GPUs.
      - The utilization of a job or pod is the average of its GPUs, the power their sum, and the memory and temperature those of the GPU that has
        most.
      - With V(gpu), V(network) is that of pods.
    type: str
    choices: [job, pod, gpu]
    default: job
  throughput_query:
    description:
      - PromQL expression for V(throughput). C($namespace) and C($job) in it stand for the names, and C($pods) for a regular
        expression that matches the pods of the job, all for use within quotes.
      - Prometheus has such metrics of programs whose manifest has C(metrics).
    type: str
seealso:
  - module: runwhere.gpuctl.gpuctl_job_info
  - module: runwhere.gpuctl.gpuctl_idle
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.prometheus
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Read how a training has used its GPUs in the last two hours
  runwhere.gpuctl.gpuctl_job_metrics_info:
    name: qwen2-7b-sft
    namespace: team-a
    start: -2h
    metrics: [utilization, memory]
    aggregate: gpu
    prometheus_url: "{{ prometheus_url }}"
  register: curves

- name: Show the average and the peak of each
  ansible.builtin.debug:
    msg: "{{ item.metric }}: {{ item.average }} on average, {{ item.peak }} at most ({{ item.unit }})"
  loop: "{{ curves.summary }}"

- name: Read the samples per second that a training counts itself
  runwhere.gpuctl.gpuctl_job_metrics_info:
    name: qwen2-7b-sft
    namespace: team-a
    metrics: [throughput]
    throughput_query: sum(rate(samples_total{namespace="$namespace",pod=~"$pods"}[5m]))
    prometheus_url: "{{ prometheus_url }}"
"""

RETURN = r"""
job:
  description:
    - The job. C(uid), C(status), C(kind), C(created_at) and C(finished_at) are V(none) for one that does not exist any more.
  returned: success
  type: dict
  sample:
    name: qwen2-7b-sft
    namespace: team-a
    kind: training
    uid: 5d1c2f0e-7a63-4b1b-a1a1-0d6a0f6b1c11
    status: Running
    created_at: "2026-01-31T08:00:00Z"
    finished_at: null
start:
  description: Start of the range.
  returned: success
  type: str
  sample: "2026-01-31T08:00:00Z"
end:
  description: End of the range.
  returned: success
  type: str
  sample: "2026-01-31T10:00:00Z"
step:
  description: Seconds between two points.
  returned: success
  type: float
  sample: 60.0
series:
  description:
    - The curves, each with its C(metric), C(unit), C(labels) and C(points). A point is a time, in seconds since 1970, and a value.
    - Where nothing was measured, there is no point.
  returned: success
  type: list
  elements: dict
  sample:
    - metric: utilization
      unit: ratio
      labels: {namespace: team-a, job_name: qwen2-7b-sft, pool: training-pool}
      points: [[1769846400.0, 0.91], [1769846460.0, 0.93]]
summary:
  description:
    - For each metric of the whole job, its C(average) and C(peak) in the range, and its last value, C(at_end). They are taken of up to 1000 points,
      whatever RV(step) is.
  returned: success
  type: list
  elements: dict
  sample: [{metric: utilization, unit: ratio, labels: {}, average: 0.9, peak: 0.98, at_end: 0.93}]
coverage:
  description:
    - Share of the time for which accelerators were held whose utilization is known. Without kube-state-metrics, and for a job without
      accelerators, the share of the range that has points.
  returned: success
  type: float
  sample: 0.998
missing:
  description: Why there is no curve of a metric, by metric.
  returned: success
  type: dict
  sample: {throughput: "the job serves none that is known. Add metrics to its manifest, and throughput_query unless it runs vLLM or SGLang."}
source:
  description:
    - By what Prometheus knows the pods of the job. V(rules) are recorded series, V(pod_labels) are those of kube-state-metrics, and with
      V(pod_names), only the names of pods are known, which the task warns of.
  returned: success
  type: str
  sample: rules
partial:
  description: Whether the server said that some of its stores did not answer. A warning has its words.
  returned: success
  type: bool
  sample: false
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.metrics.job_metrics import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
