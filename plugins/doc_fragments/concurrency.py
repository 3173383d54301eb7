# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many requests a writing module has under way; the argument spec is in module_utils/kube/concurrency.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  concurrency:
    description:
      - How many requests the API server is given at a time. What does not depend on each other (jobs, nodes, namespaces) is
        written side by side; the steps of one job stay in their order.
      - When the server answers that it has too many requests, all of them pause for as long as it says.
    type: int
    default: 10
"""
