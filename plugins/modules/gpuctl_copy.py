#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_copy
short_description: Copy files to or from a job
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Copies a file, or the content of a directory, to or from a running pod of a job. Only jobs created by this collection are
    supported.
  - Only files that differ are transferred. Files that are only at the destination stay.
  - The destination is replaced after all files have arrived and their checksums are verified. Until then, they are in a hidden
    directory C(.gpuctl-copy.*) next to it. If the transfer fails, the destination is left unchanged. The files of a directory are
    replaced one after the other.
  - Files keep their permissions. Directories get those of the source when they are created. Files in the pod belong to the user of
    the container, local files to the user that runs the module.
  - Links are copied as links if they cannot lead out of the directory. Other links, devices, sockets and pipes are not copied, and
    the task warns about them. O(local_path) and O(remote_path) can be links themselves.
  - The image needs C(sh) and common Unix tools, such as C(tar), C(find), C(stat) and C(xargs). Images based on Debian, Ubuntu,
    RHEL or Alpine have them. If the image lacks C(sha256sum), files are transferred even if they are the same.
  - Requires permission to list pods, and to C(get) and C(create) C(pods/exec). An account with
    O(runwhere.gpuctl.gpuctl_rbac#module:level=submit) has the latter only with
    O(runwhere.gpuctl.gpuctl_rbac#module:exec=true). With the permissions of M(runwhere.gpuctl.gpuctl_job_info), error messages
    are more specific.
attributes:
  check_mode:
    support: full
    details:
      - Compares the files without transferring any.
  diff_mode:
    support: full
    details:
      - Shows size, permissions and checksum of the files that change, but not their content.
  idempotent:
    support: partial
    details:
      - Files are compared by their SHA-256 checksums, which are calculated on both sides.
      - If the image lacks C(sha256sum), files that are not empty are copied every time.
options:
  name:
    description: Name of the job. The name of one of its pods stands for the job and O(pod).
    type: str
    required: true
  namespace:
    description: Namespace of the job. The default is that of E(GPUCTL_NAMESPACE), else that of the kubeconfig's context, else V(default).
    type: str
  pod:
    description:
      - Name or number of a pod. Required if more than one pod of the job is running.
      - For a distributed training, the number is the rank (C(NODE_RANK)). For other jobs, pods are numbered by age, and V(0) is
        the oldest.
    type: str
  container:
    description: Name of the container.
    type: str
    default: main
  local_path:
    description:
      - Path to a file or directory on the host that runs the module. With a local connection, that is the controller.
      - With O(state=to_pod), the source. With O(state=from_pod), the destination.
      - Symbolic links on the way to it are followed if their owner is root or the user that the module runs as.
    type: path
    required: true
  remote_path:
    description:
      - Path to a file or directory in the container. A relative path starts from the working directory of the container.
      - With O(state=to_pod), the destination. With O(state=from_pod), the source.
    type: str
    required: true
  state:
    description:
      - The direction. V(to_pod) copies O(local_path) to O(remote_path), and V(from_pod) copies O(remote_path) to O(local_path).
      - If the source is a file, the destination is a file as well, unless it is an existing directory or ends with a slash. Then
        the file is copied into that directory.
      - If the source is a directory, its content is copied into the destination directory. A trailing slash makes no difference.
      - Missing directories are created.
    type: str
    default: to_pod
    choices: [to_pod, from_pod]
seealso:
  - module: runwhere.gpuctl.gpuctl_job
  - module: runwhere.gpuctl.gpuctl_job_log
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Copy a dataset to a notebook
  runwhere.gpuctl.gpuctl_copy:
    name: lab
    namespace: team-a
    local_path: data/
    remote_path: /home/jovyan/work/data

- name: Get the results of a notebook
  runwhere.gpuctl.gpuctl_copy:
    name: lab
    namespace: team-a
    local_path: results/
    remote_path: /home/jovyan/work/results
    state: from_pod

- name: Get a checkpoint from rank 0 of a distributed training
  runwhere.gpuctl.gpuctl_copy:
    name: qwen2-7b-sft
    namespace: team-a
    pod: "0"
    local_path: checkpoints/latest.pt
    remote_path: /output/latest.pt
    state: from_pod
"""

RETURN = r"""
files:
  description: Names of the files, directories and links that are copied or get other permissions, relative to the destination.
  returned: success
  type: list
  elements: str
  sample: ["train.csv", "images/001.png"]
sweep_jobs:
  description: Names of the jobs of a sweep, if O(name) is that of the sweep. The task fails, because it copies to or from one job.
  returned: if O(name) is that of a sweep
  type: list
  elements: str
  sample: [search-1, search-2]
not_copied:
  description: Names of links that lead out of the directory, and of devices, sockets and pipes. They are not copied.
  returned: success
  type: list
  elements: str
  sample: []
size:
  description: Size of the transferred files in bytes.
  returned: success
  type: int
  sample: 1048576
pod:
  description: Name of the pod.
  returned: success
  type: str
  sample: lab-0
namespace:
  description: Namespace of the pod.
  returned: success
  type: str
  sample: team-a
msg:
  description: Number of files.
  returned: success
  type: str
  sample: 2 files and 1 directory copied (1048576 bytes), 5 unchanged
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.copy.copy import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
