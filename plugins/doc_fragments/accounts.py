# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of modules that account for a range of time, beside their option range. The argument spec is in
module_utils/insight/usage/usage_options.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  start:
    description: Beginning of the range, such as V(2026-08-01), V(2026-08-01T12:00:00Z) or V(-2d), instead of O(range).
    type: str
  end:
    description: End of the range, as O(start). The default is now.
    type: str
  idle_below:
    description: Utilization, from 0 to 1, below which a GPU counts as idle.
    type: float
    default: 0.05
  prices:
    description:
      - Prices of an hour, by GPU type, by partition such as C(1g.10gb), or by resource such as C(nvidia.com/mig-1g.10gb). C(default) is that
        of other whole GPUs.
    type: dict
  currency:
    description: Currency of the prices. Only shown.
    type: str
"""
