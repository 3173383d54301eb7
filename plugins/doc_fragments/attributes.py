# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the attributes mean; a module states its support for each, or takes a variant that does."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  action:
    description:
      - Has an action plugin of the same name, which runs the task in Ansible's own process where that can do it. That takes
        a fraction of the time of a module, whose process starts anew for each task.
    support: full
    details:
      - This is so where the connection is P(ansible.builtin.local#connection), as it is on C(localhost) and after
        C(delegate_to=localhost).
      - The task runs as a module on other connections, with C(async), with C(become), when E(ANSIBLE_PYTHON_INTERPRETER),
        C(ansible.cfg) or the variable C(ansible_python_interpreter) asks for another Python, when the keyword C(environment)
        sets other variables than those of the connection, and when a library is missing on the controller.
        With C(-vvv) it says why.
      - Set the environment variable E(GPUCTL_FAST_PATH) to V(0) to let all tasks run as modules.
      - Results are the same on both ways. Relative paths start from the directory of the playbook on both. A module cannot
        tell where a long wait stands before it ends.
  async:
    description:
      - Supports the keyword C(async).
    support: full
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
