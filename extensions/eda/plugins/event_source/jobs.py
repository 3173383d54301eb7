# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ansible-rulebook runs this file by its path, without Ansible's import of collections."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

DOCUMENTATION = r"""
---
short_description: Report what happens to GPU jobs, nodes and quotas
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Watches the jobs of a cluster, its nodes and its quotas, and makes an event of each transition, once.
  - Each look at an object is compared with what was reported of it. So a broken connection, an API server that is restarted and a
    restart of the rulebook lose nothing and repeat nothing. What has happened meanwhile is derived from the conditions and times that
    Kubernetes keeps, and from the ledger of the trainings. Such events have C(seen=late). Their C(time) is null where it is unknown.
  - What was reported is kept in O(state_file). Without it, a start begins with what is there, and reports what happens from then on.
  - An event counts as reported when a rule engine has taken it. If the process is killed at that moment, it may come once more, with the
    same C(id).
  - Reads with the permissions of the level V(read) of M(runwhere.gpuctl.gpuctl_rbac), in the whole cluster or in O(namespaces). What the
    account may not read besides workloads is said in a warning, with the events that are missing for it.
  - The connection to Prometheus is described by the options C(prometheus_url), C(prometheus_service), C(prometheus_token) and so on of
    M(runwhere.gpuctl.gpuctl_idle), or by its variables.
  - The connection is described by the same options as that of the modules, such as C(kubeconfig), C(context), C(host) and C(api_key), or by
    the variables E(K8S_AUTH_KUBECONFIG), E(K8S_AUTH_HOST) and so on.
options:
  namespaces:
    description: Report only what happens in these namespaces. The default is all namespaces.
    type: list
    elements: str
    aliases: [namespace]
  allowed_namespaces:
    description: Namespaces that O(namespaces) may name, as for the modules. E(GPUCTL_ALLOWED_NAMESPACES) narrows them further.
    type: list
    elements: str
  cluster:
    description:
      - Name of the cluster, as each event has it in C(cluster) and in its C(message). Without it, C(cluster) is null.
      - For several clusters, give each a source of its own, with its connection and a state file, and here the name of its host in the
        inventory. Rules can then act in the cluster that an event is about, with C(gpuctl_hosts) of the playbooks, or with the limit of a job
        template.
    type: str
  types:
    description: Report only events of these types. The default is all of them.
    type: list
    elements: str
    choices:
      - job.submitted
      - job.started
      - job.pending_too_long
      - job.failed
      - job.succeeded
      - job.preempted
      - job.paused
      - job.resumed
      - job.deleted
      - gpu.idle
      - node.lost
      - quota.nearly_used
  state_file:
    description:
      - File that keeps what was reported. It is created with permissions for its owner alone, and written atomically. Each event source needs
        a file of its own.
      - It grows with the number of jobs that exist, by some 500 bytes for each.
    type: path
  since:
    description:
      - Without a state, also report what has happened in so many seconds before the start.
      - For places where no file outlives the process. The events have the same C(id) after each start.
    type: int
    default: 0
  pending_after:
    description: Seconds that a job may wait for its pods before C(job.pending_too_long).
    type: int
    default: 1800
  quota_percent:
    description:
      - Percentage of a limit whose use is reported with C(quota.nearly_used). It is reported again once the use was 5 percent below that
        in between.
    type: int
    default: 90
  log_lines:
    description: How many of the last lines of the container that has failed to add to C(job.failed), 20 at most.
    type: int
    default: 20
  idle_for:
    description:
      - How long the devices of a job must have done nothing for C(gpu.idle), such as V(90m) or V(2h). Requires O(prometheus_url) or
        O(prometheus_service), or E(GPUCTL_PROMETHEUS_URL), and is looked at every five minutes.
      - What counts as idle is what M(runwhere.gpuctl.gpuctl_idle) says. What is not known counts as use.
    type: str
    default: 1h
  idle_below:
    description: The utilization below which a device does nothing, from 0 to 1.
    type: float
    default: 0.05
  feedback:
    description:
      - Whether an event counts as reported only when the rule engine has stored it. Requires ansible-rulebook with C(--persistence-id).
    type: bool
    default: false
"""

EXAMPLES = r"""
---
- name: Failed trainings
  hosts: localhost
  sources:
    - name: jobs
      runwhere.gpuctl.jobs:
        namespaces: [vision, speech]
        state_file: /var/lib/rulebook/gpu-jobs
        pending_after: 900
  rules:
    - name: A training has failed
      condition: event.type == "job.failed" and event.job_type == "training"
      action:
        run_playbook:
          name: runwhere.gpuctl.notify
          extra_vars:
            gpuctl_notify_service: slack

    - name: A job waits too long
      condition: event.type == "job.pending_too_long"
      action:
        debug:
          msg: "{{ event.message }}"
"""

# Of the collections root: ansible_collections/runwhere/gpuctl/extensions/eda/plugins/event_source/jobs.py
_COLLECTIONS = str(Path(__file__).parents[7])


async def main(queue: asyncio.Queue[Any], args: dict[str, Any]) -> None:
    if _COLLECTIONS not in sys.path:
        sys.path.append(_COLLECTIONS)
    # Not above: what it imports is not needed to read the documentation.
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.asyncio_bridge import run_source

    await run_source(queue, args)
