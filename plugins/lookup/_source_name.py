# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup plugin of the playbooks that names the source of manifests. PRIVATE: may change or go at any time."""

from __future__ import annotations

DOCUMENTATION = r"""
name: _source_name
short_description: Name the source of manifests
author: runwhere.gpuctl contributors (@runwhere)
description:
  - This plugin is for the playbooks of this collection. It may change or be removed at any time.
  - Names the repository that paths are in, with the path within, or else their directory.
options:
  _terms:
    description: Lists of paths.
    type: list
    elements: raw
    required: true
"""

EXAMPLES = r"""
---
- name: Show the source of a directory
  ansible.builtin.debug:
    msg: "{{ lookup('runwhere.gpuctl._source_name', ['cluster/']) }}"
"""

RETURN = r"""
_list:
  description: The name of the source of each list of paths.
  type: list
  elements: str
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.source_name import source_name


class LookupModule(LookupBase):  # type: ignore[misc]
    def run(
        self, terms: Sequence[Sequence[str]], variables: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> list[str]:
        return [source_name([str(path) for path in paths]) for paths in terms]
