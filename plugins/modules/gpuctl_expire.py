#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_expire
short_description: Warn of notebooks and services that reach their time limit, and pause them then
version_added: 1.2.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Kubernetes ends trainings at their C(job.time_limit), but has no deadline for Deployments and StatefulSets. This module pauses notebooks and
    services (C(inference), C(compute)) that have reached theirs, as O(runwhere.gpuctl.gpuctl_job#module:state=paused) does. Their pods are deleted.
    Volumes and all other objects stay, and O(runwhere.gpuctl.gpuctl_job#module:state=resumed) starts them again.
  - A job is warned of O(warn_before) its end. It gets the annotation C(runwhere.ai/end-warned-at) with the time, and an event. No job is paused
    earlier than O(warn_before) after its warning. Where the last run was long ago, a job therefore ends later than its limit says.
  - The time of a job counts from the creation of its Deployment or StatefulSet, or from when it was last resumed, which
    M(runwhere.gpuctl.gpuctl_job) records as the annotation C(runwhere.ai/resumed-at). Restarts of pods and other submits of the same manifest do not
    start it again.
  - The limit is that of the manifest, or what M(runwhere.gpuctl.gpuctl_extend) has made of it, or else C(notebook_default) or C(service_default) of
    the pool (O(runwhere.gpuctl.gpuctl_pool#module:time_limit)). C(notebook_max) and C(service_max) hold for all jobs of the pool, also for those
    that were submitted before.
  - Annotations that are no limit, no time, or a time in the future do not count.
  - Run it on a schedule, at least as often as O(warn_before). Two runs at the same time do no harm.
  - Only jobs created by this collection are looked at.
  - Requires permission to list deployments and statefulsets, and for jobs that are warned of or paused what M(runwhere.gpuctl.gpuctl_job) needs. The
    level V(submit) of M(runwhere.gpuctl.gpuctl_rbac) has both. It acts on the jobs of all users, as an administrator does.
  - Events need C(create) of C(events), which the level V(administer) has in the namespaces of jobs. Without it, no events are written.
options:
  warn_before:
    description:
      - How long before its end a job is warned of, such as V(30m) or V(2h). The longest is V(31d).
      - With V(0), there are no warnings, and what has reached its limit is paused at once.
    type: str
    default: 30m
seealso:
  - module: runwhere.gpuctl.gpuctl_extend
  - module: runwhere.gpuctl.gpuctl_idle
    description: Pause jobs that do nothing.
  - module: runwhere.gpuctl.gpuctl_pool
    description: Defaults and maxima.
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
- name: Pause notebooks and services that have reached their time limit, and warn of those that do so within an hour
  runwhere.gpuctl.gpuctl_expire:
    all_namespaces: true
    warn_before: 1h

- name: Pause those of one team at once
  runwhere.gpuctl.gpuctl_expire:
    namespaces: [team-a]
    warn_before: "0"
"""

RETURN = r"""
namespace:
  description: The namespace that O(all_namespaces=false) stands for; null if others were asked for.
  returned: always, once the cluster was read
  type: str
  sample: team-a
results:
  description:
    - The notebooks and services with a time limit that run, those that end first before the others.
    - C(limit) is the limit that counts, C(since) when its time began, and C(ends_at) when the job is paused. C(reason) says it in words.
    - C(action) is V(warn), V(pause) or V(none), and C(warned_at) when an earlier run has warned of the end.
    - Of a job whose limit cannot be read, C(limit), C(since) and C(ends_at) are null.
  returned: success
  type: list
  elements: dict
  sample:
    - name: data-prep-notebook
      namespace: team-a
      kind: notebook
      limit: 8h
      since: "2026-01-31T08:00:00Z"
      ends_at: "2026-01-31T16:00:00Z"
      warned_at: "2026-01-31T15:30:12Z"
      action: pause
      reason: reached its time limit of 8h at 2026-01-31T16:00:00Z
      error: null
msg:
  description: How many jobs have a time limit, and what was done.
  returned: success
  type: str
  sample: 3 jobs with a time limit, 1 paused, 1 warned of
report:
  description: The name of the report that M(runwhere.gpuctl.gpuctl_show) makes of this result.
  returned: success
  type: str
  sample: ended_jobs
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.limits.expire import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
