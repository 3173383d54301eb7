# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter plugin that reads YAML from survey answers. PRIVATE: may change or go at any time."""

from __future__ import annotations

DOCUMENTATION = r"""
name: _bounded_yaml
short_description: Read a YAML text of limited size
author: runwhere.gpuctl contributors (@runwhere)
description:
  - This plugin is for the playbooks and roles of this collection. It may change or be removed at any time.
  - Reads one YAML document, as P(ansible.builtin.from_yaml#filter) does, but refuses what would fill the memory. Aliases that
    repeat too many values, deep nesting and large texts are errors, as in manifests.
  - All values but V(null) are text, as the manifests take them. An empty text is V(null).
options:
  _input:
    description: The YAML text.
    type: str
    required: true
"""

EXAMPLES = r"""
---
- name: Show environment variables from an answer
  ansible.builtin.debug:
    var: gpuctl_env | runwhere.gpuctl._bounded_yaml
"""

RETURN = r"""
_value:
  description: The data.
  type: raw
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.budget import Budget, TooMuchError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.tree import ListNode, MapNode, Node
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.yaml_text import read_yaml


def bounded_yaml(text: Any) -> Any:
    """The data of one document. Raises AnsibleFilterError."""
    if not isinstance(text, str):
        return text
    try:
        documents, errors = read_yaml(text, "text", 1, Budget())
    except TooMuchError as problem:
        raise AnsibleFilterError(f"YAML text: {problem}. Use a manifest.") from None
    if errors:
        raise AnsibleFilterError(f"YAML {errors[0]}")
    if len(documents) > 1:
        raise AnsibleFilterError(f"YAML text: one document expected, got {len(documents)}. Remove the separators.")
    return _plain_data(documents[0][1]) if documents else None


def _plain_data(node: Node) -> Any:
    if isinstance(node, MapNode):
        return {key.text: _plain_data(value) for key, value in node.entries}
    if isinstance(node, ListNode):
        return [_plain_data(item) for item in node.items]
    return None if node.is_null else node.text


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_bounded_yaml": bounded_yaml}
