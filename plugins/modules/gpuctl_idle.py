#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_idle
short_description: Find jobs that hold GPUs without using them or get nowhere, warn of them, and pause them later
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - A job is idle if all of its pods hold their accelerators for O(idle_for), and the utilization of none of them has reached O(below) in that
    time, according to Prometheus.
  - What is not known counts as use. A job whose utilization is known for less than 90 percent of the time is not idle, nor is one
    whose containers were started later.
  - A notebook is idle only if it is not in use either. Jupyter is asked for its last activity, open connections and busy kernels,
    through the API server. A notebook that does not answer is not idle.
  - With O(action=annotate) or O(action=pause), an idle job is warned of first. It gets the annotation C(runwhere.ai/idle-warned-at) with the time, and an
    event. The annotation is removed once the job is no longer idle.
  - With O(action=pause), O(prometheus_url) or O(prometheus_service) has to be set, also by its variable. What decides over jobs is not looked
    for.
  - With O(action=pause), a job that is still idle O(grace) after the warning is paused as by O(runwhere.gpuctl.gpuctl_job#module:state=paused). Its
    pods are deleted, with what a training has not saved in a checkpoint and with the kernels of a notebook. Nothing else is lost, and
    O(runwhere.gpuctl.gpuctl_job#module:state=resumed) starts them again.
  - Where the budget of GPU-hours of a namespace is used up (see M(runwhere.gpuctl.gpuctl_budget)), and says C(then=stop_idle), O(action=annotate) pauses
    as O(action=pause) does, until its period ends. A warning from before that does not count, because it did not say so. Exemptions and evidence
    are the same, and O(prometheus_url) or O(prometheus_service) has to be set for it. V(report) only says where that is so.
  - RV(findings) lists what else runs or holds something and does nothing. See O(policies) for what is done about it, which is nothing by default.
  - A training is C(stuck) if its accelerators are idle, and none of its pods has written a line to its log, for the time in O(policies). It is only
    looked for where a policy is about it.
  - C(crash_loop) is a notebook or service of which each pod has been restarted five times, and waits to be restarted again or has failed and not been
    ready for ten minutes since.
  - C(half_gang) is a training of which some pods hold accelerators while the scheduler finds no node for the others. C(waiting) is a job for none of
    whose pods it finds a node. Jobs that wait in queues of Kueue are not looked at.
  - C(paused) is a paused job that keeps claims, and C(unused_claim) a claim of this collection that neither a job nor a pod of this collection
    mounts. Pods of others may mount it. Claims are named, and never deleted.
  - What a job held when it was paused or deleted is recorded in the history of its namespace, and M(runwhere.gpuctl.gpuctl_usage_info) counts it as
    C(gpus_reclaimed).
  - Run it on a schedule. Each run compares what it finds with the annotations, and there is nothing else to keep.
  - Only jobs created by this collection are looked at.
  - Requires permission to list jobs, deployments, statefulsets and pods, and with O(action=annotate) or O(action=pause) what
    M(runwhere.gpuctl.gpuctl_job) needs, which the level V(submit) of M(runwhere.gpuctl.gpuctl_rbac) has.
  - No level has C(get) of C(pods/proxy), by which notebooks are asked. Without it, notebooks count as used. Events need C(create) of
    C(events), which the level V(administer) has in the namespaces of jobs. Without it, no events are written.
  - Budgets need the permission to list resourcequotas, which the levels V(read) and V(submit) have. Without it, no job is paused because of one.
  - Stuck trainings need C(get) of C(pods/log), and RV(findings) the permission to list persistentvolumeclaims. Without them, these are not found.
options:
  policies:
    description:
      - What is done about RV(findings), by pool. V(all) is for pools that are not named, V(default) for the nodes without a pool.
      - For each of C(stuck), C(crash_loop), C(half_gang), C(waiting) and C(paused) it has C(after), from V(5m) to V(31d), and C(action), which is
        V(notify), V(pause) or V(stop). Jobs of kinds of findings that it does not name are listed, and left alone.
      - A job that is found for C(after) is warned of, by an event and the annotation C(runwhere.ai/reclaim-warned). With V(pause) it is paused, and
        with V(stop) it is deleted, O(grace) later at the earliest, if it is still the same then. Both keep its claims. A warning is withdrawn if the job is
        well again.
      - Nothing in the cluster says since when a job is in a crash loop. It counts from the warning.
      - V(paused) can only be notified of. Stuck trainings with V(pause) or V(stop) need O(prometheus_url) or O(prometheus_service).
      - For trainings, a policy on C(stuck) takes the place of O(action), and of a budget with C(then=stop_idle).
    type: dict
  longest_exemption:
    description:
      - The longest time for which a job is left alone by its annotation C(runwhere.ai/idle-exempt-until), which
        O(runwhere.gpuctl.gpuctl_extend#module:exempt_until) sets. A time further ahead does not count.
    type: str
    default: 14d
  idle_for:
    description:
      - For how long accelerators must not have been used, such as V(30m), V(2h) or V(1d). The minimum is V(5m).
      - By default, what the policy of the namespace says of notebooks (C(notebooks.idle_for)), and otherwise V(1h).
    type: str
  below:
    description:
      - The utilization from which on an accelerator is in use, as a ratio.
      - By default, what the policy of the namespace says of notebooks (C(notebooks.below)), and otherwise V(0.05).
    type: float
  grace:
    description: How long after the warning a job is paused or deleted at the earliest.
    type: str
    default: 1h
  action:
    description:
      - V(report) changes nothing. V(annotate) warns of idle jobs. V(pause) warns of them first, and pauses them after O(grace). In namespaces whose
        used-up budget says C(then=stop_idle), so does V(annotate).
      - Jobs are warned of and paused no matter who has submitted them.
    type: str
    choices: [report, annotate, pause]
    default: report
  exempt_names:
    description: Names of jobs to leave alone, with C(*) for any text.
    type: list
    elements: str
  exempt_kinds:
    description: Kinds of jobs to leave alone.
    type: list
    elements: str
    choices: [training, inference, notebook, compute]
  exempt_selectors:
    description:
      - Label selectors of jobs to leave alone, such as V(runwhere.ai/priority=high). A job that one of them selects is left alone.
    type: list
    elements: str
notes:
  - The token of a notebook is part of the URL that the API server is asked for, because it does not pass on credentials in headers. Audit logs of
    the API server contain it.
seealso:
  - module: runwhere.gpuctl.gpuctl_extend
    description: Exempt a job for some time.
  - module: runwhere.gpuctl.gpuctl_policy
    description: Limits of notebooks, by team.
  - module: runwhere.gpuctl.gpuctl_budget
  - module: runwhere.gpuctl.gpuctl_job
  - module: runwhere.gpuctl.gpuctl_job_metrics_info
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.concurrency
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.connection.all_namespaces
  - runwhere.gpuctl.prometheus
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.write_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Pause what gets nowhere in the training pool, and tell the owners of what waits for days
  runwhere.gpuctl.gpuctl_idle:
    all_namespaces: true
    policies:
      training-pool:
        stuck: {after: 6h, action: pause}
        half_gang: {after: 2h, action: pause}
      all:
        crash_loop: {after: 1d, action: stop}
        waiting: {after: 3d, action: notify}
    prometheus_url: "{{ prometheus_url }}"

- name: List jobs that have not used their GPUs for two hours
  runwhere.gpuctl.gpuctl_idle:
    all_namespaces: true
    idle_for: 2h
    prometheus_url: "{{ prometheus_url }}"
  register: idle

- name: Warn of idle jobs, and pause those that were warned of four hours ago, but no service with a high priority
  runwhere.gpuctl.gpuctl_idle:
    namespaces: [team-a]
    idle_for: 2h
    grace: 4h
    action: pause
    exempt_kinds: [inference]
    exempt_selectors: [runwhere.ai/priority=high]
    prometheus_url: "{{ prometheus_url }}"
"""

RETURN = r"""
findings:
  description:
    - What else does nothing. C(finding) is V(stuck), V(crash_loop), V(half_gang), V(waiting), V(paused) or V(unused_claim), and null for a job that
      was warned of and is well again.
    - C(reason) is the evidence, C(since) when it began, null where that is not known, C(gpus) and C(claims) what is held.
    - C(then) and C(after) are those of O(policies). C(action) is V(warn), V(clear), V(pause), V(stop) or V(none).
  returned: success
  type: list
  elements: dict
  sample:
    - name: bert
      namespace: team-a
      kind: training
      pool: training-pool
      finding: half_gang
      reason: "holds 24 accelerators with 3 of its 4 pods, and there is no node for the others: 0/4 nodes are available"
      since: "2026-01-31T08:00:00Z"
      gpus: 24
      claims: []
      then: pause
      after: 4 h
      warned_at: null
      action: warn
      error: null
namespace:
  description: The namespace that O(all_namespaces=false) stands for; null if others were asked for.
  returned: always, once the cluster was read
  type: str
  sample: team-a
results:
  description:
    - The jobs that hold accelerators, the idle ones first, and jobs that were warned of.
    - C(reason) says why a job counts as idle or not. C(utilization) is the highest of any of its accelerators, and C(coverage) the share of the time for
      which it is known, of the pod of which least is known.
    - C(idle_for) and C(below) are the limits of the job, and C(set_by) is the policy that has set one of them.
    - C(used_up_until) is the time until which the GPU-hours of the namespace of an idle job are used up, so that the job is paused; null otherwise.
    - C(action) is V(warn), V(clear) for a warning that was withdrawn, V(pause) or V(none).
  returned: success
  type: list
  elements: dict
  sample:
    - name: data-prep-notebook
      namespace: team-a
      kind: notebook
      devices: 1
      held_since: "2026-01-31T08:00:00Z"
      idle: true
      reason: at most 0 % utilization in the last 2 h, and the notebook has not been used for 5 h
      utilization: 0.0
      coverage: 1.0
      idle_for: 2 h
      below: 0.05
      set_by: policy company (gpu-admins@example.com)
      used_up_until: null
      warned_at: null
      action: warn
      error: null
msg:
  description: How many jobs are idle, and what was done.
  returned: success
  type: str
  sample: 1 idle job with 1 accelerator, 1 warned of
report:
  description: The name of the report that M(runwhere.gpuctl.gpuctl_show) makes of this result.
  returned: success
  type: str
  sample: idle_jobs
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.idle.idle_jobs import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
