# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the attributes mean; a module states its support for each, or takes a variant that does."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description:
      - Runs in check mode, changes nothing there, and returns what it would change.
  diff_mode:
    description:
      - Returns the differences between before and after when diff mode is on, in check mode too.
  idempotent:
    description:
      - A second run with the same arguments changes nothing, provided that nobody else changed the cluster in between.
  platform:
    description:
      - Where the module itself can run; the cluster may be anywhere.
    support: full
    platforms: posix
"""

    # For modules that only read; beside the plain fragment.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This module only reads.
  diff_mode:
    support: N/A
    details:
      - This module only reads.
  idempotent:
    support: full
    details:
      - This module only reads.
"""

    # For every module; meta/runtime.yml has the group.
    ACTIONGROUP_GPUCTL = r"""
options: {}
attributes:
  action_group:
    description:
      - Use C(group/runwhere.gpuctl.gpuctl) in C(module_defaults) to set the connection options of all modules at once.
    support: full
    membership:
      - runwhere.gpuctl.gpuctl
"""
