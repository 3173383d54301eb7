#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_multikueue
short_description: Declare the worker clusters of Kueue's MultiKueue
version_added: 1.2.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Makes the cluster of this task the manager of MultiKueue. Kueue there hands the trainings of pools with the queue V(multikueue) to one of
    O(workers), which it chooses.
  - In each worker, creates the service account C(gpuctl-multikueue) in the namespace C(gpuctl-system), which may write Jobs and Workloads of
    Kueue, and watch what else Kueue looks at. In the manager, creates a Secret with a kubeconfig for that account and a
    MultiKueueCluster for each worker, and the MultiKueueConfig and AdmissionCheck C(gpuctl-multikueue).
  - The queues themselves come from pools and quotas, see M(runwhere.gpuctl.gpuctl_pool). A warning names those that a worker lacks.
  - If one of the clusters cannot be reached, nothing is changed.
options:
  workers:
    description:
      - All worker clusters, the most preferred one first, at most 20. What this module has declared of others is deleted from the manager;
        their accounts are left. An empty list deletes all of it.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the MultiKueueCluster.
        type: str
        required: true
      server:
        description: URL of the API server as the manager reaches it. The default is the URL that this task uses.
        type: str
      connection:
        description: Connection options of this module for the worker, such as V(kubeconfig) and V(context).
        type: dict
        required: true
  kueue_namespace:
    description: Namespace in which Kueue runs in the manager.
    type: str
    default: kueue-system
  days:
    description: Number of days that a new token is valid, at most 3650. The API server may grant less.
    type: int
    default: 90
  renew_days:
    description: Number of days before its end from which a token is replaced.
    type: int
    default: 30
notes:
  - Requires the permissions of a cluster administrator in all of the clusters. No level of M(runwhere.gpuctl.gpuctl_rbac) has them.
  - Requires Kueue 0.15 or later in all of the clusters. What is written has been held to its CRDs, not to its running controllers.
seealso:
  - module: runwhere.gpuctl.gpuctl_pool
    description: Declare pools and their queues.
  - name: MultiKueue
    description: What Kueue does with it.
    link: https://kueue.sigs.k8s.io/docs/concepts/multikueue/
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
attributes:
  check_mode:
    support: full
    details: Issues no token. Whether the API servers would grant one is not known.
  diff_mode:
    support: full
    details: Hides the kubeconfigs.
  idempotent:
    support: full
    details: Until a token is close to its end.
"""

EXAMPLES = r"""
---
- name: Declare two worker clusters
  runwhere.gpuctl.gpuctl_multikueue:
    workers:
      - name: lyon
        connection: {kubeconfig: ~/.kube/config, context: lyon}
      - name: oregon
        connection: {kubeconfig: ~/.kube/config, context: oregon}

- name: Delete all that was declared
  runwhere.gpuctl.gpuctl_multikueue:
    workers: []
"""

RETURN = r"""
results:
  description: One entry for each worker, and for each that is deleted.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the MultiKueueCluster.
      type: str
    action:
      description:
        - The change that was made, or would be made in check mode. One of V(create), V(update), V(unchanged) and V(delete).
      type: str
    server:
      description: URL of the API server in the kubeconfig. V(none) if it is deleted.
      type: str
    expires:
      description: When the token expires. V(none) if it is yet to be issued.
      type: str
      sample: "2026-03-01T09:30:00Z"
    active:
      description: Whether Kueue says that it is connected. V(none) if it has not said so yet, such as right after the first task.
      type: bool
    reason:
      description: Why Kueue is not connected.
      type: str
      sample: "InsecureKubeConfig: insecure TLS verification is not allowed for cluster lyon"
msg:
  description: Summary of the changes.
  returned: success
  type: str
  sample: "2 workers: 1 create, 1 unchanged"
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.multikueue import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
