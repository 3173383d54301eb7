# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option concurrency of modules that write. The argument spec is in module_utils/kube/concurrency.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  concurrency:
    description:
      - Maximum number of concurrent requests. Independent objects, such as jobs, nodes or namespaces, are written
        concurrently. The steps of one job stay in order.
      - If the server responds with C(429 Too Many Requests), all requests pause for the time that it asks for.
    type: int
    default: 10
"""
