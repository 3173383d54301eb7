#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_show
short_description: Print the result of a task as a table
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Prints what a task did to each job, pool, quota or node, the accounts of GPUs, the runs of jobs, or one job with its curves as
    text, whichever callback plugin is in use. What failed and what changed comes first, and errors with the same text are shown once.
  - The text fits the terminal, or 80 columns if there is none.
  - Fails if the task has failed. The playbooks of this collection run a task with C(failed_when=false) and then show it, so that
    an error is printed once. Its message has the errors, for AWX, ansible-runner and other callback plugins.
options:
  result:
    description: What the task has registered. One of this option and O(clusters) is required.
    type: dict
  clusters:
    description:
      - What a task of M(runwhere.gpuctl.gpuctl_usage_info), M(runwhere.gpuctl.gpuctl_advice_info), M(runwhere.gpuctl.gpuctl_idle),
        M(runwhere.gpuctl.gpuctl_expire), M(runwhere.gpuctl.gpuctl_budget), M(runwhere.gpuctl.gpuctl_plan_info),
        M(runwhere.gpuctl.gpuctl_drift_info), M(runwhere.gpuctl.gpuctl_fit_info) or M(runwhere.gpuctl.gpuctl_doctor) has registered for
        several clusters, by the name of the cluster. It is shown as one, whose rows name their cluster and whose totals are those of
        all. A cluster that could not be read is named as missing.
      - Or the name of the variable in which the clusters of the play have registered it, which is faster. If the play is not about
        several clusters, that of the host is shown as with O(result).
    type: raw
  all:
    description: Whether to show all rows and errors, however many there are.
    type: bool
    default: false
  next_commands:
    description: Whether to print the commands that show the status and the logs of the jobs.
    type: bool
    default: false
  output:
    description:
      - File on the controller to also write the result to, for results that name a report, and for what the playbook C(describe) shows.
      - A name that ends with C(.html) is a page that loads nothing, for screens of any size.
      - One that ends with C(.csv) is a table for spreadsheets, in UTF-8, for the results of M(runwhere.gpuctl.gpuctl_usage_info) and
        M(runwhere.gpuctl.gpuctl_job_history_info). Cells that a spreadsheet would take for a formula begin with a quote.
      - One that ends with C(.json) is data, for the results of M(runwhere.gpuctl.gpuctl_plan_info),
        M(runwhere.gpuctl.gpuctl_drift_info), M(runwhere.gpuctl.gpuctl_fit_info) and M(runwhere.gpuctl.gpuctl_advice_info).
      - The file is replaced if its content differs. Its directory must exist.
    type: path
extends_documentation_fragment:
  - runwhere.gpuctl.attributes.controller
seealso:
  - module: runwhere.gpuctl.gpuctl_status
  - module: runwhere.gpuctl.gpuctl_usage_info
attributes:
  check_mode:
    description: Prints the same in check mode, and writes no file.
    support: full
"""

EXAMPLES = r"""
---
- name: Submit jobs
  runwhere.gpuctl.gpuctl_job:
    src: manifests/
  register: submitted
  failed_when: false

- name: Show what was done
  runwhere.gpuctl.gpuctl_show:
    result: "{{ submitted }}"

- name: Read the GPU-hours of the teams in the last month
  runwhere.gpuctl.gpuctl_usage_info:
    all_namespaces: true
    range: last-month
  register: usage

- name: Write them to a page
  runwhere.gpuctl.gpuctl_show:
    result: "{{ usage }}"
    output: usage.html
"""

RETURN = r"""
msg:
  description: The error of the task, or the errors of its rows, one a line.
  returned: failure
  type: str
  sample: "job sft in namespace team-a: quota teams-team-a of the namespace is exhausted."
short_msg:
  description: The number of errors, which the callback plugin P(runwhere.gpuctl.plain#callback) shows below the table that has them.
  returned: if rows of the task have failed
  type: str
  sample: 3 of 60 failed.
all:
  description: Whether all rows and errors are shown.
  returned: if O(all=true)
  type: bool
"""
