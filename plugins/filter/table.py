# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter plugin table."""

from __future__ import annotations

DOCUMENTATION = r"""
name: table
short_description: Format a list of dictionaries as a text table
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Formats a list of dictionaries as a table with aligned columns and one line for each dictionary.
  - Numeric columns are right-aligned. Wide characters, such as Chinese ones, count as two columns.
  - Missing values, V(none) and empty lists are shown as V(-), booleans as V(yes) or V(no), and lists as comma-separated values.
  - Characters that would act on a terminal or hide text, such as escape sequences, are shown as C(\xNN) or C(\uNNNN).
options:
  _input:
    description: Dictionaries to format, for example the results of a module.
    type: list
    elements: dict
    required: true
  columns:
    description:
      - Columns from left to right. Each is a key, or a dictionary with the following suboptions.
      - By default, all keys are used in the order of their first occurrence.
    type: list
    elements: raw
    suboptions:
      key:
        description: Key of the value. Use dots to access nested dictionaries, as in V(resources.gpu).
        type: str
        required: true
      title:
        description: Title of the column. The default is the last part of the key in capitals, with spaces for underscores.
        type: str
      max_width:
        description: Maximum width. Longer values are truncated with an ellipsis. By default, values are not truncated.
        type: int
"""

EXAMPLES = r"""
---
- name: Show the action for each job
  ansible.builtin.debug:
    msg: "{{ (submitted.results | runwhere.gpuctl.table(columns=['name', 'namespace', 'status', 'action'])).splitlines() }}"

- name: Write a report with a custom title and truncated reasons
  ansible.builtin.copy:
    dest: report.txt
    mode: "0644"
    content: |
      {{ submitted.results | runwhere.gpuctl.table(columns=[
           'name', {'key': 'access_urls', 'title': 'WHERE'}, {'key': 'reason', 'max_width': 60}]) }}
"""

RETURN = r"""
_value:
  description: The table, with a header line and without trailing spaces.
  type: str
  sample: |-
    NAME         GPU  STATUS
    qwen2-7b-sft   4  Running
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.text_table import Column, table_lines, title_of


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {"table": table}


def table(rows: Any, columns: Any = None) -> str:
    """`rows` as an aligned table. Raises AnsibleFilterError for arguments of another shape than documented."""
    if isinstance(rows, (str, Mapping)) or not isinstance(rows, Iterable):
        raise AnsibleFilterError(f"table: the input must be a list of dictionaries, not {_type_of(rows)}")
    rows = list(rows)
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise AnsibleFilterError(f"table: element {number} must be a dictionary, not {_type_of(row)}")
    if columns is None:
        columns = list(dict.fromkeys(key for row in rows for key in row))
    elif isinstance(columns, str) or not isinstance(columns, Sequence):
        raise AnsibleFilterError(f"table: columns must be a list, not {_type_of(columns)}")
    return "\n".join(table_lines(rows, [_column(column) for column in columns]))


def _column(given: Any) -> Column:
    if isinstance(given, str):
        given = {"key": given}
    if not isinstance(given, Mapping) or not isinstance(given.get("key"), str):
        raise AnsibleFilterError(
            f"table: invalid column: {given!r}. Use the name of a key, or a dictionary with a key."
        )
    if unknown := set(given) - {"key", "title", "max_width"}:
        raise AnsibleFilterError(
            f"table: unknown key in column {given['key']}: {', '.join(sorted(map(str, unknown)))}. Valid keys: key, "
            f"title, max_width."
        )
    width = given.get("max_width")
    if width is not None and (not isinstance(width, int) or isinstance(width, bool) or width < 1):
        raise AnsibleFilterError(
            f"table: invalid max_width of column {given['key']}: {width!r}. Use an integer above 0."
        )
    title = given.get("title")
    if title is None:
        title = title_of(given["key"])
    return Column(str(given["key"]), str(title), width)


def _type_of(value: Any) -> str:
    return f"{value!r} of type {type(value).__name__}" if isinstance(value, (str, int, float)) else type(value).__name__
