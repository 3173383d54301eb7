# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attributes and requirements of the modules. A module takes a variant or states its own support."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
requirements:
  - kubernetes >= 31.0.0
  - pydantic >= 2.7
  - PyYAML >= 6.0
attributes:
  action:
    description:
      - Has an action plugin of the same name that runs the task inside the Ansible process on the controller. This avoids
        starting a Python process for each task.
    support: full
    details:
      - Requires the connection P(ansible.builtin.local#connection), which Ansible uses for C(localhost) and
        C(delegate_to=localhost).
      - The task runs as a regular module on other connections, with C(async) or C(become), and when the controller lacks a
        required library. It also does so when C(ansible_python_interpreter), C(ansible.cfg) or E(ANSIBLE_PYTHON_INTERPRETER)
        selects another Python, and when the keyword C(environment) sets variables other than C(K8S_AUTH_*). Run with C(-vvv)
        to see the reason.
      - To run all tasks as regular modules, set the environment variable E(GPUCTL_FAST_PATH) to V(0).
      - Both ways return the same result and resolve relative paths from the playbook directory. Only the action plugin shows
        progress messages during a long wait.
  async:
    description: Supports the keyword C(async).
    support: full
  check_mode:
    description: Predicts the result in check mode without changing anything.
  diff_mode:
    description: Returns details on what has changed, or would change in check mode, when diff mode is enabled.
  idempotent:
    description: A second run with the same arguments changes nothing, unless the cluster was changed in between.
  platform:
    description: Target operating systems of the module. The cluster can run anywhere.
    support: full
    platforms: posix
"""

    # For modules that only read.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details: This action does not modify state.
  diff_mode:
    support: N/A
    details: This action does not modify state.
  idempotent:
    support: full
    details: This action does not modify state.
"""

    # For modules that write to the cluster.
    WRITE_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - Sends writes as server-side dry runs, so that the API server validates the plan. Without write permission, the module
        still returns the plan and warns that the server did not validate it.
  diff_mode:
    support: full
    details: Shows only what changes.
  idempotent:
    support: full
"""

    # For modules without a connection, which are action plugins alone. Each says what it does in check mode.
    CONTROLLER = r"""
options: {}
attributes:
  action:
    description: Runs on the controller only.
    support: full
  platform:
    description: Target operating systems of the module.
    support: full
    platforms: posix
"""

    # For every module with a connection. The group is defined in meta/runtime.yml.
    ACTIONGROUP_GPUCTL = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/runwhere.gpuctl.gpuctl) in C(module_defaults) to set the connection options of all modules at once.
    support: full
    membership:
      - runwhere.gpuctl.gpuctl
"""
