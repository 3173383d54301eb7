#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_status
short_description: Show pools, quotas and jobs as tables, and why jobs are not running
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Prints the pools, the quotas and the jobs of a cluster as text, whichever callback plugin is in use, and returns them as data.
  - The text fits the terminal, or 80 columns if there is none. On a narrow one, jobs are shown without their pool, number of
    ready pods, kind, restarts, remaining time and URL, in this order, and then names are cut.
  - Of many jobs, those that are not running are shown first, and the others are counted. Trainings of one matrix share a row,
    and jobs that wait for the same reason share its text.
  - Fails if the namespace, pool, node, GPU type or job that an option names does not exist.
  - Requires permission to list jobs, deployments, statefulsets and pods. What else cannot be read is not shown, and the text
    says why. With the level V(submit) of M(runwhere.gpuctl.gpuctl_rbac), for example, the GPUs of nodes and pools are shown, but
    not how many of them are in use.
options:
  name:
    description: Name of a job, of one of its pods, or of a sweep. By default, all jobs are shown.
    type: str
  kind:
    description: Show only jobs of this kind.
    type: str
    choices: [training, inference, notebook, compute]
  pool:
    description: Show only this pool, its nodes and its jobs. V(default) stands for the nodes without a pool.
    type: str
  nodes:
    description: Show only these nodes.
    type: list
    elements: str
    version_added: 1.2.0
  gpu_type:
    description: Show only nodes with this GPU type, in upper or lower case.
    type: str
    version_added: 1.2.0
  label_keys:
    description:
      - Keys of the labels that O(table=nodes) shows, instead of the GPUs. The prefix C(runwhere.ai/) is added to a key without a prefix.
    type: list
    elements: str
    version_added: 1.2.0
  status:
    description:
      - Show only jobs with this status. One of V(Pending), V(Running), V(Partially Running), V(Paused), V(Succeeded),
        V(Failed), V(TimedOut) and V(Unknown), case-insensitive.
      - With O(table=nodes), only nodes with this status, as in M(runwhere.gpuctl.gpuctl_node_info).
    type: str
  namespaces:
    description:
      - Show only jobs and quotas in these namespaces. The default is the namespace of the environment variable E(GPUCTL_NAMESPACE), else
        that of the kubeconfig's context, else V(default), see O(all_namespaces).
      - With O(all_namespaces), an account that may not list the jobs of the whole cluster gets the default, with a warning.
    type: list
    elements: str
    aliases: [namespace]
  table:
    description: Print only this table. By default, all but V(nodes).
    type: str
    choices: [jobs, nodes, pools, quotas]
    version_added: 1.2.0
  format:
    description:
      - V(json) and V(yaml) print the rows as data, as they are returned, instead of as a table. Without O(table), they are under the
        names of the tables.
      - With the callback plugin P(runwhere.gpuctl.plain#callback), the playbook prints nothing else to its standard output.
    type: str
    choices: [table, json, yaml]
    default: table
    version_added: 1.2.0
  pods:
    description: Whether to show the pods of the jobs, with their nodes and IP addresses.
    type: bool
    default: false
  all:
    description: Whether to show all jobs, nodes, pools, quotas and reasons, however many there are.
    type: bool
    default: false
  watch:
    description:
      - Read and print again after this number of seconds, until the playbook is interrupted with Ctrl-C.
      - On a terminal, each screen replaces the one before it. Under ansible-runner and in AWX, which keep every screen, it is
        printed every 30 seconds at most.
      - An error, such as a lost connection, is printed once, and the next screen follows when it has passed.
    type: int
  show:
    description: Whether to print the tables. V(false) only returns them, for example for O(clusters) of another task.
    type: bool
    default: true
    version_added: 1.2.0
  clusters:
    description:
      - What tasks of this module have returned for several clusters, by the name of the cluster. It is shown as one, and no cluster is
        read. Each row names its cluster, and a cluster whose task has failed is shown with the error.
      - Or the name of the variable in which the clusters of the play have registered it, which is faster. Then only RV(clusters) is
        returned.
    type: raw
    version_added: 1.2.0
seealso:
  - module: runwhere.gpuctl.gpuctl_job_info
  - module: runwhere.gpuctl.gpuctl_node_info
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.connection.all_namespaces
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Show the jobs of a team, and its quota
  runwhere.gpuctl.gpuctl_status:
    namespaces: [team-a]

- name: Show the nodes of a pool
  runwhere.gpuctl.gpuctl_status:
    table: nodes
    pool: training-pool

- name: Show where the pods of notebooks run
  runwhere.gpuctl.gpuctl_status:
    kind: notebook
    pods: true

- name: Read the status of each cluster of an inventory
  runwhere.gpuctl.gpuctl_status:
    show: false
  register: found

- name: Show the status of all of them in one
  runwhere.gpuctl.gpuctl_status:
    clusters: found
  run_once: true
"""

RETURN = r"""
jobs:
  description:
    - The jobs, as RV(runwhere.gpuctl.gpuctl_job_info#module:results), with C(restarts) of their containers, C(nodes) of their
      pods, and C(running_for), the time since the last of their containers has started.
  returned: success
  type: list
  elements: dict
  sample: [{name: qwen2-7b-sft, namespace: team-a, status: Running, restarts: 0, running_for: 3h, nodes: [node-1]}]
pods:
  description: The pods of the jobs, as RV(runwhere.gpuctl.gpuctl_job_info#module:pods). Empty without O(pods=true).
  returned: success
  type: list
  elements: dict
pools:
  description:
    - The pools, as RV(runwhere.gpuctl.gpuctl_pool_info#module:results). What is used, what is free and the jobs are V(none) if the
      account may not list the pods of all namespaces.
  returned: success
  type: list
  elements: dict
quotas:
  description: The quotas, as RV(runwhere.gpuctl.gpuctl_quota_info#module:results).
  returned: success
  type: list
  elements: dict
nodes:
  description:
    - The nodes that can be read, as RV(runwhere.gpuctl.gpuctl_node_info#module:results). What is used and free is V(none) if the
      account may not list the pods of all namespaces.
  returned: success
  type: list
  elements: dict
format:
  description: How the rows were printed, as O(format).
  returned: success
  type: str
  sample: table
namespace:
  description: The namespace that is shown because the environment or the kubeconfig's context names it. Otherwise V(none).
  returned: success
  type: str
  sample: team-a
clusters:
  description: One entry for each cluster. The rows of the other return values have the name of theirs as C(cluster).
  returned: with O(clusters)
  type: list
  elements: dict
  contains:
    cluster:
      description: Name of the cluster.
      type: str
    error:
      description: Why it could not be read. V(none) if it could.
      type: str
    is_found:
      description: Whether it has the job, pool or namespace that an option names.
      type: bool
    namespace:
      description: As RV(namespace).
      type: str
    unreadable:
      description: As RV(unreadable).
      type: dict
not_found:
  description: What does not exist.
  returned: if the task fails because a namespace, pool or job does not exist
  type: list
  elements: str
unreadable:
  description:
    - The errors for what the account may not read, by V(quotas), V(nodes), V(usage) and V(pools). V(nodes) stands for pools, too,
      V(usage) for what is used and free of them, and V(pools) for pools without nodes.
  returned: success
  type: dict
  sample: {}
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.overview import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
