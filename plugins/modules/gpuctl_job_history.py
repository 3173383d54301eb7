#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_job_history
short_description: Record the runs of jobs before the cluster forgets them
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Writes what the cluster says of the runs of jobs to the history of their namespaces, the ConfigMap C(gpuctl-history), which
    M(runwhere.gpuctl.gpuctl_job_history_info) lists and M(runwhere.gpuctl.gpuctl_usage_info) counts.
  - M(runwhere.gpuctl.gpuctl_job) records by itself what it submits, with the manifest without its secrets, what it stops, and the
    end of each training that it is the first to see. What happens while no task looks is only recorded if this module runs
    regularly, for example every ten minutes from AWX or cron. That is pods that are preempted, moved or restarted, and the end of
    trainings whose Jobs Kubernetes removes a day later.
  - What was not observed is reported as not known. The GPU-hours of a pod that disappeared between two runs of this module count
    until it was last seen.
  - Of a failed training, the last 20 lines of its log are kept, with secrets masked as in M(runwhere.gpuctl.gpuctl_job_log).
  - A ConfigMap that is half full hands its older half on to another one, before that is removed from it. Nothing is lost to a
    concurrent run. What is older than O(keep_days) or more than O(keep_mebibytes) is removed.
options:
  namespaces:
    description:
      - Record only the jobs of these namespaces. The default is the one in which M(runwhere.gpuctl.gpuctl_job) would act, see
        O(all_namespaces).
    type: list
    elements: str
    aliases: [namespace]
  keep_days:
    description:
      - Days that a run is kept after its end. Recorded in the history, so that M(runwhere.gpuctl.gpuctl_job) keeps as much.
    type: int
    default: 90
  keep_mebibytes:
    description: MiB that the history of a namespace may have. The oldest runs are removed first.
    type: int
    default: 16
  logs:
    description: Whether to keep the last lines of failed trainings. They are data of the job; every account that can read ConfigMaps sees them.
    type: bool
    default: true
seealso:
  - module: runwhere.gpuctl.gpuctl_job_history_info
  - module: runwhere.gpuctl.gpuctl_usage_info
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.connection.all_namespaces
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: The history has no desired state to compare with.
  idempotent:
    support: full
    details: Also where nothing is new, the time of the visit is recorded, which does not count as a change.
"""

EXAMPLES = r"""
---
- name: Record the runs of all jobs, and keep them for a year
  runwhere.gpuctl.gpuctl_job_history:
    all_namespaces: true
    keep_days: 365
    keep_mebibytes: 64
"""

RETURN = r"""
namespace:
  description: The namespace that O(all_namespaces=false) stands for; null if others were asked for.
  returned: always, once the cluster was read
  type: str
  sample: team-a
results:
  description: What was recorded in each namespace that has jobs or a history.
  returned: always, once the cluster was read
  type: list
  elements: dict
  contains:
    namespace:
      description: The namespace.
      type: str
    runs:
      description: Runs in its history by now.
      type: int
    new_runs:
      description: Runs that were not recorded before, such as those that version 1.0 submitted.
      type: int
    new_ends:
      description: Runs whose end was not recorded before.
      type: int
    removed_runs:
      description: Runs that were removed because they ended more than O(keep_days) ago.
      type: int
    error:
      description: Why the history could not be written. V(none) if it was.
      type: str
  sample:
    - {namespace: team-a, runs: 40, new_runs: 0, new_ends: 2, removed_runs: 0, error: null}
msg:
  description: A summary, or the error.
  returned: always
  type: str
  sample: "3 namespaces: 0 new runs, 2 new ends"
report:
  description: The name of the report that M(runwhere.gpuctl.gpuctl_show) makes of this result.
  returned: always, once the cluster was read
  type: str
  sample: recorded_runs
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_history import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
