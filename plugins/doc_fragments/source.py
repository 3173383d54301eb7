# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options about what declares objects. The argument spec is in module_utils/declared_source.py."""

from __future__ import annotations


class ModuleDocFragment:
    # For modules that write.
    DOCUMENTATION = r"""
options:
  source:
    description:
      - Name of what declares the manifests, such as the repository and the directory that they are in. It is recorded on each object, in the
        annotation C(runwhere.ai/source), which restarts nothing. Objects without a source get it.
      - What another source declares is refused, and what no source declares is never listed as no longer declared.
      - With O(state=absent), only what this source declares is deleted.
      - Without it, objects keep the source that they have.
      - The playbook C(runwhere.gpuctl.provision) sets it to the repository of the directory and the path within.
    type: str
    version_added: 1.2.0
  adopt:
    description:
      - Names of other sources whose objects O(source) takes over, where its manifests declare them. Use it after a repository or a directory
        was renamed, or when a manifest has moved from one directory to another.
    type: list
    elements: str
    version_added: 1.2.0
"""

    # For modules that apply or compare quotas.
    CLUSTER = r"""
options:
  cluster:
    description:
      - Name of the cluster of this task, by which quotas with C(clusters) name its share, which is its ResourceQuota. Required if a manifest
        has such a quota, unless it is being deleted.
      - Kubernetes enforces a ResourceQuota in its cluster only. The limit of all clusters together holds because a manifest whose shares
        exceed it is invalid. A cluster without a share has 0 of what is limited.
      - Jobs of a directory that C(placement) in their manifest sends to other clusters are left out, and those that may run in several.
      - The playbooks set it to the host, if that is in the group C(gpuctl_clusters) of the inventory.
    type: str
    version_added: 1.2.0
"""

    # For modules that compare a directory with a cluster.
    COMPARED = r"""
options:
  source:
    description:
      - Name of what declares the manifests, as M(runwhere.gpuctl.gpuctl_job) and others record it on objects. What carries it and is not in
        O(src) is no longer declared.
      - Without it, or if O(src) has anything but directories, nothing is listed as no longer declared.
    type: str
    version_added: 1.2.0
"""

    # For those that say what applying it would do.
    ADOPT = r"""
options:
  adopt:
    description: Names of other sources whose objects O(source) would take over, where its manifests declare them.
    type: list
    elements: str
    version_added: 1.2.0
"""
