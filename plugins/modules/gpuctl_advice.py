#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_advice
short_description: Write advice into the manifests that declare the jobs
version_added: 1.2.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Finds the jobs of M(runwhere.gpuctl.gpuctl_advice_info) in manifests on the controller, and replaces what they ask for. Comments, order,
    quotes and line ends are kept, and so is the mode of the file. With C(--diff), it shows the change. The playbook C(advise) runs it.
  - RV(results[].refused) says which value stays as it is, and why. This applies to a value of an anchor, an alias or a merge key, to the
    trainings of a matrix, to a manifest that asks for something else than what runs, and to a file that a symbolic link leads to.
  - Fails for manifests that M(runwhere.gpuctl.gpuctl_job) would refuse, such as templates, and then writes none.
options:
  src:
    description: Manifest files, directories or globs, as for M(runwhere.gpuctl.gpuctl_job).
    type: list
    elements: path
    required: true
  advice:
    description: RV(runwhere.gpuctl.gpuctl_advice_info#module:results).
    type: list
    elements: dict
    required: true
  namespace:
    description: Namespace of the jobs whose manifests have none. By default, these are not found.
    type: str
  running:
    description: What M(runwhere.gpuctl.gpuctl_job) returns in check mode for RV(paths). A manifest that is not what runs is left as it is.
    type: dict
  fits:
    description: What M(runwhere.gpuctl.gpuctl_fit_info) returns for RV(patched). Advice with which a job would never run is refused.
    type: dict
  write:
    description: Whether to write the files.
    type: bool
    default: false
extends_documentation_fragment:
  - runwhere.gpuctl.attributes.controller
seealso:
  - module: runwhere.gpuctl.gpuctl_advice_info
attributes:
  check_mode:
    description: Writes nothing in check mode.
    support: full
  diff_mode:
    description: Shows the manifests before and after, without secrets.
    support: full
"""

EXAMPLES = r"""
---
- name: Find out which jobs have asked for more than they used in the last week
  runwhere.gpuctl.gpuctl_advice_info:
    prometheus_url: "{{ prometheus_url }}"
  register: advice

- name: Write that into the manifests of a checkout
  runwhere.gpuctl.gpuctl_advice:
    src: manifests/
    advice: "{{ advice.results }}"
    namespace: "{{ advice.namespace }}"
    write: true
"""

RETURN = r"""
results:
  description: The advice on jobs that these manifests declare, as in O(advice), with its place.
  returned: success
  type: list
  elements: dict
  contains:
    file:
      description: The file that declares the job. C(line) and C(document) say where in it.
      type: str
    refused:
      description: Why the value stays as it is; null if it does not.
      type: str
undeclared:
  description: The advised jobs that these manifests do not declare, as namespace/name.
  returned: success
  type: list
  elements: str
notes:
  description: What was written or refused, in sentences.
  returned: success
  type: list
  elements: str
paths:
  description: The files that change.
  returned: success
  type: list
  elements: str
patched:
  description: Their text with the advice, and without secrets.
  returned: success
  type: list
  elements: str
"""
