# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.action_plugin import action_plugin
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.cluster_hosts import cluster_of_several
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import doctor_screen
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.terminal import colored, print_screen, terminal_width


class ActionModule(action_plugin(__name__)):  # type: ignore[misc]
    """Run the module, and print what it found."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        if "checks" in result and not self._task.no_log and boolean(self._task.args.get("show", True), strict=False):
            everything = boolean(self._task.args.get("all") or False, strict=False)
            lines = doctor_screen(result, terminal_width(), everything=everything, paint=colored)
            print_screen(lines, cluster_of_several(task_vars or {}))
        return result
