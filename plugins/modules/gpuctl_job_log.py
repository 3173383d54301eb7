#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_job_log
short_description: Read or follow the logs of a job
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Reads the logs of all pods of a job, or of one pod. Only jobs created by this collection are supported.
  - If a pod has not started, RV(results[].error) explains why, and the task succeeds. The task fails if the job has no pods,
    or if all logs are unavailable for another reason.
  - Logs are processed as a stream. Values of variables and flags that are secrets by their name, form or mark are masked.
    So are values of Kubernetes Secrets that C(secretKeyRef), C(envFrom) or a volume of the pod refers to, if the account may read
    the Secret, which takes one request for each. The guide to security says which values are not masked.
  - Characters that act on a terminal or hide text, such as escape sequences, are shown as C(\xNN) or C(\uNNNN), also in
    O(dest). A line that carriage returns start again, as progress bars do, is what was written last.
  - Requires permission to list pods and to get C(pods/log), and to get the workload for values that its manifest marks
    as secret. With the permissions of M(runwhere.gpuctl.gpuctl_job_info), error messages are more specific.
attributes:
  check_mode:
    support: full
    details:
      - Reads the logs, but does not write O(dest).
  diff_mode:
    support: none
    details:
      - Logs can be large.
  idempotent:
    support: partial
    details:
      - O(dest) changes when the job has written new lines.
options:
  name:
    description:
      - Name of the job. The name of one of its pods stands for the job and O(pod).
      - The name of a sweep stands for all of its jobs.
    type: str
    required: true
  namespace:
    description: Namespace of the job. The default is that of E(GPUCTL_NAMESPACE), else that of the kubeconfig's context, else V(default).
    type: str
  pod:
    description:
      - Name or number of a pod. By default, the logs of all pods are read.
      - For a distributed training, the number is the rank (C(NODE_RANK)). For other jobs, pods are numbered by age, and V(0) is
        the oldest.
    type: str
  container:
    description: Name of the container.
    type: str
    default: main
  tail:
    description:
      - Number of lines to read from the end of each log. V(-1) reads all lines.
      - With O(grep), this is the number of matching lines.
    type: int
    default: 100
  since:
    description:
      - Read only lines that are newer than a number of seconds (V(600)), a duration (V(10m), V(2h), V(1h30m), V(1d)) or a time
        with a time zone (V(2026-01-31T08:00:00Z)). For a time, you can use RV(results[].last_timestamp).
      - Kubernetes ignores fractions of a second.
    type: str
  previous:
    description: Whether to read the logs of the previous containers, before their last restart.
    type: bool
    default: false
  grep:
    description:
      - Read only lines that contain a match of this Python regular expression.
      - The task fails if that takes too long, as it can with repetitions within repetitions such as V((a+)+).
    type: str
  timestamps:
    description: Whether to prefix each line with its timestamp.
    type: bool
    default: false
  limit_bytes:
    description:
      - Maximum size of the log of each pod in the result. The oldest lines are dropped first. A line longer than the limit
        is truncated.
      - With O(dest), the limit applies to single lines. If O(grep) and O(tail) are also set, it applies to the log of each pod.
      - AWX drops results larger than 700 kB. Use O(dest) for more.
    type: int
    default: 262144
  dest:
    description:
      - Path to a file that receives the lines, instead of RV(results[].lines). The path is on the host that runs the module. With
        a local connection, that is the controller.
      - A symbolic link is followed if its owner is root or the user that the module runs as.
      - The logs of multiple pods are separated by C(==> pod <==) headings.
      - The directory must exist. The file is replaced after all logs have been read. It is left unchanged if no log is available.
      - The kubelet starts a new log when one has 10 MiB, and the API server only gives access to the newest. Lines that the file
        already has of the running container, and the API server no longer has, are kept. The task warns if lines may be
        missing in between. This does not apply with O(since), O(grep) or O(previous), and not to a file from before the container
        started.
    type: path
  mode:
    description:
      - Permissions of O(dest) as a quoted octal number, for example V("0640").
      - By default, a new file gets V("0600"), and an existing file keeps its permissions.
    type: raw
  follow:
    description:
      - Whether to print the lines as they come, whichever callback plugin is in use, until the job ends or the playbook is
        interrupted with Ctrl-C. The job is not affected by that.
      - All pods are followed, also those that are created later, up to 128, or those that O(pod) selects. Several pods have
        their short names before their lines. Restarts and ends of containers are reported.
      - Of a sweep, all jobs are followed that exist when the task begins, and it ends when all of them have.
      - Broken connections, restarts of containers and of the API server, and renewed tokens neither lose nor repeat a line.
        What the kubelet has removed before it could be read is reported where that can be seen. The kubelet keeps a log of 10 MiB,
        so a connection that stays broken for long, or more than one restart meanwhile, may lose lines.
      - Colours are kept on a terminal, unless C(NO_COLOR) is set. Of a progress bar, a terminal shows the state that changes, and
        everything else a state every 30 seconds.
      - The task succeeds if the job has failed, because the logs were read; RV(job_status) says how it has ended. To fail then,
        wait for the job with O(runwhere.gpuctl.gpuctl_job#module:wait_for=complete).
      - O(tail) and O(since) select the lines from before. O(grep) applies to all lines.
      - Only in Ansible's own process, which is where tasks with a local connection run. The task fails with C(async),
        C(become), C(no_log) and on other hosts. It cannot be combined with O(dest) and O(previous).
    type: bool
    default: false
    version_added: 1.1.0
seealso:
  - module: runwhere.gpuctl.gpuctl_job
  - module: runwhere.gpuctl.gpuctl_job_info
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
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

- name: Show the lines
  ansible.builtin.debug:
    msg: "{{ item.error or item.lines }}"
  loop: "{{ log.results }}"
  loop_control:
    label: "{{ item.pod }} on {{ item.node }} ({{ item.status }})"

- name: Read the loss on rank 0 during the last two hours
  runwhere.gpuctl.gpuctl_job_log:
    name: qwen2-7b-sft
    namespace: team-a
    pod: "0"
    since: 2h
    grep: "'loss': [0-9.]+"
    tail: 1000

- name: Read the log of a service before its last restart
  runwhere.gpuctl.gpuctl_job_log:
    name: qwen2-7b-chat
    namespace: team-a
    previous: true

- name: Print the loss of all pods until the training ends
  runwhere.gpuctl.gpuctl_job_log:
    name: qwen2-7b-sft
    namespace: team-a
    follow: true
    grep: "'loss':"

- name: Save the complete log to a file
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
  description: One entry for each pod, sorted by rank and age. Empty with O(follow).
  returned: when a matching pod was found
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
    namespace:
      description: Namespace of the job.
      type: str
    kind:
      description: Kind of the job.
      type: str
    node:
      description: Node that the pod is assigned to.
      type: str
    status:
      description: Phase of the pod, or the reason of its container if that is more specific.
      type: str
      sample: Running
    lines:
      description: Lines of the log, oldest first. Empty with O(dest).
      type: list
      elements: str
      sample: ["step 1/10, loss 0.87", "step 2/10, loss 0.71"]
    truncated:
      description: Whether O(limit_bytes) removed part of the log.
      type: bool
    first_timestamp:
      description: Timestamp of the first line.
      type: str
      sample: "2026-01-31T07:00:00.123456789Z"
      version_added: 1.1.0
    last_timestamp:
      description: Timestamp of the last line.
      type: str
      sample: "2026-01-31T08:00:00.123456789Z"
    error:
      description: Why the log of this pod is not available. V(none) on success.
      type: str
      sample: container main of pod qwen2-7b-sft-0-zlflg has not started yet (ContainerCreating)
job_status:
  description:
    - Status of the job at the end, or V(Deleted).
    - Of a sweep, V(Succeeded) if all jobs have succeeded, else the status of one that has not, of a failed one first.
  returned: success and with O(follow)
  type: str
  sample: Succeeded
  version_added: 1.1.0
exit_code:
  description:
    - Exit code of the container that failed last, V(0) if the job, or each job of the sweep, has succeeded, or V(none) if it is not
      known.
  returned: success and with O(follow)
  type: int
  sample: 0
  version_added: 1.1.0
dest:
  description: Path to the file.
  returned: success and with O(dest)
  type: str
  sample: /var/log/gpuctl/qwen2-7b-sft.log
msg:
  description: Number of lines and pods.
  returned: success
  type: str
  sample: 200 lines of 2 pods
report:
  description: The name of the report that M(runwhere.gpuctl.gpuctl_show) makes of this result.
  returned: when a matching pod was found
  type: str
  sample: logs
  version_added: 1.2.0
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow.follow_log import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
