# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of modules that compare a directory with a cluster."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  src:
    description:
      - Manifest files, directories or globs, with all that the cluster is supposed to have. Directories are searched recursively for
        C(*.yaml) and C(*.yml) files.
    type: list
    elements: path
    required: true
  policies:
    description: Files with manifests of kind C(policy), as for M(runwhere.gpuctl.gpuctl_policy).
    type: list
    elements: path
  node_labels:
    description: Labels of nodes, by the name of the node, as for M(runwhere.gpuctl.gpuctl_node_label).
    type: dict
  namespace:
    description: Namespace of jobs whose manifest does not specify one. The default is V(default).
    type: str
  takeover:
    description: Whether jobs that somebody else submitted count as no longer declared too, if the directory does not have them.
    type: bool
    default: false
  audit_annotation:
    description:
      - Annotation in which an admission webhook of the cluster records the user who last changed an object. Kubernetes itself records
        programs, not users.
    type: str
"""
