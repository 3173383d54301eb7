# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of modules that compare a directory with a cluster."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  namespace:
    description: Namespace of jobs whose manifest does not specify one. The default is V(default).
    type: str
  takeover:
    description: Whether jobs that another user submitted count as no longer declared too, if the directory does not have them.
    type: bool
    default: false
  audit_annotation:
    description:
      - Annotation in which an admission webhook of the cluster records the user who last changed an object. Kubernetes itself records
        programs, not users.
    type: str
"""
