#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_job_history_info
short_description: List the runs of jobs, also those whose objects are gone
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Lists the runs of jobs, the newest first, those that Kubernetes has removed as well. They come from the history of each namespace,
    which M(runwhere.gpuctl.gpuctl_job) and M(runwhere.gpuctl.gpuctl_job_history) write, from the ledger of version 1.0, and from what
    is live.
  - Sends a paginated list request for histories, ledgers, each kind of workload, and pods, or one for each namespace in
    O(namespaces).
  - What is not known is V(none). A run that is gone, and whose end was not observed, has the result V(Unknown).
  - Every account that can write ConfigMaps in a namespace can write its history. It is a record, not evidence.
options:
  name:
    description:
      - Name of a job, of one of its pods, or of a sweep, which stands for all of its jobs.
      - If neither a job nor a recorded run has the name, no run is returned, unless O(must_exist) is set.
    type: str
  kind:
    description: Return only runs of jobs of this kind.
    type: str
    choices: [training, inference, notebook, compute]
  user:
    description: Return only runs that this user submitted, as in RV(results[].user) or RV(results[].submitted_by).
    type: str
  namespaces:
    description:
      - Return only runs in these namespaces, which are the teams. The default is the one in which M(runwhere.gpuctl.gpuctl_job)
        would act, see O(all_namespaces).
    type: list
    elements: str
    aliases: [namespace]
  pool:
    description: Return only runs in this pool. V(default) stands for the nodes without a pool.
    type: str
  sweep:
    description: Return only trainings of this matrix.
    type: str
  result:
    description:
      - Return only runs that ended so. V(Deleted) runs were deleted, V(Replaced) ones by another run of the same job. V(TimedOut) ones were stopped at their
        time limit. V(Running) ones have not ended.
    type: list
    elements: str
    choices: [Running, Succeeded, Failed, TimedOut, Deleted, Replaced, Unknown]
  since:
    description:
      - Return only runs that have not ended before this time, such as V(2026-08-01), V(2026-08-01T12:00:00Z), or V(7d) ago.
    type: str
  limit:
    description: Return only so many runs, the newest ones. V(0) returns all.
    type: int
    default: 100
  manifests:
    description: Whether to return the manifests.
    type: bool
    default: false
  must_exist:
    description: Whether to fail if O(name) does not exist. RV(not_found) says what does not.
    type: bool
    default: false
seealso:
  - module: runwhere.gpuctl.gpuctl_job_history
  - module: runwhere.gpuctl.gpuctl_job_info
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
- name: List what has failed in the last week, with the last lines of the logs
  runwhere.gpuctl.gpuctl_job_history_info:
    namespaces: [team-a]
    result: [Failed]
    since: 7d
  register: failures

- name: Get the manifest of the last run of a training, to submit it again
  runwhere.gpuctl.gpuctl_job_history_info:
    name: qwen2-7b-sft
    limit: 1
    manifests: true
  register: last_run
"""

RETURN = r"""
namespace:
  description: The namespace that O(all_namespaces=false) stands for; null if others were asked for.
  returned: success
  type: str
  sample: team-a
total:
  description: Number of the runs, those beyond O(limit) included.
  returned: success
  type: int
  sample: 412
not_found:
  description: A sentence for each name that does not exist, that of a namespace of O(namespaces) included.
  returned: failure, with O(must_exist)
  type: list
  elements: str
msg:
  description: That the job or the sweep has runs, and the other options leave them out.
  returned: success, when O(name) exists and there is no result
  type: str
  sample: Job qwen2-7b-sft has runs, but none that the other options ask for.
results:
  description: The runs, those submitted last first.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the job.
      type: str
    namespace:
      description: Namespace of the job.
      type: str
    kind:
      description: Kind of the job.
      type: str
    uid:
      description: The uid of the workload, which tells runs of the same job apart.
      type: str
    result:
      description: One of V(Running), V(Succeeded), V(Failed), V(TimedOut), V(Deleted), V(Replaced) and V(Unknown).
      type: str
    status:
      description: Status of the job as in RV(runwhere.gpuctl.gpuctl_job_info#module:results[].status). V(none) if its objects are gone.
      type: str
    reason:
      description: Why the result is not known.
      type: str
    exit_code:
      description: Exit code of the container that failed last, or V(0). V(none) if it is not known.
      type: int
    submitted_at:
      description: When the workload was created.
      type: str
    started_at:
      description: When the first pod was bound to a node.
      type: str
    finished_at:
      description: When the run ended.
      type: str
    duration_seconds:
      description: Seconds between RV(results[].started_at) and RV(results[].finished_at).
      type: int
    submitted_by:
      description: Who submitted it, and from where, as in RV(runwhere.gpuctl.gpuctl_job_info#module:results[].submitted_by).
      type: str
    user:
      description: The user alone, of AWX, or else of Kubernetes, or else of the host.
      type: str
    pool:
      description: Pool of the job.
      type: str
    priority:
      description: Priority of the job.
      type: str
    sweep:
      description: Name of its matrix.
      type: str
    gpu_type:
      description: GPU type that the job asked for.
      type: str
    image:
      description: Image of its main container.
      type: str
    gpu_hours:
      description: Hours that its pods held whole GPUs. V(none) if none of them is known.
      type: float
    partition_hours:
      description: Hours that its pods held partitions and shares of GPUs, in their own units.
      type: float
    gpu_hours_exact:
      description: Whether it is known when each of these pods ended. Otherwise, the hours are a lower bound.
      type: bool
    preemptions:
      description: Number of its pods that are known to have been preempted.
      type: int
    manifest_digest:
      description: Digest of the manifest. Runs of the same manifest have the same.
      type: str
    manifest:
      description: The manifest, with its secrets masked. V(none) if it is not known.
      type: dict
    manifest_note:
      description: Why the manifest was not kept.
      type: str
    log:
      description: The last lines of a failure, with secrets masked.
      type: list
      elements: str
  sample:
    - name: qwen2-7b-sft
      namespace: team-a
      result: Failed
      exit_code: 1
      submitted_at: "2026-08-01T08:00:00Z"
      finished_at: "2026-08-01T11:30:00Z"
      user: alice
      gpu_hours: 28.0
      gpu_hours_exact: true
      log: ["RuntimeError: CUDA error: out of memory"]
report:
  description: The name of the report that M(runwhere.gpuctl.gpuctl_show) makes of this result.
  returned: success
  type: str
  sample: history
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_history_info import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
