#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_usage_info
short_description: Get who held, used and waited for how many GPUs
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Adds up what pods held of GPUs, partitions and shares within a range of time, by job, user, team, pool, sweep or GPU type.
  - A pod holds what it requests from when it is bound to a node until it ends. That is exact for the pods that are there, by their
    status, and for those that the history knows (see M(runwhere.gpuctl.gpuctl_job_history)).
  - Where Prometheus has the series of an exporter, it is also known how many of these hours the GPUs were busy and idle, how much
    memory and energy was used, and how long pods held that Kubernetes and the history do not know any more. Without it, this is
    V(none), not 0.
  - Partitions and shares are counted in their own units, one column for each resource. How much of a GPU one is depends on the GPU, so
    they are not added to GPU-hours.
  - Sends the same number of requests whatever the number of jobs, except for pages of lists. Prometheus is asked for each V(month) that
    O(group_by) counts by itself.
options:
  range:
    description:
      - How far to look back, such as V(24h), V(7d) or V(4w), or V(this-month) or V(last-month) in UTC. The default is V(24h) if
        O(start) is not set either. The maximum is ten years.
    type: str
  group_by:
    description:
      - What each row stands for; several values make a row for each combination. The default is V(team). A V(team) is a namespace.
        A V(user) is that of AWX, or else of Kubernetes, or else of the host that submitted the job. A V(gpu_type) is that of the node, if
        it is still there, or else what the job asked for. With a V(month) of the calendar, in UTC, each month is counted by itself; a pod or
        job of two months is one in both.
      - Pods with GPUs that are not of gpuctl are in the row V(not of gpuctl) of jobs, users and sweeps, as long as they are there.
    type: list
    elements: str
    choices: [job, user, team, pool, sweep, gpu_type, month]
  namespaces:
    description:
      - Count only jobs of these namespaces. The default is the one in which M(runwhere.gpuctl.gpuctl_job) would act.
      - The unallocated hours, and the pods that are not of gpuctl, are only counted with O(all_namespaces) and the permission to list the
        jobs of the whole cluster. With O(all_namespaces), an account without it gets the default, with a warning.
    type: list
    elements: str
    aliases: [namespace]
  use_prometheus:
    description:
      - With V(auto), Prometheus is asked if O(prometheus_url) or O(prometheus_service) is set, also by their variables. With V(always), the
        service of Prometheus is looked for in the cluster otherwise. With V(never), it is not asked.
    type: str
    choices: [auto, always, never]
    default: auto
seealso:
  - module: runwhere.gpuctl.gpuctl_job_history
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
- name: Get the GPU-hours of the teams in the last week
  runwhere.gpuctl.gpuctl_usage_info:
    all_namespaces: true
    range: 7d
  register: usage

- name: Get what each user cost in August
  runwhere.gpuctl.gpuctl_usage_info:
    all_namespaces: true
    start: "2026-08-01"
    end: "2026-09-01"
    group_by: [user, gpu_type]
    prices:
      NVIDIA-H100-80GB-HBM3: 2.5
      nvidia.com/mig-1g.10gb: 0.4
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
group_by:
  description: What the rows stand for.
  returned: success
  type: list
  elements: str
currency:
  description: The value of O(currency).
  returned: success
  type: str
results:
  description: The groups, those that held most first. Each has a key for each of O(group_by).
  returned: success
  type: list
  elements: dict
  contains:
    gpu_hours:
      description: Hours of whole GPUs that were held.
      type: float
    accelerators:
      description:
        - Hours that were held of each resource, with what it C(counts) (V(devices), V(partitions), V(shares), V(memory) or V(cores)), the
          C(accelerator), C(partition), C(unit) and C(hours).
      type: list
      elements: dict
    held_hours:
      description: Hours of GPUs, partitions and shares that were held, each counted as one.
      type: float
    busy_hours:
      description: Of these, those with a utilization of at least O(idle_below). V(none) if it is not known.
      type: float
    idle_hours:
      description: Of these, those with a lower utilization. V(none) if it is not known.
      type: float
    stuck_hours:
      description: Of the idle hours, those of pods that never were busy in the range, or the month. V(none) if it is not known.
      type: float
    coverage:
      description: Part of the held hours whose utilization is known, from 0 to 1. V(none) without measurements.
      type: float
    estimated_hours:
      description: Of the held hours, those of pods whose end was not observed. They may have held devices for longer.
      type: float
    opportunistic_hours:
      description: Of the held hours, those of jobs with priority C(opportunistic).
      type: float
    gpus_given_back:
      description: GPUs, partitions and shares that these held when the scheduler preempted them, each time counted.
      type: int
    gpus_reclaimed:
      description:
        - GPUs, partitions and shares that jobs held when M(runwhere.gpuctl.gpuctl_idle) paused or deleted them in the range, each time counted, as far as
          that is recorded in the history. What others have paused is not counted.
      type: int
    reclaimed_hours:
      description:
        - These times the hours of the range from when the pods of a paused job were gone until it had pods again or was deleted. Of jobs that were deleted
          at once, none. They are not part of the held hours.
      type: float
    queued_hours:
      description: Hours that pods waited for a node, times the GPUs, partitions and shares that they waited for.
      type: float
    peak_memory_bytes:
      description: The most memory that was in use on one GPU. V(none) if it is not known.
      type: int
    energy_kwh:
      description: Energy of the GPUs while they were held. V(none) if it is not known.
      type: float
    cost:
      description: Held hours times O(prices). V(none) without prices, or if nothing of it has a price.
      type: float
    unpriced_hours:
      description: Held hours without a price. V(none) without prices.
      type: float
    jobs:
      description: Number of jobs that held something.
      type: int
    pods:
      description: Number of pods that held something.
      type: int
  sample:
    - team: team-a
      gpu_hours: 1204.5
      held_hours: 1204.5
      busy_hours: 1003.2
      idle_hours: 201.3
      coverage: 1.0
      queued_hours: 12.0
      cost: 3011.25
totals:
  description: The same for all groups together.
  returned: success
  type: dict
capacity_hours:
  description:
    - Hours of whole GPUs that there were. By Prometheus, or else of the nodes that are there now, since they joined. V(none) if it is not
      known.
  returned: success
  type: float
  sample: 5376.0
unallocated_hours:
  description: Of these, those that no pod is known to have held.
  returned: success
  type: float
  sample: 1290.5
source:
  description: What the figures are from.
  returned: success
  type: str
  sample: Kubernetes, the history of jobs and Prometheus
notes:
  description: What is not known, and why.
  returned: success
  type: list
  elements: str
  sample: []
report:
  description: The name of the report that M(runwhere.gpuctl.gpuctl_show) makes of this result.
  returned: success
  type: str
  sample: usage
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.usage_info import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
