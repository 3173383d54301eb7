#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_drift_info
short_description: Find out what differs between a directory of manifests and the cluster, and who changed it
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Compares all pools, quotas, policies, labels of nodes and jobs that a directory declares with the cluster, and returns every
    difference with the field, both values, who made it, when, and when a run of this collection last wrote the object.
  - Who and when is what the API server records in C(metadata.managedFields). That is a program, such as C(kubectl-edit), and the
    user only where an annotation names one. Nothing records who removed a field or deleted an object.
  - What differs because a controller has done its work is no drift, for example the replicas that an autoscaler sets, a pause,
    a restart by C(kubectl rollout restart), or a training that has ended.
  - What others have added to objects of this collection is listed, for example labels and environment variables, and taints and
    cordons of nodes in pools, workloads with the label of a job's name, whose pods pass for those of the job, and autoscalers of a
    job. Nothing of it is ever deleted. So is what O(source) has declared before, and the directory no longer declares.
  - What cannot be planned is among RV(problems), and the rest is compared all the same.
  - Changes nothing, and sends requests that read only. The level V(read) of M(runwhere.gpuctl.gpuctl_rbac) in the whole cluster is
    enough.
options:
  fail_on:
    description:
      - Fail the task if something differs that applying the directory would change (V(error)), also if there is only something that
        it would leave as it is (V(warning)), or never (V(never)). Unless it is V(never), problems fail the task too.
    type: str
    choices: [error, warning, never]
    default: never
seealso:
  - module: runwhere.gpuctl.gpuctl_drift
    description: Gives single fields the declared values again.
  - module: runwhere.gpuctl.gpuctl_show
    description: Prints the result, and writes it as a page or as data.
  - ref: ansible_collections.runwhere.gpuctl.docsite.guide_drift
    description: A guide to drift.
extends_documentation_fragment:
  - runwhere.gpuctl.drift
  - runwhere.gpuctl.manifests.directory
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.concurrency
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.source.compared
  - runwhere.gpuctl.source.cluster
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.info_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Compare the cluster with its directory
  runwhere.gpuctl.gpuctl_drift_info:
    src: cluster/
  register: drift

- name: Show what differs, and write it as a page
  runwhere.gpuctl.gpuctl_show:
    result: "{{ drift }}"
    output: drift.html
"""

RETURN = r"""
results:
  description: The differences, what applying the directory would change first.
  returned: if the manifests could be read, also on failure
  type: list
  elements: dict
  contains:
    id:
      description: The object and the field, as RO(ignore:restore) of M(runwhere.gpuctl.gpuctl_drift) takes them.
      type: str
      sample: Deployment/team-a/chat:spec.replicas
    manifest:
      description: Kind and name of the manifest that declares the object, or would.
      type: str
      sample: inference team-a/chat
    kind:
      description: Kind of the object.
      type: str
    namespace:
      description: Namespace of the object. V(none) for what is in no namespace.
      type: str
    name:
      description: Name of the object.
      type: str
    field:
      description: The field. V(none) if the row is about the whole object.
      type: str
      sample: spec.template.spec.containers[main].image
    change:
      description:
        - V(missing) is a declared object that does not exist. V(changed) is a field with another value, V(removed) one that is not set.
        - V(undeclared) is an object or a field of this collection that is not declared any more. V(added) is what others have added.
      type: str
    level:
      description:
        - V(error) is what applying the directory would change, V(warning) what it would leave as it is.
        - V(info) is no drift. It is what a controller has set, or a job that another user submitted.
      type: str
    declared:
      description: The declared value. V(none) if there is none.
      type: raw
    live:
      description: The value in the cluster. V(none) if there is none. Secrets are masked.
      type: raw
    cause:
      description: Who holds the field. V(others), V(gpuctl) for a run of this collection, V(controller), or V(unknown).
      type: str
    manager:
      description: The field manager that holds the field. V(none) if that is not known.
      type: str
      sample: kubectl-edit
    user:
      description: The user behind the field manager, where an annotation names one.
      type: str
    time:
      description: When the field manager last wrote the object, in UTC. V(none) if that is not known.
      type: str
      sample: "2026-11-22T20:24:28Z"
    last_run:
      description: When a run of this collection last wrote the object. V(none) if that is not known.
      type: str
    submitted_by:
      description: Who submitted the job, for its workload.
      type: str
undeclared:
  description:
    - What O(source) has declared and O(src) no longer declares, each with its C(kind) (V(job), V(quota), V(pool) or V(policy)),
      C(namespace) and C(name), and an C(id) such as V(job/team-a/chat) or V(quota/research).
  returned: if the manifests could be read, also on failure
  type: list
  elements: dict
source:
  description: The source of the manifests. V(none) without one.
  returned: if the manifests could be read, also on failure
  type: str
unmarked:
  description: Number of manifests whose objects do not record their source yet. That is no drift.
  returned: if the manifests could be read, also on failure
  type: int
problems:
  description: What cannot be applied as it is declared, each with its C(kind), C(manifest) and C(problem).
  returned: if the manifests could be read, also on failure
  type: list
  elements: dict
counts:
  description: The numbers of rows by level.
  returned: if the manifests could be read, also on failure
  type: dict
  sample: {error: 2, warning: 1, info: 0}
passed:
  description: Whether nothing was found that O(fail_on) names.
  returned: if the manifests could be read, also on failure
  type: bool
src:
  description: What was compared.
  returned: if the manifests could be read, also on failure
  type: list
  elements: str
msg:
  description: A summary, or the error.
  returned: always
  type: str
  sample: "3 differences in 2 objects: 2 changed, 1 missing."
report:
  description: The name of the report that M(runwhere.gpuctl.gpuctl_show) makes of this result.
  returned: if the manifests could be read, also on failure
  type: str
  sample: drift
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.drift.drift_info import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
