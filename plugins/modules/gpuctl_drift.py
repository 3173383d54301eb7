#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_drift
short_description: Restore single fields that others have changed
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Gives fields that M(runwhere.gpuctl.gpuctl_drift_info) lists the values that a directory of manifests declares, and removes what
    others have added. All other fields stay as they are, also those that differ.
  - Conflicts with other field managers are overwritten for these fields only.
  - Objects that are missing are created by applying the directory, not by this module.
  - A field that is as declared is left as it is, with a warning, so that the task can be run again.
options:
  restore:
    description: The fields, as C(id) of the rows of M(runwhere.gpuctl.gpuctl_drift_info), such as V(Deployment/team-a/chat:spec.replicas).
    type: list
    elements: str
    required: true
seealso:
  - module: runwhere.gpuctl.gpuctl_drift_info
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
  - runwhere.gpuctl.attributes.write_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Undo a manual change of the number of replicas
  runwhere.gpuctl.gpuctl_drift:
    src: cluster/
    restore:
      - Deployment/team-a/chat:spec.replicas
"""

RETURN = r"""
results:
  description:
    - The rows of M(runwhere.gpuctl.gpuctl_drift_info) for the fields, as they were, each with its C(action), which is V(update), or
      V(unchanged) with an C(error).
  returned: if the manifests could be read, also on failure
  type: list
  elements: dict
diff:
  description: The values before and after.
  returned: in diff mode
  type: list
  elements: dict
msg:
  description: A summary, or the errors.
  returned: always
  type: str
  sample: 1 field restored
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.drift.restore import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
