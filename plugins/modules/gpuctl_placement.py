#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_placement
short_description: Claim a cluster for a job, so that no other cluster gets it as well
version_added: 1.2.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Records in one cluster, the home cluster, in which of several clusters a job is placed. The playbook C(submit) with
    C(gpuctl_clusters) claims a cluster before it submits the job there, and the playbook C(delete) releases it.
  - The record is the ConfigMap C(gpuctl-placement-<job>) in the namespace of the job. Of two tasks that claim a job at the same
    time, one creates it. The other one changes nothing, and returns what the first one has claimed.
  - A placement never changes by itself, also if the task that has claimed it was interrupted before it submitted the job. It is
    replaced if its cluster is in O(assume_lost), or is O(move_from), and removed by O(state=absent).
  - Without a job, it lists the placements of O(namespace).
  - Run it on the home cluster, for example with C(delegate_to). It sends nothing to the cluster that it claims.
  - The level V(submit) of M(runwhere.gpuctl.gpuctl_rbac) in the namespace of the job is enough.
options:
  state:
    description:
      - V(present) claims O(cluster) unless the job is placed already. Without O(cluster), it only reads the placement.
      - V(absent) releases the placement, so that the job can be placed again. Delete the job itself first.
    type: str
    choices: [present, absent]
    default: present
  src:
    description:
      - The manifest file of the job. It must have exactly one to claim or release its placement. Without O(cluster), the placements of
        several jobs are read as well.
      - Exactly one of O(src), O(definition) and O(name) names the job. Without them, placements are listed.
    type: list
    elements: path
  definition:
    description: The manifest of the job as a dictionary or YAML text.
    type: raw
  name:
    description: Name of the job.
    type: str
  namespace:
    description:
      - Namespace of a job whose manifest does not specify one, or of the job O(name). By default that of E(GPUCTL_NAMESPACE), else
        that of the kubeconfig's context, else V(default).
    type: str
  all_namespaces:
    description: Whether to list the placements of all namespaces.
    type: bool
    default: false
  allowed_namespaces:
    description:
      - Namespaces that the task may act in. By default all that the account may use. E(GPUCTL_ALLOWED_NAMESPACES) limits them as well.
    type: list
    elements: str
  cluster:
    description: Name of the cluster to claim, as in the inventory.
    type: str
  reason:
    description: Why it is this cluster. It is recorded for people.
    type: str
  assume_lost:
    description:
      - Clusters that are assumed to be lost with all that they ran. If the job is placed in one of them, O(cluster) replaces it. Who has
        assumed it, and when, is recorded.
      - If such a cluster comes back, the job may run twice.
    type: list
    elements: str
  move_from:
    description:
      - Begins to move a job. If it is placed in this cluster, O(cluster) replaces it, and the record says that the job is leaving
        this one. If it is placed elsewhere, nothing changes.
      - Delete the job there next, and submit it in O(cluster) then. A task with O(cluster) alone ends the move. Until then, no run
        of the playbook C(submit) changes the job.
      - With the two clusters the other way around, the job stays where it was.
    type: str
  placement:
    description:
      - What C(placement) of the manifest of the job O(name) says. It is recorded, and moves keep to it. An empty dictionary if it says
        nothing. By default, what is recorded stays.
    type: dict
  clusters:
    description: With O(state=absent), release the placement only if it is in one of these clusters. By default in any.
    type: list
    elements: str
seealso:
  - module: runwhere.gpuctl.gpuctl_job
  - module: runwhere.gpuctl.gpuctl_fit_info
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: The result has the placement.
  idempotent:
    support: full
"""

EXAMPLES = r"""
---
- name: Claim the cluster lyon for a job
  runwhere.gpuctl.gpuctl_placement:
    name: sft
    namespace: team-a
    cluster: lyon
    reason: chosen by hand
  register: placement

- name: Submit the job if lyon is its cluster
  runwhere.gpuctl.gpuctl_job:
    src: sft.yaml
    namespace: team-a
  when: placement.cluster == 'lyon'

- name: List what is placed
  runwhere.gpuctl.gpuctl_placement:
    all_namespaces: true
  register: placed

- name: Release the placement of a job that was deleted
  runwhere.gpuctl.gpuctl_placement:
    state: absent
    name: sft
    namespace: team-a
"""

RETURN = r"""
name:
  description: The name of the job.
  returned: if one job is given
  type: str
  sample: sft
namespace:
  description: The namespace of the job.
  returned: if one job is given
  type: str
  sample: team-a
cluster:
  description: The cluster in which the job is placed, with O(state=absent) was placed. V(none) if it is not.
  returned: if one job is given
  type: str
  sample: lyon
reason:
  description: Why it is this cluster.
  returned: if one job is given
  type: str
  sample: It runs there now.
claimed_by:
  description: Who has claimed it.
  returned: if one job is given
  type: str
  sample: Kubernetes user alice (alice on laptop)
claimed_at:
  description: When, in UTC.
  returned: if one job is given
  type: str
  sample: "2026-03-01T10:00:00.000000Z"
assumed_lost:
  description: The clusters that were assumed to be lost before, each with C(cluster), C(by) and C(at).
  returned: if one job is given
  type: list
  elements: dict
  sample: [{cluster: oregon, by: alice on laptop, at: "2026-03-01T10:00:00.000000Z"}]
leaving:
  description: The cluster that the job leaves, until its move has ended.
  returned: if one job is given
  type: str
  sample: oregon
moved_from:
  description: The clusters that the job has left, the last ten, each with C(cluster), C(by) and C(at).
  returned: if one job is given
  type: list
  elements: dict
  sample: [{cluster: oregon, by: alice on laptop, at: "2026-03-02T10:00:00.000000Z"}]
placement:
  description: What C(placement) of the manifest says, or with O(name), what is recorded of that. V(none) if it says nothing.
  returned: if one job is given
  type: dict
  sample: {clusters: [lyon], groups: [], order: free}
image:
  description: The image of the job in the manifest.
  returned: if O(src) or O(definition) is given without O(cluster)
  type: str
  sample: registry.example.com/train:v1
placements:
  description: Without O(name), the placement of each job, with the values above. Those of manifests begin with the highest priority.
  returned: without O(name), O(cluster) and O(state=absent)
  type: list
  elements: dict
  sample: [{name: sft, namespace: team-a, cluster: lyon}]
default_namespace:
  description: Namespace of jobs whose manifest does not specify one.
  returned: if O(src) or O(definition) is given without O(cluster)
  type: str
  sample: team-a
msg:
  description: A summary, or the error.
  returned: always
  type: str
  sample: job sft is placed in lyon
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.placement.placement import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
