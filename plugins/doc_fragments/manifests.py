# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of modules that take manifests."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  src:
    description:
      - Manifest files, directories or globs. Directories are searched recursively for C(*.yaml) and C(*.yml) files.
      - Manifests of other kinds are validated but otherwise ignored, so one directory can hold all of them.
      - The files are not templates. To render one, use O(definition) with P(ansible.builtin.template#lookup).
      - The paths are on the host that runs the module. With a local connection, that is the controller.
      - Mutually exclusive with O(definition) and O(name).
    type: list
    elements: path
  definition:
    description:
      - The manifests as a dictionary, a list of dictionaries, or YAML text with one or more documents.
      - Mutually exclusive with O(src) and O(name).
    type: raw
  allow_empty:
    description: Whether to accept O(src) or O(definition) without any manifest for this module. If V(false), that is an error.
    type: bool
    default: false
"""

    # For modules that apply objects with server-side apply.
    CONFLICTS = r"""
options:
  force_conflicts:
    description:
      - Whether to overwrite fields that another field manager, such as C(kubectl edit) or a controller, has changed. If
        V(false), the task fails and reports the fields and their managers.
    type: bool
    default: false
"""

    # For modules that compare a directory with a cluster.
    DIRECTORY = r"""
options:
  src:
    description:
      - Manifest files, directories or globs, with all that the cluster is supposed to have. Directories are searched recursively for
        C(*.yaml) and C(*.yml) files.
    type: list
    elements: path
    required: true
  policies:
    description: Files with a manifest of kind C(policy) each, as for M(runwhere.gpuctl.gpuctl_policy).
    type: list
    elements: path
  node_labels:
    description: Labels of nodes, by the names of the nodes, as for the role C(runwhere.gpuctl.node_labels).
    type: dict
"""

    JOB_NAMESPACE = r"""
options:
  namespace:
    description:
      - Namespace of jobs whose manifest does not specify one. The default is that of E(GPUCTL_NAMESPACE), else that of the
        kubeconfig's context, else V(default).
    type: str
"""
