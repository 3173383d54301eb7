#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_doctor
short_description: Find what is wrong with a cluster, and what to do about it
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Reads a cluster, and checks what jobs and this collection need of it. Prints what is wrong as text, with a hint for each
    problem, and returns it as data.
  - The checks are about the versions of Kubernetes, the permissions of the levels of M(runwhere.gpuctl.gpuctl_rbac), clocks, the
    nodes, device plugins, unhealthy devices, drivers, partitions, runtime classes, exporters of metrics, Kueue and Volcano where
    something asks for them, trainings on several nodes without a queue, the metrics APIs, autoscalers of services, Prometheus,
    storage classes, the PriorityClasses of jobs, and what was deleted or replaced only in part.
  - The metric that a service scales by is followed on its way to the autoscaler. If its API is available, lists the metric, and
    has no value of the pods, or does not list it, Prometheus is asked whether it has one.
  - An error keeps jobs from running, a warning is about something else that does not work.
  - Changes nothing, and sends requests that read only. Their number does not depend on the size of the cluster, except for the
    pages of lists, and one for each service that scales by other metrics than CPU or memory.
  - The level V(read) of M(runwhere.gpuctl.gpuctl_rbac) in the whole cluster is enough. A check that lacks a permission says so,
    and does not fail the task.
options:
  fail_on:
    description:
      - Fail the task if there are errors (V(error)), or also if there are only warnings (V(warning)). V(never) reports only.
    type: str
    choices: [error, warning, never]
    default: error
  all:
    description: Whether to also print the checks that found nothing, and all places, however many there are.
    type: bool
    default: false
  show:
    description:
      - Whether to print the checks. V(false) only returns them, for example for O(runwhere.gpuctl.gpuctl_show#module:clusters).
    type: bool
    default: true
    version_added: 1.2.0
seealso:
  - module: runwhere.gpuctl.gpuctl_status
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.prometheus
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Fail if jobs cannot run
  runwhere.gpuctl.gpuctl_doctor:

- name: Report what is wrong, without failing
  runwhere.gpuctl.gpuctl_doctor:
    fail_on: never
  register: doctor

- name: Show the nodes without device plugin
  ansible.builtin.debug:
    msg: "{{ (doctor.checks | selectattr('check', 'eq', 'device_plugins') | first).findings | map(attribute='place') }}"
"""

RETURN = r"""
checks:
  description: The checks, in a fixed order.
  returned: if the cluster could be read, also on failure
  type: list
  elements: dict
  contains:
    check:
      description: Name of the check.
      type: str
    title:
      description: What it looks at.
      type: str
    status:
      description: V(ok), V(warning), V(error), or V(unknown) if something could not be read.
      type: str
    reason:
      description: Why it is not known. V(none) otherwise.
      type: str
    missing:
      description: Permissions that the account lacks for it.
      type: list
      elements: str
    findings:
      description: >-
        What is wrong, each with its C(level), C(place), C(problem) and C(hint). Those of the level V(ok) are about what the
        version of Kubernetes lacks.
      type: list
      elements: dict
  sample:
    - check: device_plugins
      title: device plugins
      status: error
      reason:
      missing: []
      findings:
        - level: error
          place: node-2
          problem: it has GPUs by label nvidia.com/gpu.present, but Kubernetes lists no nvidia.com/gpu there
          hint: >-
            See whether the device plugin of NVIDIA runs on the node, and its logs. The role accelerator_stack installs it.
hint:
  description: The permissions that the account lacks, and how an administrator grants them. V(none) if it lacks none.
  returned: if the cluster could be read, also on failure
  type: str
  sample:
counts:
  description: The numbers of errors, of warnings, and of checks whose result is not known.
  returned: if the cluster could be read, also on failure
  type: dict
  sample: {error: 1, warning: 0, unknown: 0}
passed:
  description: Whether nothing was found that O(fail_on) names.
  returned: if the cluster could be read, also on failure
  type: bool
  sample: false
server_version:
  description: Version of the API server. V(none) if it could not be read.
  returned: if the cluster could be read, also on failure
  type: str
  sample: v1.36.2
msg:
  description: A summary, or the error.
  returned: always
  type: str
  sample: "25 checks: 1 with errors."
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.doctor.doctor import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
