#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_monitoring_info
short_description: Rules and alerts for Prometheus about accelerators, and what a cluster has for them
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Returns recording and alert rules about devices, jobs and nodes. They are built from the profiles of accelerators, also of
    those that administrators have added, so that they work with the exporters of all vendors.
  - Looks for the operators of Prometheus and Grafana, for KEDA and for the metrics APIs, and says what is missing. The labels that
    kube-state-metrics has to tell, the selectors of Prometheus, and the alerts that Alertmanager sends are checked.
  - The role P(runwhere.gpuctl.monitoring#role) installs the rules.
  - What the account may not read is a problem in the result, and no error.
options:
  accelerators:
    description: Names of the profiles that the rules are for. By default, all.
    type: list
    elements: str
  alerts:
    description:
      - >-
        Settings by the name of the alert, such as C({GpuIdle: {window: 1h, severity: info}, NodeLost: {enabled: false}}).
      - Every alert has C(enabled), C(severity) and C(labels). C(for), C(threshold) and C(window), the time that it looks back on, are
        there where the alert has them.
    type: dict
  interval:
    description: How often Prometheus evaluates the rules.
    type: str
    default: 1m
  exporter_jobs:
    description:
      - Of which scrape jobs the rules take what exporters measure, as regular expressions of the label C(job). Any other program could
        claim to measure the devices of another namespace. By default, any.
    type: list
    elements: str
  state_metrics_jobs:
    description: Of which scrape jobs the rules take what kube-state-metrics tells of pods and nodes, in the same way. By default, any.
    type: list
    elements: str
seealso:
  - module: runwhere.gpuctl.gpuctl_doctor
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Write a file of rules
  runwhere.gpuctl.gpuctl_monitoring_info:
    accelerators: [nvidia]
    alerts:
      GpuTemperatureHigh: {threshold: 80, for: 2m}
  register: monitoring

- name: Put it where Prometheus reads it
  ansible.builtin.copy:
    content: "{{ {'groups': monitoring.groups} | to_nice_yaml(width=1000000) }}"
    dest: gpuctl-rules.yml
    mode: "0644"

- name: Show what is missing
  ansible.builtin.debug:
    var: monitoring.problems
"""

RETURN = r"""
groups:
  description: The groups of rules, as Prometheus reads them.
  returned: success
  type: list
  elements: dict
  sample:
    - name: runwhere-gpuctl.alerts
      interval: 1m
      rules:
        - alert: GpuTemperatureHigh
          expr: uuid:runwhere_gpu_temperature:celsius>=85
          for: 5m
          labels: {severity: critical}
exporters:
  description: The ports of exporters, and the accelerators that each measures.
  returned: success
  type: list
  elements: dict
  sample: [{port: 9400, accelerators: [nvidia]}]
reserved_metrics:
  description:
    - A regular expression for the metrics that exporters, kube-state-metrics and the rules tell. Prometheus must not take them from the
      programs of jobs, which could tell of the pods of others with them.
  returned: success
  type: str
  sample: (kube|container)_.+|.+:runwhere_.+|DCGM_FI_DEV_GPU_UTIL
adapter_rules:
  description: Rules of custom metrics for prometheus-adapter, so that services scale by the utilization of their accelerators.
  returned: success
  type: list
  elements: dict
  sample:
    - name: {as: DCGM_FI_DEV_GPU_UTIL}
      seriesQuery: 'namespace_pod_uuid:runwhere_gpu_utilization:ratio{namespace!="",pod!=""}'
apis:
  description:
    - Which optional APIs the cluster serves. C(prometheus_operator), C(grafana_operator), C(keda), C(resource_metrics),
      C(custom_metrics) and C(external_metrics).
  returned: success
  type: dict
  sample: {prometheus_operator: true, grafana_operator: false, keda: false, custom_metrics: true}
place:
  description: The namespace of the first Prometheus of the operator, and the labels that it selects rules and monitors by.
  returned: success
  type: dict
  sample: {namespace: monitoring, labels: {release: kube-prometheus-stack}}
prometheuses:
  description:
    - Each Prometheus of the operator, with the labels by which it selects rules, PodMonitors and ServiceMonitors. V(null) selects none.
  returned: success
  type: list
  elements: dict
  sample: [{name: k8s, namespace: monitoring, labels: {rule: {release: stack}, pod_monitor: {}, service_monitor: {}}}]
alertmanagers:
  description:
    - Each Alertmanager of the operator, with the labels by which it selects AlertmanagerConfigs, and whether those only concern alerts of
      their own namespace.
  returned: success
  type: list
  elements: dict
  sample: [{name: main, namespace: monitoring, labels: {}, only_own_namespace: true}]
kube_state_metrics:
  description:
    - Each kube-state-metrics, with the labels of pods and nodes that it does not tell and should. V(null) where its arguments do not say.
  returned: success
  type: list
  elements: dict
  sample: [{name: kube-state-metrics, namespace: monitoring, missing_labels: {nodes: [runwhere.ai/pool]}}]
problems:
  description: What is missing, in sentences, with what to do about it.
  returned: success
  type: list
  elements: str
  sample: ["no kube-state-metrics found. Series of devices have no job without it. Install it with --metric-labels-allowlist=pods=[app]."]
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.monitoring.monitoring_info import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
