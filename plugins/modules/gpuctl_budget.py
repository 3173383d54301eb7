#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_budget
short_description: Count the GPU-hours of budgets, and limit the namespaces that have used up theirs
version_added: 1.2.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - A quota can have a budget of GPU-hours per day, week or month (C(gpu_hours), see M(runwhere.gpuctl.gpuctl_quota)). This module counts what its
    namespace has used since the period began, as M(runwhere.gpuctl.gpuctl_usage_info) does. It counts pods that are there until now, and pods that are
    gone by the record of runs of M(runwhere.gpuctl.gpuctl_job_history), each once. Of pods that began earlier, only the part in the period counts.
  - Whole GPUs count. With O(prices), each counts by its price, and so do partitions and shares that have one.
  - In the namespace of each budget it keeps a ResourceQuota of its own, C(gpuctl-gpu-hours-until-) with the day on which the next period begins. What is
    used is recorded there in steps of one percent, for M(runwhere.gpuctl.gpuctl_quota_info), M(runwhere.gpuctl.gpuctl_status) and predictions of jobs.
  - Once the budget is used up, that ResourceQuota limits the accelerators of the quota and of the cluster's nodes to 0. Then Kubernetes admits no new pods
    with them, or with C(then=low_priority) only those of jobs with priority V(low) or V(opportunistic). What runs goes on, and what
    M(runwhere.gpuctl.gpuctl_quota) has written stays as it is.
  - C(then=stop_idle) admits no new pods either, and asks for jobs to be paused that hold accelerators and do not use them. M(runwhere.gpuctl.gpuctl_idle)
    does that, with its O(runwhere.gpuctl.gpuctl_idle#module:action=annotate) or V(pause), so schedule it as well. This module pauses nothing.
  - C(accelerators) of a budget limits how many of its hours may be of an accelerator, such as V(amd). Once those are used up, a further ResourceQuota, such
    as C(gpuctl-gpu-hours-until-2026-12-01-of-amd), limits that one to 0, until the whole budget is. It limits all that the vendor's software lists on
    nodes, and the DeviceClasses of pools with that accelerator. ResourceQuotas cannot limit products, such as the H100.
  - The limit is lifted by the first run after the next period has begun, the budget has been raised, or the quota has no budget any more.
  - Periods are those of the calendar in UTC, and weeks begin on Monday.
  - Within a period, what is recorded never becomes less, so an account that can change the history of its namespace does not lift the limit. Delete the
    ResourceQuota to count again, such as after other prices.
  - Run it on a schedule, such as every 15 minutes, after M(runwhere.gpuctl.gpuctl_job_history). Two runs at the same time do no harm.
  - Requires permission to list and write resourcequotas, and what M(runwhere.gpuctl.gpuctl_usage_info) reads. The level V(administer) of
    M(runwhere.gpuctl.gpuctl_rbac) has both.
options:
  prices:
    description:
      - Prices of an hour, as O(runwhere.gpuctl.gpuctl_usage_info#module:prices) has them. C(default) is required. What costs as much as that counts as an
        hour of the budget, what costs twice as much as two.
      - Without prices, each whole GPU counts the same, and partitions and shares do not count.
    type: dict
seealso:
  - module: runwhere.gpuctl.gpuctl_quota
  - module: runwhere.gpuctl.gpuctl_idle
    description: Pauses idle jobs of budgets with C(then=stop_idle).
  - module: runwhere.gpuctl.gpuctl_usage_info
  - module: runwhere.gpuctl.gpuctl_job_history
    description: Records the runs that are counted.
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.concurrency
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.connection.all_namespaces
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.write_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Enforce the budgets of all teams
  runwhere.gpuctl.gpuctl_budget:
    all_namespaces: true

- name: Let an hour of an H100 count twice
  runwhere.gpuctl.gpuctl_budget:
    all_namespaces: true
    prices:
      NVIDIA-H100-80GB-HBM3: 2.4
      default: 1.2
"""

RETURN = r"""
namespace:
  description: The namespace that O(all_namespaces=false) stands for; null if others were asked for.
  returned: always, once the cluster was read
  type: str
  sample: team-a
results:
  description:
    - The budgets, by namespace.
    - C(used) are the hours of the period, of which C(running_hours) are of pods that go on and C(ended_hours) of others. What was counted before and
      is no longer in the record is in C(used) alone, and C(notes) say so.
    - C(state) is V(ok), V(near) from C(warn_at) on, V(used_up), or V(removed) where the quota has no budget any more.
    - C(action) is V(limit), V(lift), V(count) if only the use was recorded, or V(none).
    - C(accelerators) has the same of the accelerators with a part of the budget, by name. C(state) is that of the whole budget.
    - C(notes) say what is not counted, or not known for sure.
  returned: success
  type: list
  elements: dict
  sample:
    - name: teams
      namespace: team-a
      limit: 5000
      per: month
      then: refuse
      used: 5012.4
      left: 0.0
      percent: 100.2
      since: "2026-01-01T00:00:00Z"
      until: "2026-02-01T00:00:00Z"
      counted_at: "2026-01-29T14:00:00Z"
      accelerators: {"amd": {"limit": 2000, "used": 12.4, "left": 1987.6, "percent": 0.6, "state": "ok"}}
      running_hours: 412.4
      ended_hours: 4600.0
      state: used_up
      action: limit
      notes: []
      error: null
notes:
  description: What could not be read.
  returned: success
  type: list
  elements: str
msg:
  description: How many budgets there are, and what was done.
  returned: success
  type: str
  sample: 3 budgets, 1 used up, 1 limited now
report:
  description: The name of the report that M(runwhere.gpuctl.gpuctl_show) makes of this result.
  returned: success
  type: str
  sample: budgets
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.budgets.count_budgets import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
