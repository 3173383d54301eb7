#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_extend
short_description: Let a job run for longer than its time limit, or exempt it from being stopped because it does nothing
version_added: 1.2.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Extends the C(job.time_limit) of a job that runs, or of a training that waits. Nothing is restarted.
  - A training gets a later C(activeDeadlineSeconds), which Kubernetes enforces. Notebooks and services get the annotation
    C(runwhere.ai/time-limit-extended), by which M(runwhere.gpuctl.gpuctl_expire) acts.
  - A job is never extended beyond the maximum of its pool (O(runwhere.gpuctl.gpuctl_pool#module:time_limit)).
  - The extension stays when the manifest is submitted again. It is over when a notebook or service is resumed after a pause, or when a training runs
    again after its end.
  - It can be repeated. What was extended already stays as it is, and no limit is made shorter.
  - Requires what M(runwhere.gpuctl.gpuctl_job) needs, which the level V(submit) of M(runwhere.gpuctl.gpuctl_rbac) has, and permission to list the pools.
options:
  name:
    description: Name of the job.
    type: str
    required: true
  namespace:
    description: Namespace of the job. By default the one in which M(runwhere.gpuctl.gpuctl_job) would act.
    type: str
  by:
    description:
      - How much longer than declared the job may run, such as V(4h). It is added to the limit of the manifest or of the pool, not to an earlier
        extension. After V(by=4h), use V(by=8h) for another four hours.
      - One of O(by), O(until) and O(exempt_until) is required.
    type: str
  until:
    description: The time until which the job may run, such as V(2026-12-01T18:00:00Z).
    type: str
  exempt_until:
    description:
      - The time until which M(runwhere.gpuctl.gpuctl_idle) leaves the job alone, such as V(2026-12-01T18:00:00Z). The time limit stays as it is.
      - O(runwhere.gpuctl.gpuctl_idle#module:longest_exemption) is how far ahead it may be. A later time does not count.
    type: str
  takeover:
    description: Whether to also extend a job that another user has submitted.
    type: bool
    default: false
seealso:
  - module: runwhere.gpuctl.gpuctl_expire
  - module: runwhere.gpuctl.gpuctl_job
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.write_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Let a notebook run four hours longer than its time limit
  runwhere.gpuctl.gpuctl_extend:
    name: data-prep-notebook
    by: 4h

- name: Leave a notebook alone until Monday morning, whether it is used or not
  runwhere.gpuctl.gpuctl_extend:
    name: data-prep-notebook
    exempt_until: "2026-12-07T08:00:00Z"

- name: Let a training run until Monday morning
  runwhere.gpuctl.gpuctl_extend:
    name: qwen2-7b-sft
    namespace: team-a
    until: "2026-12-07T08:00:00Z"
"""

RETURN = r"""
results:
  description:
    - The job, as RV(runwhere.gpuctl.gpuctl_job#module:results) describes it.
    - C(ends_at) is when it ends at the latest, null if it has no limit or has not started. C(reason) says it in words.
  returned: success
  type: list
  elements: dict
  sample:
    - name: data-prep-notebook
      namespace: team-a
      kind: notebook
      action: update
      status: Running
      ends_at: "2026-01-31T20:00:00Z"
      reason: It ends at 2026-01-31T20:00:00Z at the latest.
      error: null
msg:
  description: How many jobs were changed.
  returned: success
  type: str
  sample: "1 job: 1 update"
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.limits.extend import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
