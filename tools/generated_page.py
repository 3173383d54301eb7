# SPDX-License-Identifier: BSD-2-Clause
"""How every generated page of the site begins: license, source, label, title."""

from __future__ import annotations

_HEAD = """..
  Copyright (c) 2026, runwhere.gpuctl contributors
  GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
  SPDX-License-Identifier: GPL-3.0-or-later

.. Generated from {source} by tools/generate_reference.py

.. _ansible_collections.runwhere.gpuctl.docsite.{name}:

{title}
{line}
"""


def page_head(name: str, title: str, source: str) -> str:
    """In reStructuredText. `name` is that of the file without its ending, and the end of the label."""
    return _HEAD.format(name=name, title=title, line="=" * len(title), source=source)
