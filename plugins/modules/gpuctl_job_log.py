#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_job_log
short_description: Read the logs of a job
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Reads what the pods of a job have written, by the name of the job, whatever its kind. All pods are asked side by side.
  - A pod that has not started does not fail the task; its entry says in RV(results[].error) what keeps it from starting. The
    task fails when the job has no pods, and says why - it is not known, paused, waits for a quota, or has ended and was
    cleaned up - and when no pod at all can give the log that was asked for.
  - Only pods of jobs that this collection made are read.
  - A log is read in pieces and never held as a whole. What its manifest marks as secret, by the names of variables and flags,
    is masked. What the job reads from Kubernetes Secrets is not known here and not masked.
  - Needs the rights to list pods and to get C(pods/log). Explaining why there is no log takes those of
    M(runwhere.gpuctl.gpuctl_job_info); what may not be looked at is left out.
attributes:
  check_mode:
    support: full
    details:
      - The logs are read, but O(dest) is not written.
  diff_mode:
    support: none
    details:
      - Logs may be large.
  idempotent:
    support: partial
    details:
      - A second run changes nothing in the cluster. It changes O(dest) when more was logged in between.
options:
  name:
    description: Name of the job.
    type: str
    required: true
  namespace:
    description: Namespace of the job. Without it, V(default).
    type: str
  pod:
    description:
      - Only this pod of the job, by its name or a number.
      - Of a distributed training, the number is the rank (C(NODE_RANK)), of any other job the place by age, V(0) for the oldest.
    type: str
  container:
    description: Which container of the pods.
    type: str
    default: main
  tail:
    description:
      - So many lines of each pod, the last ones. V(-1) for all.
      - With O(grep), the last lines that match; the whole log is read then, or what O(since) leaves of it.
    type: int
    default: 100
  since:
    description:
      - Only what was written in the last seconds (V(600)), in the last minutes, hours or days (V(10m), V(2h), V(1h30m), V(1d)),
        or since a time with its zone (V(2026-01-31T08:00:00Z)), such as an earlier RV(results[].last_timestamp).
      - Kubernetes compares whole seconds.
    type: str
  previous:
    description: What the containers wrote before they were last restarted.
    type: bool
    default: false
  grep:
    description: Only lines in which this regular expression of Python is found.
    type: str
  timestamps:
    description: Begin each line with the time at which it was written.
    type: bool
    default: false
  limit_bytes:
    description:
      - At most so much of each pod, the newest lines, is held in memory and returned. A line that is longer by itself is cut.
      - Into O(dest), lines are written as they come; only a line that is longer is cut. With O(grep) and O(tail) they have to
        be held until the end of the log is reached, so the limit counts then.
      - AWX drops results of more than 700 kB; use O(dest) for more.
    type: int
    default: 262144
  dest:
    description:
      - File to write the lines to instead of returning them, on the host that the module runs on; with a local connection, the
        controller.
      - Lines of several pods follow each other, each under a heading C(==> pod <==).
      - The file is replaced as a whole when everything was read. Its directory must exist. When no pod has a log, nothing is
        written.
    type: path
  mode:
    description:
      - Permissions of O(dest) in octal, in quotes, such as V("0640").
      - Without it, a new file gets V("0600"), and one that is there keeps its own.
    type: raw
requirements:
  - kubernetes >= 31.0.0
  - pydantic >= 2.7
  - PyYAML >= 6.0
seealso:
  - module: runwhere.gpuctl.gpuctl_job
  - module: runwhere.gpuctl.gpuctl_job_info
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Read the last lines of every pod of a training
  runwhere.gpuctl.gpuctl_job_log:
    name: qwen2-7b-sft
    namespace: team-a
  register: log

- name: Show them
  ansible.builtin.debug:
    msg: "{{ item.lines or item.error }}"
  loop: "{{ log.results }}"
  loop_control:
    label: "{{ item.pod }} on {{ item.node }} ({{ item.status }})"

- name: Find out how the loss went on rank 0 in the last two hours
  runwhere.gpuctl.gpuctl_job_log:
    name: qwen2-7b-sft
    namespace: team-a
    pod: "0"
    since: 2h
    grep: "'loss': [0-9.]+"
    tail: 1000

- name: Learn why a service was restarted
  runwhere.gpuctl.gpuctl_job_log:
    name: qwen2-7b-chat
    namespace: team-a
    previous: true

- name: Keep the whole log
  runwhere.gpuctl.gpuctl_job_log:
    name: qwen2-7b-sft
    namespace: team-a
    tail: -1
    timestamps: true
    dest: /var/log/gpuctl/qwen2-7b-sft.log
    mode: "0640"
"""

RETURN = r"""
results:
  description: One entry for each pod, by rank and age.
  returned: when the job has pods
  type: list
  elements: dict
  contains:
    pod:
      description: Name of the pod.
      type: str
      sample: qwen2-7b-sft-0-zlflg
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
    node:
      description: The node that the pod is on.
      type: str
      sample: node-1
    status:
      description: Phase of the pod, or the reason of its container where that says more.
      type: str
      sample: Running
    lines:
      description: The lines, oldest first; none with O(dest).
      type: list
      elements: str
      sample: ["step 1/10, loss 0.87", "step 2/10, loss 0.71"]
    truncated:
      description: Whether O(limit_bytes) left out something that was asked for.
      type: bool
      sample: false
    last_timestamp:
      description: When the last of the lines was written.
      type: str
      sample: "2026-01-31T08:00:00.123456789Z"
    error:
      description: Why there is no log of this pod, in one sentence; V(none) when there is one.
      type: str
      sample: the container main of pod qwen2-7b-sft-0-zlflg has not started yet (ContainerCreating)
dest:
  description: The file.
  returned: success and with O(dest)
  type: str
  sample: /var/log/gpuctl/qwen2-7b-sft.log
msg:
  description: How much was read.
  returned: success
  type: str
  sample: 200 lines of 2 pods
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs.job_log import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import run_module


def main() -> None:
    run_module(AnsibleModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
